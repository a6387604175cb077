/* No tick of the clock `signal` interrupts a call of the C library.
 *
 * A signal wakes a thread that sleeps in a system call, and ends a transfer early. Neither can be undone. So a thread in a call
 * is sent no signal. Functions of the C library that may wait or transfer data are called through wrappers (wrappers.c). A
 * wrapper announces the call, then checks for a tick under way; the sampler announces a tick, then checks for a call. At least
 * one of them sees the other (Dekker 1965). A tick under way is taken before the call begins.
 *
 * An instant that falls into a call is sampled when the call returns, by the thread itself and without a signal. Its stack is the
 * same until then.
 *
 * A signal interrupts a running thread some time after it was sent (7 us on a virtual machine, 1 us on bare metal), and the
 * sample shows that later instant. Sampling calls without this delay would give them too many samples; never sampling a call in
 * which the delay ends would give its samples to the code before it. So when a call begins during the delay, the thread waits
 * for the signal first, and as long again goes by its CPU clock: the call is sampled if it runs for that long, else the code
 * after it. Sleeping does not count. */
#ifndef SPPROF_OS_LINUX_HANDSHAKE_H
#define SPPROF_OS_LINUX_HANDSHAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/hints.h"
#include "os/linux/machine.h"

/* State of a tick. It is changed by S, the sampler, or T, the thread and its handler. */
enum {
    SPP_TICK_NONE,
    SPP_TICK_ABOUT,   /* S: about to be sent. T may still cancel it. */
    SPP_TICK_SENDING, /* S: being sent; cannot be cancelled any more */
    SPP_TICK_SENT,    /* S: the signal is under way, or pending because the thread blocks it */
    SPP_TICK_TIMED,   /* T: the thread's timer will bring it */
    SPP_TICK_LEFT,    /* T: due when the thread's CPU clock reaches `due_cpu`; checked where calls begin and end */
};

/* A look found the thread in a call. Whether it was asleep there, the thread itself knows best, and soonest, when the call ends.
 * For the kernel counts CPU time from when a thread is woken, and on an idle processor it takes 10 us and more until it runs;
 * meanwhile others read an old value of its clock (enqueue_task() updates the run queue's, and __schedule() does not again:
 * rq_clock_skip_update in kernel/sched/core.c). A look that finds out itself that the thread is running takes this back. */
#define SPP_WANTED_UNSURE 0x80000000u

/* State that a thread and the samplers share. */
typedef struct {
    _Alignas(64) _Atomic int32_t tid; /* 0: unused */
    _Atomic uint32_t tick;
    _Atomic uintptr_t call;      /* the frame of the wrapper that the thread is in; 0: in none */
    _Atomic uint64_t blocks;     /* the signals that it blocks, as far as its wrappers saw */
    _Atomic(void *) target;      /* sender.c's target; NULL: not armed */
    _Atomic uint32_t wanted;     /* number of instants that fell into the call, and SPP_WANTED_UNSURE */
    _Atomic uint32_t woken;      /* T: how many instants of SPP_WANTED_UNSURE it was not asleep at */
    _Atomic uint32_t note;       /* its number, times 2; odd: being written */
    uint32_t judged;             /* T: the last note that it judged */
    _Atomic uint64_t noted_ns;   /* the last instant of SPP_WANTED_UNSURE, */
    _Atomic uint64_t noted_cpu;  /* the thread's CPU time then, */
    _Atomic uint64_t delay_ns;   /* and the delay from that instant to a tick's sample */
    _Atomic uint32_t quick;      /* T: how often in a row a call began soon after a timer was set */
    _Atomic uint64_t wanted_cpu; /* CPU time at which the last of `wanted` is due */
    _Atomic uint64_t due_cpu;    /* T: SPP_TICK_LEFT */
    uint64_t entered_ns;         /* T: when it began to settle a tick, */
    uint64_t awaited_ns;         /* and the last time before that tick's signal interrupted it */
    bool in_vain;                /* T: it has waited for a signal in vain, and none has reached it since */
    uint64_t left_ns;            /* T: how much of that tick's delay was left then */
    uintptr_t function;          /* T: the function that returned, while its samples are taken; else 0 */
} spp_linux_handshake;

/* Two ways to a bucket. The kernel assigns thread ids in sequence, so living threads seldom share a bucket. */
#define SPP_HANDSHAKES 16384u
#define SPP_HANDSHAKE_WAYS 2u
extern _Atomic(spp_linux_handshake *) spp_linux_handshakes; /* NULL: not made yet; else spp_linux_place_of_tid is known */
extern _Atomic long spp_linux_place_of_tid;                 /* workers.c: its offset from thread_pointer(); 0: unknown */

/* What handshake.c needs of sender.c. Called by the thread itself. */
typedef struct {
    /* Stops the timer of an SPP_TICK_TIMED tick. Returns the time that was left at `entered_ns`, and stores how long the thread
     * ran since time(). */
    uint64_t (*stop)(spp_linux_handshake *h, uint64_t *ran);
    /* Starts that timer, so that it interrupts the thread when it has run for `ns` more. False: not possible. */
    bool (*time)(spp_linux_handshake *h, uint64_t ns);
    /* Counts one instant more for the tick under way. */
    void (*join)(spp_linux_handshake *h);
    /* Takes `n` samples of the calling thread. All signals are blocked. */
    void (*sample)(spp_linux_handshake *h, uint32_t n);
    /* Removes pending ticks, which the thread blocks. */
    void (*take_back)(void);
} spp_linux_ticks;
extern const spp_linux_ticks *spp_linux_ticks_by; /* set before the first tick */

/* Call before the first wrapper is. -1: no memory, or unknown where the C library keeps thread ids; then there are no handshakes.
 */
int spp_linux_handshakes_make(void);
/* In a forked child: frees the lock that a thread of the parent may have held. Handshakes of the parent's threads stay, like
 * those of any threads that ended. */
void spp_linux_handshakes_child(void);
/* Returns a thread's handshake, a new one if needed; NULL: the bucket is full. Any thread, also in a handler. */
spp_linux_handshake *spp_linux_handshake_of(int32_t tid);
/* The same for a thread that is being armed. A thread without a handshake may be in a call that began before wrappers were
 * installed: its `call` is SPP_CALL_UNKNOWN until it is seen running. */
spp_linux_handshake *spp_linux_handshake_arm(int32_t tid, void *target);
#define SPP_CALL_UNKNOWN ((uintptr_t)1)

/* ---- the sampler's side */

/* Begins a tick. False: the thread is in a call, or h->tick shows one that is not over. */
bool spp_linux_tick_begin(spp_linux_handshake *h);
/* Call after sending the signal, or failing to. */
void spp_linux_tick_sent(spp_linux_handshake *h, bool sent);

/* ---- the thread's side */

typedef struct {
    spp_linux_handshake *of;
    uintptr_t outer; /* the call that the thread was already in, if this is a handler's */
} spp_linux_call;

/* The calling thread's id, as its C library keeps it. Call if there are handshakes. */
static inline int32_t spp_linux_own_tid(void) {
    return *(const int32_t *)(thread_pointer() + (uintptr_t)atomic_load_explicit(&spp_linux_place_of_tid, memory_order_relaxed));
}

/* The bucket's first handshake is nearly always the right one. NULL: it is another thread's, or there are none. */
static inline spp_linux_handshake *spp_linux_handshake_first(void) {
    spp_linux_handshake *all = atomic_load_explicit(&spp_linux_handshakes, memory_order_acquire);
    if (spp_rare(all == NULL)) return NULL;
    int32_t tid = spp_linux_own_tid();
    spp_linux_handshake *h = &all[(uint32_t)tid % SPP_HANDSHAKES * SPP_HANDSHAKE_WAYS];
    return spp_usual(atomic_load_explicit(&h->tid, memory_order_relaxed) == tid) ? h : NULL;
}

/* Returns the calling thread's handshake, or NULL. Handler. */
spp_linux_handshake *spp_linux_handshake_own(void);

/* Returns `call` if it is still under way where the thread is at the stack pointer `here`, in a handler; 0 if it was left. */
uintptr_t spp_linux_outer_call(uintptr_t call, uintptr_t here);
/* In each function that makes a wrapped call: if its frame is left by unwinding, the call is over (jumps.c). */
#define SPP_LINUX_UNWINDS __asm__(".cfi_personality 0x1b, spp_linux_unwound")
spp_linux_call spp_linux_begin_call(uintptr_t here);
void spp_linux_leave_call(spp_linux_handshake *h, uintptr_t here, uintptr_t function);

/* Wrappers call it before the real function. Any thread, also in a handler; keeps errno. `here`: an address in the caller's
 * frame. */
static inline spp_linux_call spp_linux_call_begins(uintptr_t here) {
    spp_linux_handshake *h = spp_linux_handshake_first();
    if (spp_rare(h == NULL || atomic_load_explicit(&h->call, memory_order_relaxed) != 0)) return spp_linux_begin_call(here);
    (void)atomic_exchange_explicit(&h->call, here, memory_order_seq_cst); /* the fence of the handshake */
    if (spp_rare(atomic_load_explicit(&h->tick, memory_order_seq_cst) != SPP_TICK_NONE)) return spp_linux_begin_call(here);
    return (spp_linux_call){h, 0};
}

/* ... and after it. `function`: the function that returned. */
static inline void spp_linux_call_ends(spp_linux_call call, uintptr_t here, uintptr_t function) {
    if (spp_rare(call.of == NULL)) return;
    atomic_store_explicit(&call.of->call, call.outer, memory_order_release);
    uint32_t due =
        atomic_load_explicit(&call.of->wanted, memory_order_relaxed) | atomic_load_explicit(&call.of->tick, memory_order_relaxed);
    if (spp_rare(due != 0)) spp_linux_leave_call(call.of, here, function);
}

#endif
