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
/* Triggers have been armed again: gives back the signals that ticks no longer come by. */
void spp_linux_tick_signals_moved(void);
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
/* The same of events that are no clock and cannot trap: another signal if there are two, since two of one number that wait for a
 * thread become one. */
int spp_linux_event_signal(void);
int spp_linux_event_signal_needed(void);
/* Whether ticks of events that are no clock may come by SIGTRAP: before a run, by the kernel and the program; and in it, by the
 * drain thread, which takes it if it is not taken. */
bool spp_linux_may_trap(void);
bool spp_linux_traps_needed(void);

/* ---- clock_*.c */

SPP_CLOCKS_OF_LINUX(SPP_CLOCK_DECLARE)

/* A run begins: no event is open. */
void spp_linux_clock_perf_begin(void);
/* Handler. The value of a tick that came by a signal of a descriptor; 0: its event has been disarmed. False: it is no such tick.
 */
bool spp_linux_perf_poll(const siginfo_t *info, uintptr_t *value);
/* Handler. The value of a tick that came as SIGTRAP, and whether it is of the present run. False: it is no such tick. */
bool spp_linux_perf_trap(const siginfo_t *info, uintptr_t *value, bool *due);

/* The low bits of a signal's value, since cookies are aligned: bit 0 in those of timers that give the kernel's remainder
 * (perf-user), bits 1 to 5 the source of an event that is no clock. */
#define SPP_LINUX_TAG ((uintptr_t)63)
#define SPP_LINUX_REMAINDER ((uintptr_t)1)
#define SPP_LINUX_SOURCE_SHIFT 1
/* Has the ticks of a thread's event come by a signal, with that value. Returns -1 and errno on failure. */
int spp_linux_perf_polls(int fd, int signum, int32_t tid, uintptr_t value);
/* With what data its ticks come, as SIGTRAP with that value. */
uint64_t spp_linux_perf_trap_data(uintptr_t value);
/* Ticks of that event that are on their way say nothing any more. They are still known for ticks. */
void spp_linux_perf_quiet(int fd);
int spp_linux_timer_probe(const char **why);
int spp_linux_timer_arm(spp_os_trigger *trigger, int32_t tid, uint64_t period_ns, uintptr_t value);
void spp_linux_timer_disarm(spp_os_trigger *trigger);
bool spp_linux_timer_orphan(const spp_os_trigger *trigger);

/* ---- clock.c */

/* The CPU clock of any thread. Handler. */
clockid_t spp_linux_thread_clock(int32_t tid);

/* ---- task.c: a thread's files in /proc */

/* Reads a small file and appends a NUL; returns its length or -1. The first has it opened by the thread for files
 * (spp_linux_apart), the second opens it on the calling thread. */
ssize_t spp_linux_task_read(int32_t tid, const char *name, char *to, size_t size);
ssize_t spp_linux_task_read_here(int32_t tid, const char *name, char *to, size_t size);
/* Runs a job that opens files: here if the caller has its own table of descriptors (spp_os_own_files), else by the thread for
 * files. And so read one that is not empty. */
void spp_linux_with_files(void (*job)(void *arg), void *arg);
bool spp_linux_task_text(int32_t tid, const char *name, char *to, size_t size);
/* A thread of ours, before it has its own table of descriptors and then: guarded reads may need a pipe in it. */
void spp_linux_reads_in_table(bool own);
/* Whether they do. */
bool spp_linux_reads_by_pipe(void);
/* Runs a job on a thread that has its own table. NULL: there was none yet. */
extern void (*_Atomic spp_linux_reads_apart)(void (*job)(void *arg), void *arg);
/* Whether a thread waits in the kernel, in whosever call: also where an emulator hides the thread's own. Our threads. */
bool spp_linux_thread_waits(int32_t tid);
/* The signals a thread blocks. False: the thread has ended. */
bool spp_linux_task_blocked(int32_t tid, uint64_t *mask);
/* Whether a debugger is attached to this process. */
bool spp_linux_traced(void);
/* Files of a thread that are read often. They stay open, so the caller must have its own table of descriptors (spp_os_own_files).
 * All 0: none is open. */
typedef struct {
    int32_t tid;
    int stat, sched, schedstat, syscall;
} spp_linux_files;
/* The processor of a thread that is running or runnable. SPP_LINUX_SLEEPS: it is neither; SPP_LINUX_UNKNOWN: no file says. */
#define SPP_LINUX_SLEEPS (-1)
#define SPP_LINUX_UNKNOWN (-2)
int spp_linux_thread_ready(int32_t tid, spp_linux_files *f);
/* What proc_pid_syscall(5) says of a thread, NUL-terminated. False: nothing. */
bool spp_linux_thread_call(int32_t tid, spp_linux_files *f, char *to, size_t size);
/* Whether a thread that sleeps does so in a system call that a signal would end: one for a time, for a descriptor or for work.
 * Not read and write, which streams of the C library make for themselves and begin again, as spprof's own code does its sleeps.
 */
bool spp_linux_thread_waits_past(int32_t tid, spp_linux_files *f);
/* When a thread last ran, by the clock of its processor's run queue (if it is running: when the kernel last counted), and its CPU
 * time so far. False: the kernel does not say (no CONFIG_SCHED_DEBUG). */
bool spp_linux_thread_ran_until(int32_t tid, spp_linux_files *f, uint64_t *until_ns, uint64_t *cpu_ns);
/* How long a thread that has run has waited for a processor in all. False: the kernel does not say (no CONFIG_SCHEDSTATS), or the
 * caller has no table of descriptors of its own. */
bool spp_linux_thread_waited(int32_t tid, spp_linux_files *f, uint64_t *waited_ns);

/* ---- perf.c */

/* An ioctl of a perf event: raw, since C libraries differ in the type of the request. Handler. */
static inline long spp_linux_perf_call(int fd, unsigned long request, void *argument) {
    return syscall(SYS_ioctl, fd, request, argument);
}
/* A run begins, with no event open. */
void spp_linux_perf_begin(void);
/* Which event, as perf_event_attr has it. */
typedef struct {
    uint32_t type;
    uint64_t config, period;
    bool kernel; /* with what runs in the kernel */
} spp_linux_perf_event;
/* Whether the kernel allows such events. Returns -1 and errno if not. */
int spp_linux_perf_probe(spp_linux_perf_event of);
/* Opens a disabled event for a thread; *event is its number. If `data` is not 0, ticks come as SIGTRAP and carry it. Returns -1
 * and errno on failure, also if the program would keep less than half of the descriptors it may have. */
int spp_linux_perf_open(int32_t tid, spp_linux_perf_event of, uint64_t data, uint64_t *event);
/* Whether the descriptor still belongs to that event. The program may close any descriptor and reuse its number. */
bool spp_linux_perf_is(int fd, uint64_t event);
/* Closes the descriptor if it still belongs to the event. Between the check and the close (0.2 us) the program may close it and
 * reuse its number. That cannot be prevented: an event must be in the program's table, where the handler changes its period. */
void spp_linux_perf_close(int fd, uint64_t event);
/* Whether any event is open. Any thread. */
bool spp_linux_perf_used(void);

/* ---- sender.c: the clock `signal` */

/* A tick's instant: `more`, `coarse`, `called`, `began_ns` and `looked_cpu` as in spp_os_context. `again`: so many more instants
 * found the thread here. */
typedef struct {
    uint32_t more, again;
    bool coarse;
    uintptr_t called;
    uint64_t began_ns, looked_cpu;
} spp_linux_instant;
/* Sets the function that takes the sample of a thread that has just left a call, on that thread, with all signals blocked. Call
 * before a thread is armed. */
void spp_linux_sender_samples_with(void (*to)(uintptr_t cookie, const spp_linux_instant *of));
/* Arms a thread; its ticks come by signal `by`. `older`: than the run. NULL with errno: it has ended, or a limit is reached. Call
 * these functions one at a time. */
void *spp_linux_sender_arm(int32_t tid, int by, uint64_t period_ns, void *cookie, bool older);
void spp_linux_sender_disarm(void *of);
/* Whether the thread is sent no more signals because it makes calls that no wrapper sees. */
bool spp_linux_sender_unseen(const void *of);
/* Handler, on the thread itself. */
void spp_linux_sender_period(void *of, uint64_t period_ns);
/* Handler. Whether a signal belongs to this clock, in this run or an earlier one. */
bool spp_linux_is_sent(const siginfo_t *info);
/* Handler, for such a signal. Returns the cookie if a tick is due now; 0: none. The caller zeroes *of. */
uintptr_t spp_linux_sent(const siginfo_t *info, const ucontext_t *uc, spp_linux_instant *of);
bool spp_linux_sender_sends(int signum); /* by this one, to any thread now */
void spp_linux_sender_child(void);       /* in a forked child, which has no samplers */

/* ---- sampler.c: the threads that look, for the clock `signal` */

/* Starts threads until there are `wanted`. False: there is none. */
bool spp_linux_samplers_start(uint32_t wanted);
uint32_t spp_linux_samplers(void); /* how many run */
bool spp_linux_is_sampler(int32_t tid);
bool spp_linux_samplers_idle(void); /* none runs, nor will after a rest */
/* Handler. The time one signal represents while the samplers look more rarely than they were asked to; else 0. */
uint64_t spp_linux_samplers_stretched_ns(void);
uint64_t spp_linux_samplers_cpu_ns(void); /* of this run, or the last */
void spp_linux_samplers_stop(void);
/* Ends the threads, and starts them again. Between the two nothing is armed or disarmed, and no signal is sent. */
void spp_linux_samplers_rest(void);
void spp_linux_samplers_wake(void);
void spp_linux_samplers_child(void); /* in a forked child, which has none */

/* ---- imports.c */

typedef struct {
    const char *name;
    void *own, *real; /* real NULL: the C library has no such function */
    void *keep;       /* the pointer by which `own` calls the real one; NULL: it calls another row's */
} spp_linux_import;

/* Sets the functions to replace. Call once, before the others; the list must stay. */
#define SPP_LINUX_IMPORTS_MOST 240u
void spp_linux_imports_make(const spp_linux_import *list, size_t n);
/* The row of a name; NULL: it has none. Any thread. */
const spp_linux_import *spp_linux_import_of(const char *name);
/* At the start of a run. */
void spp_linux_libraries_find(void);
/* Handler. Whether code belongs to the C library, or to another object whose system calls do not count as made without it. */
bool spp_linux_in_c_library(uintptr_t pc);
/* Handler. Whether code is ours. What a tick ends there, we begin again. */
bool spp_linux_in_own_code(uintptr_t pc);
/* Makes every object loaded so far, except ours, call `own` for `real`. Any thread, not in a handler; may wait for the loader. */
void spp_linux_imports_replace(void);

/* The function of that name that objects call. By the thread that starts. */
void *spp_linux_real_of(const char *name);

/* ---- signals.c: signals that we handle, calling the program's own handler from ours
 *
 * The program's calls of sigaction() and the like are intercepted, and what they set is kept. The kernel has our handler, if
 * necessary for the life of the process, because a sleeping thread gets its tick when it wakes. So no tick ever reaches a handler
 * of the program's, or ends the program by a signal's default. */

/* What signals.c needs of files that use it. */
typedef struct {
    /* Handler. Whether a signal is a tick of ours, of this run or an earlier one. */
    bool (*is_tick)(const siginfo_t *info);
    /* Sends a thread a signal that looks like a tick and is none. */
    void (*nudge)(int32_t tid);
    /* Handler. Ends the interrupted system call, because the program's handler demands it. */
    void (*end_call)(ucontext_t *context);
    /* Whether ticks come by a signal. Any thread. */
    bool (*ticks_by)(int signum);
    /* Whether a tick by this signal may be pending for a thread that blocks it. Any thread. */
    bool (*pends)(int signum);
} spp_linux_signals_others;
extern const spp_linux_signals_others *spp_linux_signals_by; /* set before any handler of ours is the kernel's */
/* The first run of the process begins. `others` must stay. */
void spp_linux_signals_begin(const spp_linux_signals_others *others);
/* Makes a thread check the system call it is in, as at a tick: a signal of the program's may have to end it. */
void spp_linux_nudge(int32_t tid);
/* Installs our handler, if it is not installed already. */
bool spp_linux_signal_take(int signum, spp_linux_handler handler);
/* A run begins. */
void spp_linux_signals_run(void);
/* Whether our handler is installed. (A program may replace it by a system call of its own, which is not intercepted.) */
bool spp_linux_signal_installed(int signum);
/* Whether the program has no handler for the signal, and no descriptor that receives it. */
bool spp_linux_signal_free(int signum);
/* No more ticks come by this signal: restores the program's own action, unless it is a handler, which a late tick would reach. */
void spp_linux_signal_leave(int signum);
/* In a forked child, where no tick can be on its way: restores all of them. */
void spp_linux_signals_child(void);
/* Handler. Does what the program set for a signal that is no tick. Our handler returns after it. */
void spp_linux_signal_pass(int signum, siginfo_t *info, void *context);

/* Takes back ticks that are pending for the calling thread because it blocks their signal. No more are sent to it. */
void spp_linux_signals_take_back(void);

/* A signal that the C library reserves (set*id() interrupts all threads by it): no program can block it, wait for it or handle
 * it. We take it only if the C library has a handler for it, which ours calls for a signal that is no tick. */
#define SPP_LINUX_RESERVED 33

/* Handler. Whether the caller is the process that has these signals, not a child that shares its memory. */
bool spp_linux_signals_own(void);
/* Before exec (true) and if it fails (false): makes the kernel ignore what the program ignores, which the new program inherits.
 */
void spp_linux_signals_exec(bool begins);
/* The same around a call of the C library that makes a child which shares our memory, so that we do not see it. By the parent. */
void spp_linux_signals_spawn(bool begins);

/* ---- signal_calls.c */

/* Calls that set signals' actions, wait for signals or show which are pending. */
#define SPP_LINUX_SIGNAL_CALLS 15
extern const spp_linux_import spp_linux_signal_calls[SPP_LINUX_SIGNAL_CALLS];

/* The program is about to make this request of fcntl() or ioctl(): one that makes a descriptor send signals. Any thread. */
void spp_linux_signals_owner(int request, long argument);
/* Call at the start of a run, before a signal is chosen: looks for descriptors that may send one. */
void spp_linux_signals_owned(void);

/* ---- wrappers.c: see handshake.h */

extern const spp_linux_import spp_linux_wrappers[];
extern const size_t spp_linux_wrappers_n;

/* ---- jumps.c */

/* Calls that leave frames without a return. */
#define SPP_LINUX_JUMPS 6
extern const spp_linux_import spp_linux_jumps[SPP_LINUX_JUMPS];
/* Call before them: learns how this C library stores a stack pointer. */
void spp_linux_jumps_learn(void);

/* ---- exec.c */

/* Calls that replace the program, or make a child that shares our memory. */
#define SPP_LINUX_EXECS 12
extern const spp_linux_import spp_linux_execs[SPP_LINUX_EXECS];
/* ---- alternate.c */

/* Calls that make a thread or set its alternate stack. */
#define SPP_LINUX_ALTERNATE 2
extern const spp_linux_import spp_linux_alternate[SPP_LINUX_ALTERNATE];
/* Whether threads made from now on get an alternate stack of ours. The calling thread gets one at once, and keeps it. Not in a
 * handler. */
void spp_linux_alternates(bool wanted);
/* What such a thread calls first, too; NULL: nothing. */
void spp_linux_births(void (*born)(void));

/* ---- alone.c */

/* Calls that require a process of one thread, and calls that end it at once. */
#define SPP_LINUX_ALONE 5
extern const spp_linux_import spp_linux_alone[SPP_LINUX_ALONE];
/* The program has, or is about to have, a filter that does not allow all calls on its threads. Handlers then make only those in
 * the first rows of csrc/README.md. */
extern _Atomic bool spp_linux_confined;
/* The filter does not allow the calls by which a handler learns whether a call would wait. */
extern _Atomic bool spp_linux_blinded;
/* The filter does not allow all calls of our threads: the program's threads start no more of ours. */
extern _Atomic bool spp_linux_barred;
/* Call before the calling thread puts on a filter (NULL: one that allows next to nothing). If it does not allow what handlers
 * call, or is for `all` threads of the process and does not allow what our threads call, both end first. */
struct sock_fprog;
extern void (*spp_linux_confine)(const struct sock_fprog *filter, bool all); /* set by alone.c; NULL: not yet */
/* Gives the calling thread its own table of descriptors, with only `but` (-1: none) in it, if that is open. */
bool spp_linux_own_table(int but);
/* The thread for files: has its own table of descriptors, for files opened for a moment. It runs `work(arg)` while the caller
 * waits; if there is no such thread, the caller runs it. Any thread, at any time, also while another one starts or stops it. */
void spp_linux_apart_start(void);
void spp_linux_apart_stop(void);
void spp_linux_apart_child(void); /* in a forked child, which has no such thread */
void spp_linux_apart(void (*work)(void *), void *arg);
int32_t spp_linux_apart_tid(void); /* 0: there is none */

/* ---- intercept.c */

/* Intercepts the program's calls from now on: those of the lists above. By the drain thread, or before it runs: may wait for the
 * dynamic loader. `others` as in spp_linux_signals_begin. */
void spp_linux_intercept(const spp_linux_signals_others *others);

#endif
