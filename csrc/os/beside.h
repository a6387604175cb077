/* The program's end of the socket to the supervisor of `spprof run`. The supervisor is a process beside the program: it sees the
 * program's end, and a program that ends by itself waits for it. POSIX; elsewhere there is none, and these do nothing. With the
 * GIL unless said. */
#ifndef SPPROF_OS_BESIDE_H
#define SPPROF_OS_BESIDE_H

#include <stdbool.h>

/* `fd`: the socket; -1: none. Returns whether there is one; then exit() waits, and the caller has the interpreter's end wait by
 * spp_os_beside_end(). Once, before the run begins. The main thread. */
bool spp_os_beside_take(int fd);
/* Whether this process is the program: the first that asks by the socket `fd`, which a command that is not Python may hand to
 * several processes. Also true if there is no such socket any more: nobody else is known. */
bool spp_os_beside_claim(int fd);
/* Waits until the supervisor has done its part. Once; later calls return at once, as in any other process. With or without the
 * GIL. */
void spp_os_beside_end(void);
/* The same, for a process that is about to end by `status`; returns the status to end by. Keeps the GIL, so that no other thread
 * of Python's runs meanwhile. */
int spp_os_beside_wait(int status);
/* Whether this process's end waits. */
bool spp_os_beside_waits(void);
/* `call` runs when the process leaves by exit() of C: after the program's own handlers, one of which may stop a profile, and
 * before spp_os_beside_end(). (Windows: in turn with those handlers.) */
void spp_os_at_exit(void (*call)(void));
/* Reports with the end that an exception ended the program. */
void spp_os_beside_failed(void);

/* Lets the program that is about to replace this one inherit the socket. Returns its number, or -1. If the exec fails, _keep()
 * takes that back. Any thread. */
int spp_os_beside_hand_on(void);
void spp_os_beside_keep(void);
/* In a forked child, whose end does not wait. */
void spp_os_beside_forget(void);

/* Whether this process gets orphans as its children (Linux: the first of a namespace, or a subreaper). */
bool spp_os_reaps(void);
/* Forks a child that wait() does not report; no handler of a fork runs. Returns as fork() does. */
int spp_os_fork_quietly(void);

#endif
