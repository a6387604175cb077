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
    SPP_CLOCK_PERF_TRAP, /* the next, by a signal whose default ends a program: nothing is cut short, and it costs less */
    SPP_CLOCK_PERF,      /* perf task-clock, kernel samples too */
    SPP_CLOCK_PERF_USER, /* perf task-clock, user samples; a thread-CPU timer gives the kernel's remainder */
    SPP_CLOCK_SIGNAL,    /* a thread of ours sends those that run a signal, at instants drawn at random */
    SPP_CLOCK_TIMER,     /* thread-CPU timer: CONFIG_HZ at most */
    SPP_CLOCK_SUSPEND,   /* a thread of ours suspends those that run */
    SPP_CLOCK_GIL,       /* it takes the interpreter's lock instead: where threads may not be suspended. CPU mode only */
    SPP_CLOCK_COUNT,
} spp_clock;
/* The clocks of this system. The last one serves threads for which the others fail. */
extern const spp_clock spp_os_clock_first, spp_os_clock_last;
/* The clocks that may be chosen without being asked for, best first. The others cost or risk more. */
extern const spp_clock spp_os_clock_automatic[];
extern const int spp_os_clock_automatic_n;

typedef enum {
    SPP_TICK_CPU,
    SPP_TICK_REMAINDER,
    /* Only counted, without a context: a tick was due, but ... */
    SPP_TICK_REFUSED,  /* the system did not let us suspend the thread */
    SPP_TICK_NO_STACK, /* the thread's alternate stack is too small for the handler */
} spp_tick;

typedef struct {
    int perf_fd;      /* -1: none */
    uint64_t perf_id; /* the kernel's number of that event */
    int has_timer;
    uintptr_t timer; /* timer_t */
    /* Changes each time the thread begins to run (but not while it goes on), and costs no call; NULL: not known. */
    const volatile uint32_t *runs;
    void *sender;    /* SPP_CLOCK_SIGNAL: its sampler's record of the thread; NULL: another clock */
    void *suspended; /* os/suspend: its sampler's record of the thread; NULL: not armed */
} spp_os_trigger;

/* The core's tick function. It runs in the signal handler of the thread that owns `cookie`'s trigger; or, if the context has a
 * subject, on our thread that suspended it. */
typedef void (*spp_os_tick_fn)(void *cookie, spp_tick kind, const spp_os_context *context);

/* ---- a run's ticks: by the thread that starts and stops the run, unless said */

/* Whether this clock works here; on failure *why is the call that failed, and *error its errno. */
int spp_os_clock_probe(spp_clock clock, const char **why, int *error);
/* Installs the signal handler, or starts the sampler that suspends threads. `valid` says whether a cookie found in a signal is
 * one of ours. `may_trap`: ticks may come by signals that end a program which does not handle them, so the caller disarms a
 * thread before it replaces its program, and calls spp_os_signal_take_back. Returns -1 if every signal that could serve is in
 * use, or no thread can be started. */
int spp_os_signal_install(spp_os_tick_fn tick, bool (*valid)(const void *cookie), spp_clock clock, bool may_trap);
/* Restores the old disposition if ours is still in place, after swallowing pending signals; or ends the sampler. */
void spp_os_signal_remove(void);
/* In a forked child: gives the program its signals back. */
void spp_os_signal_child(void);
/* Whether the program has just taken a signal by which ticks came. If so, arm all triggers again: their ticks will come by
 * another signal. The drain thread. */
bool spp_os_signal_taken(void);
/* On a thread that was disarmed: takes back ticks that are pending because it blocks their signal. */
void spp_os_signal_take_back(void);
/* For SPP_CLOCK_GIL, before it is armed: no thread runs Python code between enter() and leave(), which the sampler calls; enter()
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
uint64_t spp_os_calls_met(void);

/* ---- one thread's ticks: drain lock held, unless said */

/* Arms the clock on any thread of the process. The trigger must be disarmed (initially: perf_fd -1, all else 0). Returns -1 with
 * errno if the thread is gone or a limit is reached. */
int spp_os_trigger_arm(spp_os_trigger *trigger, spp_clock clock, int32_t tid, uint64_t period_ns, void *cookie);
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
bool spp_os_thread_blocks(int32_t tid, spp_clock clock);
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
bool spp_os_clock_tells(void);

#endif
