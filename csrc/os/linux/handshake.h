/* A tick meets no call.
 *
 * A signal wakes a thread that sleeps in a system call, and cuts short what the call moves. Nothing mends that afterwards: what
 * was moved is moved, and time that passed has passed. So the clock `signal` sends none to a thread that is in a call. Each
 * function of the C library that may wait, or move data, is called by way of a wrapper (wrappers.c). The wrapper says that its
 * thread is in a call, then looks for a tick that is on its way; the sampler says that it is about to send one, then looks
 * whether the thread is in a call. One of the two sees the other (Dekker 1965). A tick that is on its way is taken before the
 * call begins.
 *
 * An instant that is drawn while a thread is in a call is sampled when the call is over, by the thread itself and without a
 * signal: its stack is the same until then.
 *
 * A signal meets a running thread some time after it was sent (17 us on a virtual machine, 1 on a plain one): samples are of that
 * later instant. Were calls sampled without that delay, or not at all where it ends in a call, they would get too much, or what
 * comes before them. So each instant that a call cuts off is put off by what is left of the delay, as the thread's CPU clock
 * counts it: the call is sampled if it runs for that long, else what comes after it. A nap takes nothing of it. */
#ifndef SPPROF_OS_LINUX_HANDSHAKE_H
#define SPPROF_OS_LINUX_HANDSHAKE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/hints.h"

/* What becomes of a tick. Who may change which: S the sampler, T the thread, in its handler too. */
enum {
    SPP_TICK_NONE,
    SPP_TICK_ABOUT,   /* S: about to be sent. T may take it back, S then finds it gone. */
    SPP_TICK_SENDING, /* S: being sent, and nobody takes it back */
    SPP_TICK_SENT,    /* S: the signal is on its way, or waits because its thread blocks it */
    SPP_TICK_TIMED,   /* T: a timer of the thread's own brings it */
    SPP_TICK_LEFT,    /* T: it is due when the CPU clock shows `due_cpu`; looked at where calls begin and end */
};

/* What a thread and the sampler tell each other. */
typedef struct {
    _Alignas(64) _Atomic int32_t tid; /* 0: free */
    _Atomic uint32_t tick;
    _Atomic uintptr_t call;  /* the frame of the wrapper whose call the thread is in; 0: it is in none */
    _Atomic uint64_t blocks; /* the signals that it blocks, as far as it told */
    _Atomic(void *) target;  /* whom ticks are for: sender.c's; NULL: nobody */
    /* instants that fell into the call: how many, and when the last of them is due */
    _Atomic uint32_t wanted;
    _Atomic uint32_t quick; /* T: so many times in a row a timer met a call soon after it was set */
    _Atomic uint64_t wanted_cpu;
    _Atomic uint64_t due_cpu; /* T: SPP_TICK_LEFT */
    uintptr_t function;       /* T: whose call is over, while it takes the samples of that; else 0 */
} spp_linux_handshake;

/* Two ways to a bucket: threads' ids are given in turn, so those of two living threads seldom lie this far apart. */
#define SPP_HANDSHAKES 16384u
#define SPP_HANDSHAKE_WAYS 2u
extern spp_linux_handshake *spp_linux_handshakes; /* NULL: none yet */
extern _Atomic long spp_linux_place_of_tid;       /* workers.c: in a thread's descriptor; -1: not known */

/* sender.c: what these need of who makes ticks. */
typedef struct {
    /* The thread's timer, which brings a tick that is SPP_TICK_TIMED, is stopped. What was left of its time, and what had passed.
     */
    uint64_t (*stop)(spp_linux_handshake *h, uint64_t *passed);
    /* The same is to fire so long from now; false: it cannot. */
    bool (*time)(spp_linux_handshake *h, uint64_t ns);
    /* Takes so many samples of where the thread is. All signals are blocked. */
    void (*sample)(spp_linux_handshake *h, uint32_t n);
    /* Takes a tick back that the thread blocks. */
    void (*take_back)(void);
} spp_linux_ticks;
extern const spp_linux_ticks *spp_linux_ticks_by; /* set before the first tick */

/* Before the first wrapper is called. -1: no memory, or a C library that keeps no thread's number: there are no handshakes. */
int spp_linux_handshakes_make(void);
/* In a forked child, by its only thread. Another thread of the parent may have been making one. What is known of the parent's
 * threads stays, as of any that ended. */
void spp_linux_handshakes_child(void);
/* A thread's; made if there is none. NULL: there is no room. Any thread, handlers too. */
spp_linux_handshake *spp_linux_handshake_of(int32_t tid);
/* The same, as ticks for `target` are to begin. One that made no call since the first run began may be in one from before: its
 * `call` is SPP_CALL_UNKNOWN until it is seen to run. */
spp_linux_handshake *spp_linux_handshake_arm(int32_t tid, void *target);
#define SPP_CALL_UNKNOWN ((uintptr_t)1)

/* ---- the sampler's side */

/* Begins a tick, if there is none. False: the thread is in a call, or there is no need to send: h->tick tells. */
bool spp_linux_tick_begin(spp_linux_handshake *h);
/* It was sent, or could not be. */
void spp_linux_tick_sent(spp_linux_handshake *h, bool sent);

/* ---- the thread's side */

typedef struct {
    spp_linux_handshake *of;
    uintptr_t outer; /* the call that this one is in the midst of: a handler's */
} spp_linux_call;

/* The calling thread's; NULL: it has none. */
static inline spp_linux_handshake *spp_linux_handshake_own(void) {
    long place = atomic_load_explicit(&spp_linux_place_of_tid, memory_order_relaxed);
    if (spp_rare(spp_linux_handshakes == NULL || place < 0)) return NULL;
    int32_t tid = *(const int32_t *)((uintptr_t)pthread_self() + (uintptr_t)place);
    spp_linux_handshake *h = &spp_linux_handshakes[(uint32_t)tid % SPP_HANDSHAKES * SPP_HANDSHAKE_WAYS];
    return spp_usual(atomic_load_explicit(&h->tid, memory_order_relaxed) == tid) ? h : spp_linux_handshake_of(tid);
}

uintptr_t spp_linux_outer_call(uintptr_t call, uintptr_t here);
void spp_linux_settle_tick(spp_linux_handshake *h);
void spp_linux_leave_call(spp_linux_handshake *h, uintptr_t here, uintptr_t function);

/* Any thread, handlers too; errno stays. `here`: an address in the caller's frame. */
static inline spp_linux_call spp_linux_call_begins(uintptr_t here) {
    spp_linux_call call = {spp_linux_handshake_own(), 0};
    if (spp_rare(call.of == NULL)) return call;
    call.outer = atomic_load_explicit(&call.of->call, memory_order_relaxed);
    if (spp_rare(call.outer != 0)) call.outer = spp_linux_outer_call(call.outer, here);
    (void)atomic_exchange_explicit(&call.of->call, here, memory_order_seq_cst); /* the fence of the handshake */
    if (spp_rare(atomic_load_explicit(&call.of->tick, memory_order_seq_cst) != SPP_TICK_NONE)) spp_linux_settle_tick(call.of);
    return call;
}

/* The same. `function`: what was called. */
static inline void spp_linux_call_ends(spp_linux_call call, uintptr_t here, uintptr_t function) {
    if (spp_rare(call.of == NULL)) return;
    atomic_store_explicit(&call.of->call, call.outer, memory_order_release);
    uint32_t due =
        atomic_load_explicit(&call.of->wanted, memory_order_relaxed) | atomic_load_explicit(&call.of->tick, memory_order_relaxed);
    if (spp_rare(due != 0) && call.outer == 0) spp_linux_leave_call(call.of, here, function);
}

#endif
