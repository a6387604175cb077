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
/* The same pages, and more zeroed ones, perhaps elsewhere; NULL: that cannot be done without copying, and all is as it was. */
void *spp_os_pages_grow(void *at, size_t bytes, size_t more);

/* ---- threads */

int32_t spp_os_tid(void);
/* A cheap number that changes when threads come or go (not when as many come as go). 0 if unknown. */
uint64_t spp_os_thread_count(void);
/* Calls see(arg, tid) for each thread of the process, but one of our own that makes the ticks (os/suspend). */
int spp_os_threads(void (*see)(void *arg, int32_t tid), void *arg);
/* The calling worker opens files often, or one for long: what it opens from here on never has a number that the program sees, and
 * of the program's it has only `but` (-1: none), if that is open. False: the system cannot do that. It arms no triggers. */
bool spp_os_own_files(int but);
/* Where a thread stands that waits in the kernel. -1: it runs, or the system does not tell. */
int spp_os_thread_where(int32_t tid, uintptr_t *pc, uintptr_t *sp);
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
/* How far from a thread's pthread_t a word of its own lies (a slot, a thread-local variable) that holds `value` in the calling
 * thread; 0: none is known to, or more than one. Other threads' are there too, to be read without trust. */
intptr_t spp_os_own_place(uintptr_t value);

/* ---- the profile's file. Its number is a descriptor, on Windows a handle. Errors are errno's numbers, 0: none */

/* Descriptors of a profile's file have numbers from here on: a program's next file has the number that it has without us. (Below
 * those of perf events, and 64: a process whose table must grow may wait 15 ms.) */
#define SPP_OS_FILES_FROM 34

/* Takes one of Python's descriptors for this process, if it is a regular file: nobody else's profile goes there until
 * spp_os_file_end, or until the process has closed it. Readers ask nothing. 1: another has it. 0 also if it cannot be locked, as
 * on some file systems of the network. */
int spp_os_file_lock(int fd);
/* It is about to be closed. A forked child has closed it, if it was not forgotten. */
void spp_os_file_forget(int fd);
/* One that is written. */
typedef struct {
    int fd;                  /* or handle; -1: closed */
    int from;                /* POSIX: the descriptor of Python's that it is a copy of, with the same lock */
    bool apart;              /* POSIX: fd is of the writer's own table of descriptors, out of the program's reach */
    uint64_t device, number; /* what it was opened as */
    char path[4096];         /* "": none */
} spp_os_file;
/* A copy of one of Python's descriptors, which programs do not inherit. To be closed, by this or by spp_os_file_end, which gives
 * the lock back too. */
int spp_os_file_copy(spp_os_file *file, int fd);
void spp_os_file_close(spp_os_file *file);
/* What was in a regular file is gone. */
int spp_os_file_empty(spp_os_file *file);
/* All n bytes. If the program closed the file unknowingly it is had by Python's descriptor, or opened anew where it has a path:
 * the calling thread then gets a table of descriptors of its own, so that the program closes it no more. The same thread always.
 */
int spp_os_file_write(spp_os_file *file, const void *from, size_t n);
/* Bytes of a regular file; UINT64_MAX: it is none, or the descriptor leads elsewhere by now. The same thread. */
uint64_t spp_os_file_size(const spp_os_file *file);
/* Makes a regular file that long again; the next write goes there. An errno. The same thread. */
int spp_os_file_cut(spp_os_file *file, uint64_t size);
int spp_os_file_end(spp_os_file *file);
/* In a forked child: the file and its lock are the parent's, Python's descriptor too. */
void spp_os_file_drop(spp_os_file *file);
/* What keeps a regular file's number its own when the program has closed every descriptor of it: file systems give the number of
 * a file that is gone to the next one that is made, and that one would be taken for ours. NULL: nothing does, or need not. Forked
 * children do not have it. */
void *spp_os_file_hold(int fd);
void spp_os_file_release(void *hold); /* in the process that made it */
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
 * first, and `child` runs in the new process with the lock made anew. It is fair: who gives it back and takes it again lets those
 * go first that wait; so long work gives it back between its steps. So is what follows. */

void spp_os_lock(void);
/* For a handler of the program's, which may have interrupted who has it: false if it is not to be had until then. */
bool spp_os_lock_until(uint64_t until_ns);
void spp_os_unlock(void);
/* Around start, and whatever the drain thread does beside waiting, before the lock: a fork waits for it, so that no child
 * inherits a lock that it holds, of an allocator say that knows nothing of forks. */
void spp_os_work_begin(void);
void spp_os_work_end(void);
/* Around what may wait for the dynamic loader, and not within the above: a fork waits for it too, but 100 ms at the most. Whoever
 * holds the loader's lock may itself wait for the thread that forks. */
void spp_os_loader_begin(void);
void spp_os_loader_end(void);
int spp_os_lock_init(void (*child)(void));
/* Whether this process is a forked child whose C library was not told of the fork, so `child` has not run; not if it shares its
 * memory with the parent. Then spp_os_fork_seen() does what would have been done, as does each
 * function above that takes a lock. By the only thread that there is. */
bool spp_os_forked_unseen(void);
void spp_os_fork_seen(void);

/* ---- background threads of our own: every signal blocked, named, counted apart */

typedef struct spp_os_worker spp_os_worker;
/* `prompt`: as far as the system lets us, it runs as soon as it wakes. */
spp_os_worker *spp_os_worker_start(const char *name, bool prompt, void (*body)(void *), void *arg);
int32_t spp_os_worker_tid(const spp_os_worker *worker);
void spp_os_worker_join(spp_os_worker *worker);  /* frees it */
void spp_os_worker_leave(spp_os_worker *worker); /* it ends when it can, and nobody waits */
void spp_os_sleep_until(uint64_t ns);            /* monotonic */

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
    SPP_CLOCK_PERF_TRAP, /* the next, by a signal whose default ends a program: nothing is cut short, and it costs less */
    SPP_CLOCK_PERF,      /* perf task-clock, kernel samples too */
    SPP_CLOCK_PERF_USER, /* perf task-clock, user samples; a thread-CPU timer gives the kernel's remainder */
    SPP_CLOCK_SIGNAL,    /* a thread of ours sends those that run a signal, at instants drawn at random */
    SPP_CLOCK_TIMER,     /* thread-CPU timer: CONFIG_HZ at most */
    SPP_CLOCK_SUSPEND,   /* a thread of ours suspends those that run */
    SPP_CLOCK_GIL,       /* it takes the interpreter's lock instead: where threads may not be suspended. CPU mode only */
    SPP_CLOCK_COUNT,
} spp_clock;
/* Those of this system. The last takes threads that the others have no means left for. */
extern const spp_clock spp_os_clock_first, spp_os_clock_last;
/* Those that may be taken without being asked for, the best first. Others cost more or risk more. */
extern const spp_clock spp_os_clock_automatic[];
extern const int spp_os_clock_automatic_n;

typedef enum {
    SPP_TICK_CPU,
    SPP_TICK_REMAINDER,
    /* To be counted, without a context: one was due, but ... */
    SPP_TICK_REFUSED,  /* the system did not let the thread be suspended */
    SPP_TICK_NO_STACK, /* the thread's alternate stack has no room for the handler, and little for this */
} spp_tick;

typedef struct {
    int perf_fd;      /* -1: none */
    uint64_t perf_id; /* the kernel's number of that event */
    int has_timer;
    uintptr_t timer; /* timer_t */
    /* Changes each time the thread begins to run (but not while it goes on), and costs no call; NULL: not known. */
    const volatile uint32_t *runs;
    void *sender;    /* SPP_CLOCK_SIGNAL: what its sampler knows of the thread; NULL: another clock */
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
    bool at_syscall;    /* interrupted inside a system call, or on its way in or out; only told where the core asks */
    uint32_t more;      /* so many more instants of the clock `signal` met the thread in the same call */
    bool coarse;        /* it was drawn, but the scheduler chose when: at no random instant */
    uint64_t stands_ns; /* what an instant of that clock stands for, if for more than an interval */
    uintptr_t called;   /* the thread has just returned from this function, which is what the tick met; 0: it was interrupted */
    const void *machine;
    const spp_os_subject *subject; /* NULL: the interrupted thread is the calling one. Else it is this one, suspended meanwhile */
} spp_os_context;

/* Handler. All its general registers, by DWARF number. */
#define SPP_OS_REGISTERS 32u
void spp_os_registers(const spp_os_context *context, uintptr_t to[SPP_OS_REGISTERS]);
/* Handler. A thread-specific slot of a suspended thread, by a guarded read; 0 if it cannot be told. */
uintptr_t spp_os_slot_of(const spp_os_subject *subject, uint32_t slot);

/* What is known of a thread's own C stack: [low, end) can be read in place. Zeroes at first. */
typedef struct {
    uintptr_t low, end;
} spp_os_stack;
/* Handler. Whether the thread is on its own stack, and all from its stack pointer to `end` can be read in place, and may be as
 * long as it is on that stack; *stack is brought up to date. Else (a coroutine's stack, an alternate one) each page is to be
 * probed. */
bool spp_os_stack_known(const spp_os_context *context, spp_os_stack *stack);

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
 * off-CPU thread is walked at each tick. */
bool spp_os_clock_tells(void);

/* For SPP_CLOCK_GIL, before it is armed: has no thread run Python code from enter() on (false: it cannot be had) until leave().
 * By the thread that makes the ticks, which may wait in it for long. NULL: there is no such lock. */
void spp_os_gate(bool (*enter)(void), void (*leave)(void));
/* Whether this clock works here; on failure *why names the call and errno. */
int spp_os_clock_probe(spp_clock clock, const char **why, int *error);
/* Installs the signal handler, or starts the thread that suspends others, for this clock. `may_trap`: ticks may come by signals
 * which end a program that is not told to expect them: the caller disarms a thread before that replaces its program, and calls
 * spp_os_signal_take_back. `valid` tells whether a
 * cookie from a signal is one of ours. -1: someone else uses every signal that could serve, or no thread can be started. */
int spp_os_signal_install(spp_os_tick_fn tick, bool (*valid)(const void *cookie), spp_clock clock, bool may_trap);
/* Where a word says, by being 1, that a signal waits until the main thread sees it, which makes it 0; NULL: nobody knows. It
 * becomes 2 when a call of that thread has ended for that signal, so its owner may test only whether it is 0. */
void spp_os_signals_wait_at(volatile int *flag);
/* Drain thread, every 10 ms or so: where one has waited since the call before, and the main thread sleeps, its call is ended. */
void spp_os_signals_care(void);
/* Whether the program has just taken a signal from us that ticks came by: its triggers are to be armed anew, and come by
 * another one then. */
bool spp_os_signal_taken(void);
/* The drain thread, where it may wait for the dynamic loader: sees to it that what objects that were loaded since say of signals
 * is seen. */
void spp_os_signal_look(void);
/* Whether no tick needs a thread of ours for as long as a fork takes, so that these can rest: core/rest.h. */
extern const bool spp_os_may_rest;
/* How many threads this system has beside the core's for the ticks and for files. They end, and begin again; by the thread that
 * has the core's rest. */
uint64_t spp_os_signal_threads(void);
void spp_os_signal_rest(void);
void spp_os_signal_wake(void);
/* Whether the process has no more threads than that. */
bool spp_os_threads_at_most(uint64_t n);
/* Whether this process may start a thread, as far as that is known: not if its children are to be in another namespace. */
bool spp_os_may_start(void);
/* Whether a filter of system calls, put on by the program since, does not allow all that our threads call: nothing is to begin.
 */
bool spp_os_barred(void);
/* Have `rest` and `wake` called around calls for which the program must have one thread; `call` by a thread that ends the process
 * at once. Where the system lets us see that. */
void spp_os_alone_tell(void (*rest)(void), void (*wake)(void));
void spp_os_leave_tell(void (*call)(void));
/* Have `call` called by a thread that is about to confine itself, or the process, to system calls which are not all that it would
 * make with us there. */
void spp_os_confine_tell(void (*call)(void));
/* Has `call` called by a thread that is about to replace the program, where the system lets us see that. */
void spp_os_exec_tell(void (*call)(void));
/* Has programs that are started from here preload the object at `path` (NULL: none), if they are to be told something by the
 * environment's variable `told` and are interpreters that would not hear of it otherwise: by their options, or because `folder`
 * is not the first of PYTHONPATH. The caller keeps all three. */
void spp_os_exec_preload(const char *path, const char *told, const char *folder);
/* The calling thread, disarmed: takes ticks back that wait because it blocks their signal. */
void spp_os_signal_take_back(void);
/* In a forked child: the program's signals are its own. */
void spp_os_signal_child(void);
/* Puts the old disposition back if ours is still there; pending signals are swallowed first. Or ends that thread. */
void spp_os_signal_remove(void);
/* CPU time of that thread in this run so far: the profiler's own. 0 where there is none. */
uint64_t spp_os_signal_cpu_ns(void);
/* Ticks of this run, or the last, that met a system call which they may have ended: one that the program makes without the C
 * library. */
uint64_t spp_os_calls_met(void);
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
/* Whether the thread that it was armed for has ended, and another one may have its id: as far as the system tells. */
bool spp_os_trigger_orphan(const spp_os_trigger *trigger);
/* Whether the thread gets no ticks any more because this clock's could end its system calls: the last clock is for it then. */
bool spp_os_trigger_gave_up(const spp_os_trigger *trigger);
/* Whether the thread blocks the signal that this clock's ticks come by now. */
bool spp_os_thread_blocks(int32_t tid, spp_clock clock);
/* In a forked child: lets go of the parent's trigger without stopping it. */
void spp_os_trigger_drop(spp_os_trigger *trigger);
/* Termination by SIGTERM while nobody handles it: rings `bell` and sets *asked instead of dying; the worker finishes the
 * file and calls spp_os_term_now, which dies of the signal as it would have. */
void spp_os_term_catch(spp_os_bell *bell, _Atomic int *asked);
void spp_os_term_restore(void);
void spp_os_term_now(void);

#endif
