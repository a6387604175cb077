/* Hearing of `os.exec*` before it happens, while a profile is taken. */
#ifndef SPPROF_MODULE_EXEC_H
#define SPPROF_MODULE_EXEC_H

#include <stdbool.h>

/* GIL held, both. From `hook` to `unhook` spp_run_exec is called before each os.exec* of any interpreter. False: there is no
 * such function to hook, as CPython has it. */
bool spp_exec_hook(void);
void spp_exec_unhook(void);

#endif
