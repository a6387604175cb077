/* Functions that were chosen by patterns MODULE:QUALNAME (docs/times.md), from 3.12 on. */
#ifndef SPPROF_MODULE_CHOSEN_H
#define SPPROF_MODULE_CHOSEN_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

/* The patterns: pairs of a module's and a qualified name's, each ending with a zero byte; an empty one behind them. NULL: none.
 */
typedef struct {
    char *patterns;
} spp_chosen;

/* Attached (GIL held), all of it. */
/* `what`: patterns separated by commas; * stands for any characters, ? for one. 0; or -1 with an exception. */
int spp_chosen_set(spp_chosen *chosen, const char *what);
/* Whether the code object of the running frame, which begins, is chosen. A pending exception is lost. */
bool spp_chosen_has(const spp_chosen *chosen, const PyCodeObject *code);
void spp_chosen_free(spp_chosen *chosen);

#endif
