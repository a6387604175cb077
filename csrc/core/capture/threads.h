/* What the profiler keeps of each thread.
 *
 * A thread's record lives in a slab that is never unmapped, so a late signal always finds memory. Each writer has a
 * structure of its own in it; everything shared between threads is atomic. */
#ifndef SPPROF_CORE_CAPTURE_THREADS_H
#define SPPROF_CORE_CAPTURE_THREADS_H

#include "base/counters.h"
#include "base/sample.h"
#include "core/capture/frames.h"
#include "core/capture/frames_native.h"
#include "core/capture/locks.h"
#include "core/capture/queue.h"
#include "core/source.h"
#include "os/context.h"
#include "os/event.h"
#include "os/ticks.h"
#include "os/worker.h"

typedef enum { SPP_THREAD_FREE, SPP_THREAD_ARMED, SPP_THREAD_ENDED } spp_thread_state;

#define SPP_LEAVES 4u /* frames of an off-CPU thread that are read twice */

/* A handler starts with cold caches, so what each tick touches lies together, in the first cache lines. */

/* The handler's, on its own thread. */
typedef struct {
    _Atomic uint32_t busy; /* a handler is running, or a hook that takes a sample */
    uint32_t epoch;        /* death epoch of the previous sample's addresses */
    spp_frame *now, *prev; /* leaf first; swapped after each sample */
    uint32_t prev_depth;
    uint32_t until_sync;       /* ticks until the CPU clock is read and the period drawn again: a group */
    uint64_t last_ns;          /* monotonic, at the last tick */
    _Atomic uint64_t given_ns; /* CPU time that samples so far stand for */
    uint64_t period_ns;        /* what the trigger is set to */
    spp_queue queue;
    uint64_t ahead_ns; /* perf: how far given_ns ran ahead of the CPU clock; taken off the next weights */
    /* signal: the CPU clock at the look of the last tick; recently, the CPU time that passed and the time that
     * ticks represented */
    _Atomic uint64_t spread_cpu;
    uint64_t spread_ran, spread_time;
    uint64_t begun_cpu;   /* the CPU clock when its clock began */
    uint64_t begun_taken; /* samples taken before its clock began */
    uint64_t unseen_ns;   /* signal: CPU time before the thread was found, that its first sample stands for */
    /* counters: written by the handler, read by anyone; `ticks` counts handled ticks and overruns */
    _Atomic uint64_t ticks, taken;
    _Atomic uintptr_t tstate;    /* as last seen by the handler */
    _Atomic uintptr_t stack_end; /* of its own stack; 0 while it is not known */
    spp_os_stack stack;
    _Atomic uint32_t owed; /* perf: ticks that fell due and did not come, to be made up for; in no other counter */
    uint32_t in_user;      /* clock perf-user: looks in a row that found no system call ... */
    uint32_t row;          /* ticks lost in a row, whose time is in no sample yet */

    /* what few ticks touch */
    uint32_t patience;              /* ... and after how many the remainder goes to what runs */
    uint64_t group_cpu;             /* perf: the CPU clock when this tick began a group; 0: it did not */
    uint64_t tick_ns, last_tick_ns; /* CPU time that a tick takes: the less of two that began groups, and the later one */
    uint64_t random;
    _Atomic uint64_t counters[SPP_COUNTERS_N];
    _Atomic uint64_t losses[SPP_LOSS_COUNT]; /* by anyone: read-modify-write */
    spp_native_scratch *native;              /* NULL: no native frames */

    spp_known known[SPP_KNOWN_CODES];
} spp_thread_tick;

/* Used by the watch. */
typedef struct {
    void *block; /* holds all its stacks, up to block_depth */
    size_t block_bytes;
    uint32_t block_depth;
    uint64_t cpu_start;                /* its CPU clock when armed */
    _Atomic uint64_t exec_disarmed_ns; /* when it was disarmed because it calls exec; 0: it does not */
    uint64_t blocked_ns; /* when it was last seen to block the ticks of the run's clock, and has another's; 0: it does not */
    bool counted;        /* under the drain lock: the tick stats' sum over threads has it */
    bool seen;           /* found in this scan */
    bool unnamed,
        asked; /* only the system named it, perhaps with the name of its creator: read once more; under the drain lock */
    uint64_t last_cpu, last_ticks; /* its CPU clock and its ticks at the last look */
    bool ends;                     /* Python reported its end; this and the following fields under the drain lock */
    bool gone;                     /* another thread has its id */
    uint64_t ends_cpu;             /* its CPU clock at that report */
} spp_thread_watch;

/* The locks whose `with` blocks a thread was in when its CPU clock was this: run/holders.c. */
typedef struct {
    uintptr_t keys[SPP_LOCKS_MOST];
    uint32_t n, id; /* of the thread: other threads used its slot before */
    uint64_t cpu;
} spp_entered;

#define SPP_PLACES 8 /* where a thread waits: of so many it is known how much ready time their samples lack */

/* Used by the sampler of wall mode, under the drain lock; the counters are read by any thread. */
typedef struct {
    _Atomic uint64_t walked, repeated; /* stacks walked from outside, ticks that repeated one */
    uint64_t look_ns, look_cpu;        /* monotonic time and the thread's CPU clock at the last look */
    int64_t off_ns;                    /* time off the CPU up to then that is in no sample yet */
    _Atomic int64_t due_ns;            /* the same, of which no tick was counted yet; negative: too many were */
    bool blocked;                      /* the thread was still at that stack at the last look */
    bool held;                         /* it was held for that walk, and its clock has not moved since */
    bool cut;                          /* that stack was not kept */
    spp_frame held_leaves[SPP_LEAVES]; /* its newest Python frames then */
    uint32_t held_depth;               /* how many */
    uint32_t look_run, first_run;      /* what the trigger's `runs` was then, and when it was armed */
    uint64_t written_ns;               /* when that stack was last emitted */
    uint32_t repeats;                  /* ticks since then */
    uint32_t *path, depth, flags;      /* its frame ids, root first */
    uint32_t label;                    /* as in resolved.h, as are these */
    uint32_t reason, waits_on, task, held_by, span;
    uintptr_t leaf;   /* the code object of that stack's leaf; 0: it is none */
    spp_awaited lock; /* that it waits for; key 0: none that a thread may hold */
    uint32_t unheld;  /* looks since somebody was known to hold it */
    /* How long it was ready without a processor in all, as the system counted it at the last reading, and how often that ended
     * (0: not read yet); how much of it was new, if the sample to be written is the first since that reading. */
    uint64_t ready_seen, ready_times, ready_ns;
    bool ready_read;
    uint32_t waited, waited_n;          /* the last reason that was no lack of a processor (0: none), and samples since then */
    uint32_t waited_on, waited_held_by; /* that wait's lock and holder, if known */
    uintptr_t waited_leaf;              /* and where it was */
    struct {
        uintptr_t place;
        int64_t lacks; /* ready time that its samples lack; negative: have too much */
    } places[SPP_PLACES];
    uint32_t places_next;
    spp_entered entered;
} spp_thread_wall;

/* Used by the thread that resolves, under the drain lock: the last record of the queue. */
typedef struct {
    uint32_t *path; /* its frame ids, root first */
    bool cut;       /* it was not kept */
    uintptr_t leaf; /* the code object of its leaf; 0: it is none */
    uint32_t round; /* which of the collections in resolve.c has samples of its clock, and where the first begins */
    uint64_t first;
} spp_thread_queued;

/* The drain thread's alone: the stack stored last, root first, and its trie nodes (node 0 first); and what
 * docs/file-format.md says of t and d. */
typedef struct {
    uint32_t *nodes, *frames;
    uint32_t depth;
    uint64_t us, pace;
    int64_t carry_ns;
    uint64_t value_us; /* the time of its last row of block V */
} spp_thread_file;

/* For a source other than time. The counters are written by the handler or by the thread that
 * resolves, and read by any thread. */
typedef struct {
    spp_os_event event;      /* the watch's */
    uint64_t before;         /* the watch's: units that events counted which are closed by now */
    _Atomic uint64_t given;  /* units of the event that is open, which samples so far stand for */
    uint64_t least;          /* the watch's, when it opens one: the period grows from here; 0: it is fixed */
    _Atomic uint64_t period; /* what the event is set to: by the handler, and by the watch */
    _Atomic uint32_t ticks;  /* the handler's */
    uint32_t ticks_seen;     /* the watch's */
    uint64_t since_ns;       /* the handler's: when the period was last thought over */
    _Atomic uint64_t taken, losses[SPP_LOSS_COUNT];
} spp_thread_source;

typedef struct spp_thread {
    _Alignas(64) _Atomic uint32_t state; /* the watch: written while disarmed, then constant while armed; as are the next three */
    const spp_clock *clock;
    spp_thread_tick tick;
    int32_t tid;
    uint32_t id; /* its number in the file */
    spp_os_trigger trigger;
    spp_thread_watch watch;
    spp_thread_wall wall;
    spp_thread_queued queued;
    spp_thread_file file;
    spp_thread_source sources[SPP_SOURCE_COUNT]; /* that of time is not used */
} spp_thread;

#define SPP_THREADS_MAX 16384u /* at the most 65,536: a sample says its slot in 16 bits */
#define SPP_PATIENCE_LEAST 8u  /* looks of the remainder timer: weigh.c */
#define SPP_OWED_MOST 64       /* ticks of a thread, of each mode, that came late and are made up for */

/* The state that handlers read. Written while nothing is armed, but `active` and `epoch`. */
typedef struct {
    _Atomic uint32_t active; /* 0: every tick is ignored; 1: sampling; 2: paused */
    _Atomic uint32_t epoch;  /* how many code objects died */
    uint32_t max_depth;      /* of Python frames */
    spp_native_mode native;
    bool native_full; /* CPython's own functions are kept too */
    uint64_t interval_ns;
    uint32_t group;                                           /* ticks that share a period */
    uintptr_t (*thread_state)(const spp_os_subject *subject); /* of the calling thread, or a suspended one; async-signal-safe */
    bool (*holds_gil)(uintptr_t state);                       /* as in tstates.h; NULL: nobody asks */
    _Atomic(uint64_t *) births;                               /* the interpreter's count of thread states; NULL if unknown */
    uint64_t births_seen;
    spp_os_bell bell; /* wakes the watch */
} spp_capture;
extern spp_capture spp_cap;
extern spp_thread *spp_threads;           /* slab of SPP_THREADS_MAX */
extern _Atomic uint32_t spp_threads_used; /* slots ever used */

/* One bit per slot: its queue may hold records. Set after a record is written; cleared by a reader
 * before it reads the queue. So the cost of a code object's death depends on the records that wait,
 * not on the number of threads. */
extern _Atomic uint64_t spp_pending[SPP_THREADS_MAX / 64];

static inline void spp_threads_mark(const spp_thread *thread) {
    size_t slot = (size_t)(thread - spp_threads);
    atomic_fetch_or_explicit(&spp_pending[slot / 64], (uint64_t)1 << slot % 64, memory_order_seq_cst);
}

int spp_threads_init(void); /* makes the slab; once */
bool spp_threads_valid(const void *cookie);

/* Before arming: gives the thread its buffers and forgets its past. -1: no memory. */
int spp_threads_prepare(spp_thread *thread, int32_t tid, uint32_t id, const spp_clock *clock);
/* Its clock begins again, here: after a pause, with another trigger. What was open before is in no sample, and nothing of it
 * reaches those to come. Drain lock held; its trigger is disarmed, its repeats are written. */
void spp_threads_begin(spp_thread *thread, uint64_t cpu);
/* Then, of a thread that was born in the run: its first sample is to stand for what it ran before it was found too. False: that
 * is an interval or more, or its clock cannot. */
bool spp_threads_from_birth(spp_thread *thread);
/* In a forked child: every thread's record is as if it had never been used, and its memory is given back, so that nothing which a
 * thread of the parent left there is found by a run of the child's own. */
void spp_threads_child(void);

/* Returns when no handler runs any more that ran at the call. Not a handler, and without the drain lock. */
void spp_threads_wait(void);

#endif
