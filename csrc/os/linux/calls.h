/* System calls that a tick interrupts: whether there is one, and whether it must end with EINTR. */
#ifndef SPPROF_OS_LINUX_CALLS_H
#define SPPROF_OS_LINUX_CALLS_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

/* Call at the start of a run, before the others. Learns what this processor leaves in registers. */
void spp_linux_calls_init(void);

/* Handler. Whether the thread was interrupted inside a system call, or on its way in or out. */
bool spp_linux_at_call(const ucontext_t *uc);
/* Handler. If the tick interrupted a system call: ends it with EINTR if a signal of the program's would have done so without us.
 * `trapped`: the tick came as SIGTRAP, which itself interrupts no call. Cheap if there is no call. */
void spp_linux_see_call(ucontext_t *uc, bool trapped);

/* Handler. Whether the thread is in a call, or has just come out of one. On processors whose registers do not show that: whether
 * a call slept. */
bool spp_linux_interrupted_call(const ucontext_t *uc);
/* Handler. Whether the call has ended with EINTR. */
bool spp_linux_ended_call(const ucontext_t *uc);
/* Handler. Whether the thread was asleep in a call, or about to sleep. The call may end or be restarted. */
bool spp_linux_sleeps_in_call(const ucontext_t *uc);

/* Handler. Ends the call that a signal of the program's interrupted, if the kernel would restart it because our handler was the
 * installed one. */
void spp_linux_end_call(ucontext_t *uc);

/* Handler. Whether a call would wait now and the kernel would restart it for a handler with SA_RESTART, so that a handler without
 * it may end it with EINTR. Public for tests. */
bool spp_linux_would_wait(long number, const uintptr_t arguments[6]);

#endif
