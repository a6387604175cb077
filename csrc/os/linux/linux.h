/* What the files of os/linux share among themselves. */
#ifndef SPPROF_OS_LINUX_LINUX_H
#define SPPROF_OS_LINUX_LINUX_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef sigev_notify_thread_id /* glibc has the field without its name */
#define sigev_notify_thread_id _sigev_un._tid
#endif

#include "os/ticks.h"

/* ---- tick_signals.c: which signals ticks come by. The thread that starts or stops the run, or the drain thread, unless said */

/* A handler that is installed by sigaction(). */
typedef void (*spp_linux_handler)(int signum, siginfo_t *info, void *context);

/* Chooses the signals of a run, and installs their handlers. Returns -1 if each that could serve is in use. */
int spp_linux_tick_signals_begin(spp_linux_handler tick, spp_linux_handler trap, bool wants_trap, bool may_trap);
/* As spp_os_signal_taken. */
bool spp_linux_tick_signals_taken(void);
/* Any thread. Whether triggers are being armed again, so that ticks may come by a signal of before. */
bool spp_linux_tick_signals_move(void);
void spp_linux_tick_signals_end(void);
void spp_linux_tick_signals_child(void); /* in a forked child */
/* Any thread. Whether ticks of the clock perf-trap come by SIGTRAP. */
bool spp_linux_traps(void);
/* Any thread. The signal of other perf events and of the clock `signal`, and that of timers; 0: none. */
int spp_linux_poll_signal(void);
int spp_linux_timer_signal(void);
/* Chooses one if there is none. */
int spp_linux_poll_signal_needed(void);

/* ---- clock_perf.c, clock_signal.c, clock_timer.c */

extern const spp_clock spp_clock_perf, spp_clock_perf_trap, spp_clock_perf_user, spp_clock_signal, spp_clock_timer;

/* A run begins: no event is open. */
void spp_linux_clock_perf_begin(void);
/* Handler. The cookie of the event that has this descriptor, if its ticks are the calling thread's; 0: it has been disarmed. */
bool spp_linux_perf_cookie(int fd, uintptr_t *value);
/* Handler. The cookie of a tick that came as SIGTRAP, and whether it is of the present run. False: it is no such tick. */
bool spp_linux_perf_trap(const siginfo_t *info, uintptr_t *cookie, bool *due);

/* Set in the value of timers that give the kernel's remainder (perf-user): cookies are aligned. */
#define SPP_LINUX_REMAINDER ((uintptr_t)1)
int spp_linux_timer_probe(const char **why);
int spp_linux_timer_arm(spp_os_trigger *trigger, int32_t tid, uint64_t period_ns, uintptr_t value);
void spp_linux_timer_disarm(spp_os_trigger *trigger);
bool spp_linux_timer_orphan(const spp_os_trigger *trigger);

/* ---- clock.c */

/* The CPU clock of any thread. Handler. */
clockid_t spp_linux_thread_clock(int32_t tid);

/* ---- task.c: a thread's files in /proc */

/* Reads a small one, and puts a NUL behind it; its length or -1. The second opens it here, not apart (spp_linux_apart). */
ssize_t spp_linux_task_read(int32_t tid, const char *name, char *to, size_t size);
ssize_t spp_linux_task_read_here(int32_t tid, const char *name, char *to, size_t size);
/* The signals that a thread blocks. False: it is gone. */
bool spp_linux_task_blocked(int32_t tid, uint64_t *mask);
/* Whether a debugger is attached to this process. */
bool spp_linux_traced(void);
/* A thread's files that are read often: left open by who calls, who has a table of its own (spp_os_own_files). All 0: none is. */
typedef struct {
    int32_t tid;
    int stat, sched;
} spp_linux_files;
/* The processor of a thread that runs, or would if it had one. SPP_LINUX_SLEEPS: it does not; SPP_LINUX_NOT_TOLD: no file tells.
 */
#define SPP_LINUX_SLEEPS (-1)
#define SPP_LINUX_NOT_TOLD (-2)
int spp_linux_thread_ready(int32_t tid, spp_linux_files *f);
/* Until when a thread ran (for one that runs: until when the kernel counted last), by the clock of its processor's run queue, and
 * for how long in its life. False: the kernel does not tell (no CONFIG_SCHED_DEBUG). */
bool spp_linux_thread_ran_until(int32_t tid, spp_linux_files *f, uint64_t *until_ns, uint64_t *cpu_ns);

/* ---- perf.c */

/* An ioctl of a perf event: raw, since C libraries differ in the type of the request. Handler. */
static inline long spp_linux_perf_call(int fd, unsigned long request, void *argument) {
    return syscall(SYS_ioctl, fd, request, argument);
}
/* A run begins: none is open. */
void spp_linux_perf_begin(void);
/* Whether the kernel gives events, with what runs in itself or without; else -1 and errno. */
int spp_linux_perf_probe(bool kernel);
/* Opens a disabled event of a thread; -1 and errno, also if the program would be left with less than half of the descriptors that
 * it may have. `data` not 0: its ticks come as SIGTRAP, with this. *event is its number. */
int spp_linux_perf_open(int32_t tid, uint64_t period_ns, bool kernel, uint64_t data, uint64_t *event);
/* Whether the descriptor is that event's. The program may close any number, and get it for a file of its own. */
bool spp_linux_perf_is(int fd, uint64_t event);
/* Between the question and the close, 0.2 us, the program may close it and get the number for a file of its own: that cannot be
 * told, and an event must be in the program's table, where its thread's handler changes its period. */
void spp_linux_perf_close(int fd, uint64_t event);

/* ---- sender.c: the clock `signal` */

/* What a tick of this clock says of its instant: `more`, `coarse` and `called` as in spp_os_context; so many more instants met
 * the thread here. */
typedef struct {
    uint32_t more, again;
    bool coarse;
    uintptr_t called; /* as there */
} spp_linux_instant;
/* Before the first is armed: what takes the sample of a thread that has left a call, on that thread. All signals are blocked. */
void spp_linux_sender_gives_to(void (*to)(uintptr_t cookie, const spp_linux_instant *of));
/* Arms a thread; its ticks come by signal `by`. NULL with errno: it is gone, or limits. Not within the others. */
void *spp_linux_sender_arm(int32_t tid, int by, uint64_t period_ns, void *cookie);
void spp_linux_sender_disarm(void *of);
/* Whether the thread makes calls that no wrapper tells of, and is sent nothing any more. */
bool spp_linux_sender_unseen(const void *of);
/* Handler, of the thread itself. */
void spp_linux_sender_period(void *of, uint64_t period_ns);
/* Handler. Whether a signal is of this clock, now or of an earlier use. */
bool spp_linux_is_sent(const siginfo_t *info);
/* Handler, where it is. The cookie whose tick is due now; 0: none is. *of is zeroed before. */
uintptr_t spp_linux_sent(const siginfo_t *info, const ucontext_t *uc, spp_linux_instant *of);
/* Handler. What a signal stands for while the sampler looks more rarely than it was asked to; else 0. */
uint64_t spp_linux_sender_stands_ns(void);
uint32_t spp_linux_samplers(void); /* its threads */
bool spp_linux_is_sampler(int32_t tid);
bool spp_linux_sender_sends(int signum); /* by this one, to any thread now */
uint64_t spp_linux_sender_cpu_ns(void);  /* of this run, or the last */
void spp_linux_sender_stop(void);
/* Its threads end, and go on in new ones: nothing is armed or disarmed meanwhile, and no signal is sent. */
void spp_linux_sender_rest(void);
void spp_linux_sender_wake(void);
void spp_linux_sender_child(void); /* in a forked child, which has no such threads */

/* ---- imports.c */

typedef struct {
    const char *name;
    void *own, *real; /* no `real`: the C library has none */
    void *keep;       /* the pointer that `own` calls the real one by; NULL: it calls another's */
} spp_linux_import;

/* Those that are to be replaced: once, before what follows. The list stays. */
#define SPP_LINUX_IMPORTS_MOST 240u
void spp_linux_imports_make(const spp_linux_import *list, size_t n);
/* The row of a name; NULL: it has none. Any thread. */
const spp_linux_import *spp_linux_import_of(const char *name);
/* At the start of a run. */
void spp_linux_libraries_find(void);
/* Handler. Whether code is the C library's, or another's that makes calls of its own and is seen all the same. */
bool spp_linux_in_c_library(uintptr_t pc);
/* Has every object that is loaded by now, but ours, call `own` for `real`. Any thread, not a handler; may wait for the loader. */
void spp_linux_imports_replace(void);

/* The function of that name that objects call. By the thread that starts. */
void *spp_linux_real_of(const char *name);

/* ---- signals.c: signals that are handled by us, while the program's own handler for them is called by ours
 *
 * What the program says by sigaction() and its kin is seen where it is said, and kept. The kernel has our handler, for the
 * life of the process if need be, since a thread that sleeps gets its tick when it wakes. So no tick is ever given to a handler
 * of the program's, nor ends the program by a signal's default. */

#define SPP_LINUX_EXECS 12
#define SPP_LINUX_ALONE 5
#define SPP_LINUX_ALTERNATE 2
/* What signals.c needs of files that need it. */
typedef struct {
    /* Handler. Whether a signal is a tick of ours, of this run or an earlier one. */
    bool (*is_tick)(const siginfo_t *info);
    /* Sends a thread what looks like a tick, and is none. */
    void (*nudge)(int32_t tid);
    /* Handler. Has the call that was interrupted end, since the program's handler wants that. */
    void (*end_call)(ucontext_t *context);
    /* Whether ticks come by a signal. Any thread. */
    bool (*ticks_by)(int signum);
    /* Whether one by this signal may wait for a thread that blocks it. Any thread. */
    bool (*pends)(int signum);
    const spp_linux_import *execs, *alone, *alternate; /* as many rows as above */
} spp_linux_signals_others;
/* Sees that the program's calls are seen from here on, the others' too. By the drain thread, or before it: may wait for the
 * dynamic loader. `others` stay. */
void spp_linux_signals_look(const spp_linux_signals_others *others);
/* Has a thread look at the system call that it is in, as at a tick: a signal of the program's may be to end it. */
void spp_linux_nudge(int32_t tid);
/* Installs our handler, if it does not stand already. */
bool spp_linux_signal_take(int signum, spp_linux_handler handler);
/* Whether it stands: a system call that is not the C library's is not seen. */
bool spp_linux_signal_stands(int signum);
/* Whether the program has no handler for it, and no descriptor that gives it. */
bool spp_linux_signal_free(int signum);
/* Handler. The program's handler for any signal; false: it has none. */
bool spp_linux_signal_theirs(int signum, struct sigaction *action);
/* No tick is sent by this signal any more: the program's own action is put back, unless it is a handler, to which a late tick
 * would go. */
void spp_linux_signal_leave(int signum);
/* In a forked child, where no tick can be on its way: all of them. */
void spp_linux_signals_child(void);
/* Handler. Does what the program wants of a signal that is no tick. Our handler does nothing after it. */
void spp_linux_signal_pass(int signum, siginfo_t *info, void *context);

/* The calling thread takes ticks back that wait because it blocks their signal; none is sent any more. */
void spp_linux_signals_take_back(void);

/* A signal that the C library keeps for itself (set*id() has all threads called by it): no program can block it, wait for it or
 * handle it. Taken only if it has a handler for it, which then is called for what is no tick. */
#define SPP_LINUX_RESERVED 33

/* Handler. Whether the caller is the process whose signals these are, not a child that has its memory. */
bool spp_linux_signals_own(void);
/* Before exec: what the program ignores is ignored by the kernel too, for that goes on in the new one; or it failed. */
void spp_linux_signals_exec(bool begins);
/* The same around a call of the C library's that makes a child which we do not see, for it shares our memory: by the parent. */
void spp_linux_signals_spawn(bool begins);

/* ---- wrappers.c: what handshake.h is about */

extern const spp_linux_import spp_linux_wrappers[];
extern const size_t spp_linux_wrappers_n;

/* ---- exec.c */

/* Calls that replace the program, or make a child which shares our memory. */
extern const spp_linux_import spp_linux_execs[SPP_LINUX_EXECS];
/* ---- alternate.c */

/* Calls that make a thread, or give it a stack for signals. */
extern const spp_linux_import spp_linux_alternate[SPP_LINUX_ALTERNATE];
/* Whether threads that are made from here on get one of ours; the calling thread gets one at once, which stays. Not a handler. */
void spp_linux_alternates(bool wanted);

/* ---- alone.c */

/* Calls for which the program must have one thread, and those that end it at once. */
extern const spp_linux_import spp_linux_alone[SPP_LINUX_ALONE];
/* The program has, or is about to have, a filter of its own that may end it for a system call that it does not make itself: the
 * handlers make only those of csrc/README.md's first rows. */
extern _Atomic bool spp_linux_confined;
/* It does not allow the calls that tell whether a call would wait. */
extern _Atomic bool spp_linux_blinded;
/* It does not allow all that our threads call: the program's threads start none of ours any more. */
extern _Atomic bool spp_linux_barred;
/* The calling thread is about to put a filter on; NULL: one that allows next to nothing. Before that, where it does not allow
 * what handlers call there, or what our threads call and it is for `all` threads of the process, there are neither any more. */
struct sock_fprog;
extern void (*spp_linux_confine)(const struct sock_fprog *filter, bool all); /* set by alone.c; NULL: not yet */
/* Gives the calling thread a table of descriptors of its own, empty but for one (-1: none), if that is open. */
bool spp_linux_own_table(int but);
/* A thread of ours that has one, for files that are opened in passing: it does `work(arg)`, and the caller waits. Without one the
 * caller does it itself. Any thread, at any time, also while another one starts or stops it. */
void spp_linux_apart_start(void);
void spp_linux_apart_stop(void);
void spp_linux_apart_child(void); /* in a forked child, which has no such thread */
void spp_linux_apart(void (*work)(void *), void *arg);
int32_t spp_linux_apart_tid(void); /* 0: there is none */

#endif
