/* This process and its children, and calls of the program for which our threads must get out of the way. Any thread, not in a
 * handler, unless said. */
#ifndef SPPROF_OS_PROCESS_H
#define SPPROF_OS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>

/* "posix" or "nt". */
extern const char *const spp_os_family;
/* Whether processes fork, and exec replaces the program in place. */
extern const bool spp_os_forks;
/* Between the paths of a list in the environment. */
extern const char spp_os_path_separator;
/* Sets a variable of the environment, or removes it if value is NULL. Returns -1 on failure. No other thread may use the
 * environment: GIL held. */
int spp_os_setenv(const char *name, const char *value);

/* The machine's processor, as os.uname() names it, or Windows' environment. */
void spp_os_host_machine(char *to, size_t size);

/* Whether the program put on a filter of system calls that does not allow all calls of our threads. Then no run may start. */
bool spp_os_barred(void);
/* Whether it put on one that does not allow all calls of ours on its own threads. Any thread. */
bool spp_os_confined(void);

/* Each of these sets a function that is called where the system lets us see the event, by the thread that causes it. */
/* `rest` before and `wake` after a call that requires a process of one thread. */
void spp_os_alone_notify(void (*rest)(void), void (*wake)(void));
/* Before the process is ended at once. */
void spp_os_leave_notify(void (*call)(void));
/* Before the calling thread or the process is confined to system calls that do not include all of ours. */
void spp_os_confine_notify(void (*call)(void));
/* Before the program is replaced. */
void spp_os_exec_notify(void (*call)(void));
/* Preloads the object at `path` (NULL: none) into child interpreters that would otherwise not be profiled, if the variable
 * `marker` is set in their environment: those whose options ignore PYTHONPATH, or whose first entry there is not
 * `folder`. The caller keeps all three strings. */
void spp_os_exec_preload(const char *path, const char *marker, const char *folder);

#endif
