/* The supervisor of `spprof run`, a process beside the program's: hears of the program's end, which waits until it has said its
 * part. POSIX; elsewhere these do nothing. */
#ifndef SPPROF_MODULE_BESIDE_H
#define SPPROF_MODULE_BESIDE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

/* The function `fork_unseen`: src/spprof/_core.pyi. */
extern PyMethodDef spp_beside_methods[];

/* `fd`: this process's end of the socket that leads there; -1: none. From here on every way out of the interpreter waits. Once,
 * before the run begins. The main thread, with the GIL. */
void spp_beside_take(int fd);

/* The socket's number, for a program that is about to take this one's place, which gets it; or -1. `stays`: it did not come to
 * that. Any thread, with the GIL. */
int spp_beside_hand_on(void);
void spp_beside_keep(void);

/* In a forked child, which waits for nobody. With the GIL. */
void spp_beside_forget(void);

/* An exception ends the program, which the supervisor is told with its end. With the GIL. */
void spp_beside_failed(void);

/* Whether this process's end waits. */
bool spp_beside_waits(void);

/* The process is about to end by `status`: gives what it is to end by. Once; only in the process that took the socket. Keeps the
 * GIL, so that no other thread of Python's goes on. */
int spp_beside_wait(int status);

#endif
