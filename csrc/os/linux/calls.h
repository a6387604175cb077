/* System calls that a tick meets: whether one was interrupted, and whether it is to end with EINTR. */
#ifndef SPPROF_OS_LINUX_CALLS_H
#define SPPROF_OS_LINUX_CALLS_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

/* At the start of a run, before the others: what this processor leaves in registers. */
void spp_linux_calls_init(void);

/* Handler. Whether the thread was interrupted inside a system call, or on its way in or out. */
bool spp_linux_at_call(const ucontext_t *uc);
/* Handler. Looks at the call that the thread stands on, if it does: ends it with EINTR if, without our tick, a signal of the
 * program's would have. `trapped`: the tick came as SIGTRAP, which interrupts no call itself. Cheap where there is none. */
void spp_linux_see_call(ucontext_t *uc, bool trapped);

/* Handler. Whether the thread is in a call, or has just come out of one. Where registers do not tell, only if that slept. */
bool spp_linux_interrupted_call(const ucontext_t *uc);
/* Handler. Whether the thread slept in a call, or was about to, whatever comes of that call. */
bool spp_linux_sleeps_in_call(const ucontext_t *uc);

/* Handler. Ends the call that a signal of the program's has interrupted, if it would begin anew because our handler was the
 * kernel's one for it. */
void spp_linux_end_call(ucontext_t *uc);

/* Handler. Whether a call of this number with these arguments would wait now, so that a signal's handler may end it with EINTR,
 * and would begin anew if that handler said SA_RESTART. For tests. */
bool spp_linux_would_wait(long number, const uintptr_t arguments[6]);

#endif
