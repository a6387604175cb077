/* Ticks: what makes a thread's clock interrupt it. Returns 0 for success and -1 for failure unless said otherwise. "Handler" is
 * defined in os/context.h.
 *
 * On systems that send signals to threads, the thread's own clock interrupts it, and its handler takes the sample. On others our
 * sampler (os/suspend) looks at the CPU clock of each armed thread, and suspends a thread whose clock moved by enough, lets the
 * core walk it as a handler would, and resumes it. It never touches a thread whose clock did not move. In both cases the core's
 * tick function runs while the thread cannot move, and obeys a handler's rules. */
#ifndef SPPROF_OS_TICKS_H
#define SPPROF_OS_TICKS_H

#include <stdbool.h>
#include <stdint.h>

#include "os/context.h"

typedef enum {
    SPP_TICK_CPU,
    SPP_TICK_REMAINDER,
    SPP_TICK_EVENT, /* of what is counted besides time (os/event.h): the context says which */
    /* Only counted, without a context: a tick was due, but ... */
    SPP_TICK_REFUSED,  /* the system did not let us suspend the thread */
    SPP_TICK_NO_STACK, /* the thread's alternate stack is too small for the handler */
} spp_tick;

typedef struct spp_clock spp_clock;

typedef struct {
    const spp_clock *clock; /* by which it was armed last; NULL: none */
    int perf_fd;            /* -1: none */
    uint64_t perf_id;       /* the kernel's number of that event */
    bool older; /* set before it is armed: the thread is older than the run, and may call functions that it found before */
    int has_timer;
    uintptr_t timer; /* timer_t */
    /* Changes each time the thread begins to run (but not while it goes on), and costs no call; NULL: not known. */
    const volatile uint32_t *runs;
    void *sender;    /* the clock `signal`: its sampler's record of the thread; NULL: another clock */
    void *suspended; /* os/suspend: its sampler's record of the thread; NULL: not armed */
} spp_os_trigger;

/* The time that a tick's sample gets. */
typedef enum {
    SPP_WEIGHT_CPU,      /* the CPU time since the sample before */
    SPP_WEIGHT_PERIOD,   /* the period set in the kernel, corrected now and then by the CPU clock */
    SPP_WEIGHT_INSTANTS, /* what a random instant is worth, which is learned from those before */
} spp_weight;

/* A clock: one row in a file of its own. Functions that may be NULL say so. Those of one thread obey the rules of the
 * spp_os_trigger functions of the same names below. */
struct spp_clock {
    const char *name; /* as options and files have it */
    const char *line; /* for users; NULL: a clock of another system, whose probe fails */
    spp_weight weight;
    bool kernel; /* SPP_WEIGHT_PERIOD: also counts time in the kernel */
    bool coarse; /* ticks come by the kernel's own tick or when the GIL is handed over: not at random instants */
    bool looks;  /* ticks come by a sampler's looks, one of which may be a whole interval late with none lost */
    bool gated;  /* takes the interpreter's lock (spp_os_gate): CPU mode only, no native frames */
    /* Whether it works here. -1 with errno; *why is the call that failed. The thread that starts the run. */
    int (*probe)(const char **why);
    int (*arm)(spp_os_trigger *trigger, int32_t tid, uint64_t period_ns, void *cookie);
    void (*disarm)(spp_os_trigger *trigger);
    void (*drop)(spp_os_trigger *trigger);
    void (*period)(spp_os_trigger *trigger, uint64_t period_ns);
    bool (*alive)(const spp_os_trigger *trigger);
    bool (*orphan)(const spp_os_trigger *trigger);  /* or NULL */
    bool (*gave_up)(const spp_os_trigger *trigger); /* or NULL */
    int (*signal)(void);                            /* its ticks come by; 0: none. Any thread. Or NULL */
};

/* The clocks, in the order in which users see them: X(row, name). Each system has all names, so that what it refuses is known. */
#define SPP_CLOCKS_OF_LINUX(X) \
    X(perf_trap, "perf-trap") X(perf, "perf") X(perf_user, "perf-user") X(signal, "signal") X(timer, "timer")
#define SPP_CLOCKS_OF_SUSPEND(X) X(suspend, "suspend") X(gil, "gil")
#define SPP_CLOCK_DECLARE(row, name_) extern const spp_clock spp_clock_##row;
#define SPP_CLOCK_HERE(row, name_) &spp_clock_##row,
#define SPP_CLOCK_ELSEWHERE(row, name_) &(const spp_clock){.name = name_, .probe = probe_elsewhere},
/* Of both; NULL at the end. */
extern const spp_clock *const spp_os_clocks[];
/* The clocks that may be chosen without being asked for, best first; NULL at the end. The others cost or risk more. */
extern const spp_clock *const spp_os_clocks_automatic[];
/* It serves threads for which the others fail. */
extern const spp_clock *const spp_os_clock_last;
/* Whether ticks are taken by suspending threads, not in handlers. */
extern const bool spp_os_suspends;

/* The core's tick function. It runs in the signal handler of the thread that owns `cookie`'s trigger; or, if the context has a
 * subject, on our thread that suspended it. */
typedef void (*spp_os_tick_fn)(void *cookie, spp_tick kind, const spp_os_context *context);

/* ---- a run's ticks: by the thread that starts and stops the run, unless said */

/* Installs the signal handler, or starts the sampler that suspends threads. `valid` says whether a cookie found in a signal is
 * one of ours. `may_trap`: ticks may come by signals that end a program which does not handle them, so the caller disarms a
 * thread before it replaces its program, and calls spp_os_signal_take_back. Returns -1 if every signal that could serve is in
 * use, or no thread can be started. */
int spp_os_signal_install(spp_os_tick_fn tick, bool (*valid)(const void *cookie), const spp_clock *clock, bool may_trap);
/* Restores the old disposition if ours is still in place, after swallowing pending signals; or ends the sampler. */
void spp_os_signal_remove(void);
/* In a forked child: gives the program its signals back. */
void spp_os_signal_child(void);
/* Whether the program has just taken a signal by which ticks came. If so, arm all triggers again: their ticks will come by
 * another signal. The drain thread. */
bool spp_os_signal_taken(void);
/* All triggers were armed again for that: the program has the signal as if it were alone. The drain thread. */
void spp_os_signal_moved(void);
/* On a thread that was disarmed: takes back ticks that are pending because it blocks their signal. */
void spp_os_signal_take_back(void);
/* For a gated clock, before it is armed: no thread runs Python code between enter() and leave(), which the sampler calls; enter()
 * may wait for long, and returns false on failure. NULL: the interpreter has no such lock. */
void spp_os_gate(bool (*enter)(void), void (*leave)(void));

/* Whether ticks need no thread of ours for as long as a fork takes, so that our threads can rest (core/rest.h). */
extern const bool spp_os_may_rest;
/* How many threads the system's side has for ticks and files, besides the core's. They end, and are started again, by the thread
 * that has the core's rest. */
uint64_t spp_os_signal_threads(void);
void spp_os_signal_rest(void);
void spp_os_signal_wake(void);
/* CPU time of these threads in this run so far, or in the last one: the profiler's own. 0 if there are none. Any thread. */
uint64_t spp_os_signal_cpu_ns(void);
/* Ticks of this run, or the last one, that may have ended a system call: one the program makes without the C library. Any thread.
 */
uint64_t spp_os_calls_interrupted(void);
/* Signals of this run, or the last one, that the program ignores but that may have ended a system call, because ticks came by the
 * same signal. Any thread. */
uint64_t spp_os_signals_not_ignored(void);

/* ---- one thread's ticks: drain lock held, unless said */

/* Arms the clock on any thread of the process. The trigger must be disarmed (initially: perf_fd -1, all else zero), the cookie
 * aligned to 64 bytes. Returns -1 with errno if the thread is gone or a limit is reached. */
int spp_os_trigger_arm(spp_os_trigger *trigger, const spp_clock *clock, int32_t tid, uint64_t period_ns, void *cookie);
/* Fills in `runs` of an armed trigger, if the system can. */
void spp_os_trigger_watch(spp_os_trigger *trigger);
/* Handler, on the trigger's own thread or while that is suspended. From now on a tick comes every period_ns of CPU time. */
void spp_os_trigger_period(spp_os_trigger *trigger, uint64_t period_ns);
void spp_os_trigger_disarm(spp_os_trigger *trigger);
/* False if the trigger makes no ticks because arming failed, or because the program closed its descriptor, as daemons close all
 * that they find: disarm it, and arm it again. */
bool spp_os_trigger_alive(const spp_os_trigger *trigger);
/* Whether the thread has ended, so that another one may have its id; false where the system does not say. */
bool spp_os_trigger_orphan(const spp_os_trigger *trigger);
/* Whether this clock sends the thread no more ticks because they could end its system calls: use the last clock for it. */
bool spp_os_trigger_gave_up(const spp_os_trigger *trigger);
/* Whether the thread blocks the signal that this clock's ticks come by now. */
bool spp_os_thread_blocks(int32_t tid, const spp_clock *clock);
/* In a forked child: forgets the parent's trigger without stopping it. */
void spp_os_trigger_drop(spp_os_trigger *trigger);

/* ---- wall mode */

/* Drain lock held. Suspends an armed thread that seems to be off-CPU, if the system can and the thread's CPU clock alone does not
 * prove it. Returns 0 if it is suspended, with its position in *context (a handler's rules hold until spp_os_let_go); 1 if
 * suspending it is needless or impossible, so it is walked as it is; -1 if it is gone or refuses. One thread at a time. */
int spp_os_hold(const spp_os_trigger *trigger, spp_os_context *context);
void spp_os_let_go(const spp_os_trigger *trigger);
/* Upper bound on the CPU time one suspension adds to a sleeping thread; 0 if none. Any thread. */
uint64_t spp_os_stop_ns(void);
/* Whether an unchanged CPU clock proves that the thread did not run. False where the clock moves in steps: then an off-CPU thread
 * is walked at each tick. Any thread. */
bool spp_os_clock_is_exact(void);

#endif
