/* CPython's own functions of which a run intercepts the calls, while a profile is taken. */
#ifndef SPPROF_MODULE_HOOKS_H
#define SPPROF_MODULE_HOOKS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

/* GIL held, all of it, and whatever these call. */
typedef struct {
    int (*exit)(int status); /* before os._exit; gives the status to end by */
    void *(*exec)(
        PyObject **env); /* before os.execv (env: NULL) and os.execve (it may replace *env by a new reference); returns `kept` */
    void (*exec_failed)(void *kept); /* after an exec that failed */
} spp_hooks_to;

/* From `put` to `take_away` (`exit_too`: else os._exit stays ours): before each os.exec* of any interpreter spp_run_exec is
 * called, then to->exec; before os._exit to->exit; and each new thread of `threading` gets its name, and its last one at its
 * end. False: there is no such exec to hook, as CPython has it. */
bool spp_hooks_put(const spp_hooks_to *to);
void spp_hooks_take_away(bool exit_too);

#endif
