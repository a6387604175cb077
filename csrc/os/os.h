/* All that the core knows of the operating system. Returns 0 for success and -1 for failure unless said otherwise.
 *
 * "Handler" marks what may be called in a signal handler: no lock, no allocation, bounded. Everything else is called by
 * the drain or sampler thread, or by a Python thread inside start and stop; never with the drain lock held unless said. */
#ifndef SPPROF_OS_OS_H
#define SPPROF_OS_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- clocks (handler) */

uint64_t spp_os_now_ns(void);         /* monotonic */
uint64_t spp_os_own_cpu_ns(void);     /* CPU time of the calling thread */
uint64_t spp_os_process_cpu_ns(void); /* CPU time of all threads, dead ones too */
uint64_t spp_os_cycles(void);         /* time stamp counter; aarch64: of constant frequency. 0 where there is none */
/* CPU time of any thread of this process; -1 if it is gone. Never less than at the call before. */
int spp_os_thread_cpu_ns(int32_t tid, uint64_t *ns);

/* ---- memory that may not be there */

/* Finds a way to probe that works here; returns -1 if none does. Call once before the others. */
int spp_os_memory_init(void);
/* Handler. Whether the 8 bytes at addr (rounded down to 8) can be read. About 0.1 us. */
bool spp_os_readable(uintptr_t addr);
/* Copies n bytes from addr, or fails without a fault. In a handler only where it is rare: a call of the kernel, which may change
 * errno. About 0.25 us. */
int spp_os_read(void *to, uintptr_t addr, size_t n);
/* Anonymous zeroed pages; NULL on failure. */
void *spp_os_pages(size_t bytes);
void spp_os_pages_free(void *at, size_t bytes);

/* ---- threads */

int32_t spp_os_tid(void);
/* A cheap number that changes when threads come or go (not when as many come as go). 0 if unknown. */
uint64_t spp_os_thread_count(void);
/* Calls see(arg, tid) for each thread of the process, but one of our own that makes the ticks (os/suspend). */
int spp_os_threads(void (*see)(void *arg, int32_t tid), void *arg);
/* Where a thread stands that waits in the kernel. -1: it runs, or the system does not tell. */
int spp_os_thread_where(int32_t tid, uintptr_t *pc, uintptr_t *sp);
/* Whether the thread's signal mask blocks our signal. */
bool spp_os_thread_blocks(int32_t tid);
/* The OS name of a thread, NUL-terminated. */
int spp_os_thread_name(int32_t tid, char *to, size_t size);
/* For each of n addresses: the bounds of the mapped region that holds it, or 0. One pass over the process's map. */
int spp_os_regions(const uintptr_t *addrs, uintptr_t *lows, uintptr_t *ends, size_t n);
/* The tid behind a pthread_t value (Windows: behind a thread's ident in Python), read without trusting it; -1 if it cannot be
 * told. */
int32_t spp_os_tid_of_pthread(uintptr_t pthread);
/* Thread-specific slots (pthread_getspecific, TlsGetValue) are numbered from 0 to here. 0: it is not known where they are. */
uint32_t spp_os_slots(void);
/* Words of thread-local variables have the numbers from there to here, where they can be told; else it is the same. */
uint32_t spp_os_words(void);
/* Handler. The calling thread's. */
uintptr_t spp_os_slot(uint32_t slot);

/* ---- the profile's file: one at a time. Its number is a descriptor, on Windows a handle. Errors are errno's numbers, 0: none */

/* A copy of one of Python's descriptors, which programs do not inherit; -1 with errno. To be closed, or taken. */
int spp_os_file_copy(int fd);
void spp_os_file_close(int file);
/* It is what is written from now on, and is closed by spp_os_file_end, also if this fails. */
int spp_os_file_take(int file);
/* All n bytes. If the program closed the file unknowingly it is opened anew, where it has a path. */
int spp_os_file_write(const void *from, size_t n);
int spp_os_file_end(void);
/* The path of an open file; false if it has none, or none that fits. POSIX systems only. */
bool spp_os_path_of(int fd, char *to, size_t size);

/* ---- loaded objects: the program, its libraries, the vDSO */

typedef struct {
    char path[512];                          /* of its file, with slashes; that of the vDSO is no path */
    uintptr_t base, low, high;               /* what is added to the file's addresses; its code lies in [low, high) */
    uintptr_t index, index_end;              /* .eh_frame_hdr, and the end of the segment that holds it; 0: none */
    uintptr_t functions, functions_end, end; /* Windows: its table of functions (0: none), and where it ends as a whole */
    /* of Mach-O: __unwind_info (0: none), the __eh_frame that it names, and what LC_FUNCTION_STARTS tells */
    uintptr_t compact, compact_end, frames, frames_end, starts, starts_end;
    uint8_t build_id[32], build_id_n;
} spp_os_object;
/* Whether native frames can be walked on this system. */
extern const bool spp_os_native;
/* Calls see(arg, object) for each. The loader's lock is held meanwhile: `see` copies, and no more. */
void spp_os_objects(void (*see)(void *arg, const spp_os_object *object), void *arg);
/* Where the process has a function that its objects export; 0: none has it. */
uintptr_t spp_os_symbol(const char *name);
/* A number that changes when objects come or go; its lower 32 bits count those that went. */
uint64_t spp_os_objects_stamp(void);
/* An ELF file's headers, symbol tables and their strings, each in its place; what lies between is zero, and takes no memory. To
 * be given back by spp_os_pages_free; NULL: it cannot be read. */
void *spp_os_symbol_file(const char *path, size_t *n);

/* Not where objects are ELF (-1), whose files are read: what the system or the object in memory names its functions, by calls of
 * add(arg, address in the file's own counting, size or 0, name). The drain thread. */
int spp_os_symbols(const spp_os_object *object, void (*add)(void *arg, uint64_t at, uint32_t size, const char *name), void *arg);

/* The text of /tmp/perf-PID.map, in which JIT compilers name what they made, if it is this user's and has grown since *known
 * bytes (updated); else NULL. To be given back by spp_os_pages_free. */
char *spp_os_jit_map(uint64_t *known, size_t *n);

/* ---- the drain lock: one for the process, held for microseconds, never in a handler, never over I/O. A fork takes it
 * first, and `child` runs in the new process with the lock made anew. */

void spp_os_lock(void);
void spp_os_unlock(void);
/* Around whatever the drain thread does beside waiting, before the lock: a fork waits for it, so that no child inherits a lock
 * that it holds, of an allocator say that knows nothing of forks. */
void spp_os_work_begin(void);
void spp_os_work_end(void);
/* Around what may wait for the dynamic loader, and not within the above: a fork waits for it too, but 100 ms at the most. Whoever
 * holds the loader's lock may itself wait for the thread that forks. */
void spp_os_loader_begin(void);
void spp_os_loader_end(void);
int spp_os_lock_init(void (*child)(void));

/* ---- background threads of our own: every signal blocked, named, counted apart */

typedef struct spp_os_worker spp_os_worker;
/* `prompt`: as far as the system lets us, it runs as soon as it wakes. */
spp_os_worker *spp_os_worker_start(const char *name, bool prompt, void (*body)(void *), void *arg);
int32_t spp_os_worker_tid(const spp_os_worker *worker);
void spp_os_worker_join(spp_os_worker *worker); /* frees it */
void spp_os_sleep_until(uint64_t ns);           /* monotonic */

/* ---- a doorbell: rung by handlers, awaited by one worker */

typedef struct {
    _Atomic uint32_t rung;
} spp_os_bell;
void spp_os_bell_ring(spp_os_bell *bell);                    /* handler; also while one that rings or waits is suspended */
bool spp_os_bell_wait(spp_os_bell *bell, uint64_t until_ns); /* until rung (true) or late; clears it */

/* ---- triggers: what makes a thread's clock interrupt it
 *
 * Where the system sends signals to threads, the thread's own clock interrupts it, and its handler takes the sample. Elsewhere
 * a thread of ours does (os/suspend): it looks at each armed thread's CPU clock, and one whose clock moved by enough it suspends,
 * lets the core walk as a handler would, and lets go on. One whose clock stands is not touched. So in both cases the core's tick
 * function runs while its thread cannot move, and keeps to a handler's rules. Suspension makes them stricter, for the thread may
 * have been stopped anywhere: nothing may wait for what it holds, be it the allocator's lock, the loader's or the bell's. */

typedef enum {
    SPP_CLOCK_PERF,      /* perf task-clock, kernel samples too */
    SPP_CLOCK_PERF_USER, /* perf task-clock, user samples; a thread-CPU timer gives the kernel's remainder */
    SPP_CLOCK_TIMER,     /* thread-CPU timer: CONFIG_HZ at most */
    SPP_CLOCK_SUSPEND,   /* a thread of ours suspends those that run */
    SPP_CLOCK_GIL,       /* it takes the interpreter's lock instead: where threads may not be suspended. CPU mode only */
    SPP_CLOCK_COUNT,
} spp_clock;
/* Those of this system, the most exact one first. The last takes threads that the others have no means left for. */
extern const spp_clock spp_os_clock_first, spp_os_clock_last;

typedef enum {
    SPP_TICK_CPU,
    SPP_TICK_REMAINDER,
    SPP_TICK_REFUSED, /* one was due, but the system did not let the thread be suspended: to be counted. No context */
} spp_tick;

typedef struct {
    int perf_fd;      /* -1: none */
    uint64_t perf_id; /* the kernel's number of that event */
    int has_timer;
    uintptr_t timer; /* timer_t */
    /* Changes each time the thread begins to run (but not while it goes on), and costs no call; NULL: not known. */
    const volatile uint32_t *runs;
    void *suspended; /* os/suspend: what its sampler knows of the thread; NULL: not armed */
} spp_os_trigger;

/* A suspended thread: what could be asked of the calling thread if it were the one. */
typedef struct {
    int32_t tid;
    uint64_t cpu_ns; /* its CPU clock, read just before it was suspended */
    uintptr_t slots; /* for spp_os_slot_of */
} spp_os_subject;

/* What the handler sees of the interrupted thread. */
typedef struct {
    uintptr_t pc, sp;
    bool at_syscall; /* interrupted inside a system call, or on its way in or out */
    const void *machine;
    const spp_os_subject *subject; /* NULL: the interrupted thread is the calling one. Else it is this one, suspended meanwhile */
} spp_os_context;

/* Handler. All its general registers, by DWARF number. */
#define SPP_OS_REGISTERS 32u
void spp_os_registers(const spp_os_context *context, uintptr_t to[SPP_OS_REGISTERS]);
/* Handler. A thread-specific slot of a suspended thread, by a guarded read; 0 if it cannot be told. */
uintptr_t spp_os_slot_of(const spp_os_subject *subject, uint32_t slot);

/* Called in the signal handler, on the thread that owns `cookie`'s trigger; or, with a subject in the context, by our own thread
 * that suspended it. */
typedef void (*spp_os_tick_fn)(void *cookie, spp_tick kind, const spp_os_context *context);

/* Drain lock held. Suspends an armed thread that seems to stand, where the system can and its CPU clock alone does not prove it
 * (wall mode). 0: it is held, and *context tells where (a handler's rules hold until it is let go); 1: there is no need or no
 * way, it is to be walked as it stands; -1: it is gone, or refuses. One thread at a time. */
int spp_os_hold(const spp_os_trigger *trigger, spp_os_context *context);
void spp_os_let_go(const spp_os_trigger *trigger);
/* How much being stopped once may move a thread's own CPU clock, where the system has a sleeper run for that: more than it takes.
 * 0: a thread that sleeps is stopped without. */
uint64_t spp_os_stop_ns(void);
/* Whether a thread whose CPU clock shows the same as before has not run meanwhile. False where the clock goes in steps: then a
 * standing thread is walked at each tick. */
bool spp_os_clock_tells(void);

/* For SPP_CLOCK_GIL, before it is armed: has no thread run Python code from enter() on (false: it cannot be had) until leave().
 * By the thread that makes the ticks, which may wait in it for long. NULL: there is no such lock. */
void spp_os_gate(bool (*enter)(void), void (*leave)(void));
/* Whether this clock works here; on failure *why names the call and errno. */
int spp_os_clock_probe(spp_clock clock, const char **why, int *error);
/* Installs the signal handler, or starts the thread that suspends others. `may_trap`: ticks may come by SIGTRAP, which ends a
 * program that is not told to expect it: the caller disarms a thread before that replaces its program. `valid` tells whether a
 * cookie from a signal is one of ours. -1: someone else uses every signal that could serve, or no thread can be started. */
int spp_os_signal_install(spp_os_tick_fn tick, bool (*valid)(const void *cookie), bool may_trap);
/* Whether the program has just taken a signal from us that ticks came by: its triggers are to be armed anew, and come by
 * another one then. */
bool spp_os_signal_taken(void);
/* Puts the old disposition back if ours is still there; pending signals are swallowed first. Or ends that thread. */
void spp_os_signal_remove(void);
/* CPU time of that thread in this run so far: the profiler's own. 0 where there is none. */
uint64_t spp_os_signal_cpu_ns(void);
/* Arms the clock on any thread of the process; the trigger is disarmed (at first: perf_fd -1, all else 0). -1 with errno: the
 * thread is gone, or limits. */
int spp_os_trigger_arm(spp_os_trigger *trigger, spp_clock clock, int32_t tid, uint64_t period_ns, void *cookie);
/* Has `runs` of an armed trigger filled in, where the system can tell. */
void spp_os_trigger_watch(spp_os_trigger *trigger);
/* Handler, only on the trigger's own thread, or while that is suspended. The next ticks come every period_ns of CPU time from now
 * on. */
void spp_os_trigger_period(spp_os_trigger *trigger, uint64_t period_ns);
void spp_os_trigger_disarm(spp_os_trigger *trigger);
/* False if nothing ticks, since the program closed the trigger's descriptor, as daemons close all that they find, or arming
 * failed: to be disarmed and armed anew. */
bool spp_os_trigger_alive(const spp_os_trigger *trigger);
/* In a forked child: lets go of the parent's trigger without stopping it. */
void spp_os_trigger_drop(spp_os_trigger *trigger);
/* Termination by SIGTERM while nobody handles it: rings `bell` and sets *asked instead of dying; the worker finishes the
 * file and calls spp_os_term_now, which dies of the signal as it would have. */
void spp_os_term_catch(spp_os_bell *bell, _Atomic int *asked);
void spp_os_term_restore(void);
void spp_os_term_now(void);

#endif
