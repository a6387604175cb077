#include "os/linux/handshake.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/linux/linux.h"
#include "os/linux/machine.h"
#include "os/linux/mask.h"
#include "os/lock.h"
#include "os/memory.h"
#include "os/threads.h"

/* A handler that runs on the same stack makes its calls within this distance of the one that it interrupted. */
#define HANDLER_REACH ((uintptr_t)1 << 20)
/* The sampler may be preempted by the thread while it sends: after so many tries the thread yields. (It does not sleep, because a
 * program may wait until it sleeps in the call that it is about to make.) */
#define TRIES 500
/* After QUICK calls in a row that began within QUICK_NS of setting a timer, ticks are only checked where calls begin and end. */
#define QUICK 2u
/* What the thread's CPU clock counts between two readings with nothing in between. */
#define CPU_READ_NS 300u
#define QUICK_NS 8000u
/* A signal that does not come by itself for so long is fetched by a system call. */
#define AWAITED_NS 20000u

_Atomic(spp_linux_handshake *) spp_linux_handshakes;
const spp_linux_ticks *spp_linux_ticks_by;

int spp_linux_handshakes_make(void) {
    if (atomic_load(&spp_linux_handshakes) == NULL && atomic_load(&spp_linux_place_of_tid) != 0)
        atomic_store(&spp_linux_handshakes, spp_os_pages(SPP_HANDSHAKES * SPP_HANDSHAKE_WAYS * sizeof(spp_linux_handshake)));
    return atomic_load(&spp_linux_handshakes) != NULL ? 0 : -1;
}

/* Whether no thread of this process has that id. False in a program that must not be asked. */
static bool is_dead(int32_t tid) {
    return !atomic_load(&spp_linux_confined) && raw_call(SYS_tgkill, getpid(), (uintptr_t)tid, 0, 0) == -ESRCH;
}

static spp_linux_handshake *bucket_of(int32_t tid) {
    return &atomic_load(&spp_linux_handshakes)[(uint32_t)tid % SPP_HANDSHAKES * SPP_HANDSHAKE_WAYS];
}

static spp_linux_handshake *find_in(spp_linux_handshake *bucket, int32_t tid) {
    for (uint32_t i = 0; i < SPP_HANDSHAKE_WAYS; i++)
        if (atomic_load(&bucket[i].tid) == tid) return &bucket[i];
    return NULL;
}

/* Other threads search by id, so the id is stored last. */
static spp_linux_handshake *make_handshake(spp_linux_handshake *h, int32_t tid, uint64_t blocks) {
    atomic_store(&h->tid, 0);
    atomic_store(&h->target, NULL);
    atomic_store(&h->tick, SPP_TICK_NONE);
    atomic_store(&h->call, 0);
    atomic_store(&h->wanted, 0);
    atomic_store(&h->quick, 0);
    atomic_store(&h->blocks, blocks);
    h->in_vain = false;
    atomic_store(&h->tid, tid);
    return h;
}

/* Held while a handshake is made, with all signals blocked, because a handler may need one too. No spp_spinlock: handlers wait
 * for it, and a confined program's may not sleep, only make calls such as getpid(). */
static atomic_flag making = ATOMIC_FLAG_INIT;

/* A thread and the thread that arms it may both make its handshake; one of them waits. */
SPP_COLD spp_linux_handshake *spp_linux_handshake_of(int32_t tid) {
    if (atomic_load(&spp_linux_handshakes) == NULL) return NULL;
    spp_linux_handshake *bucket = bucket_of(tid), *found = find_in(bucket, tid);
    if (found != NULL) return found;
    uint64_t old = spp_linux_mask_all();
    while (atomic_flag_test_and_set_explicit(&making, memory_order_acquire) && !spp_os_forked_unseen())
        (void)raw_call(SYS_getpid, 0, 0, 0, 0);
    found = find_in(bucket, tid);
    for (uint32_t i = 0; i < SPP_HANDSHAKE_WAYS && found == NULL; i++) {
        int32_t has = atomic_load(&bucket[i].tid);
        if (has == 0 || is_dead(has)) found = make_handshake(&bucket[i], tid, tid == spp_os_tid() ? old : 0);
    }
    atomic_flag_clear_explicit(&making, memory_order_release);
    spp_linux_mask_set(old);
    return found;
}

spp_linux_handshake *spp_linux_handshake_own(void) {
    spp_linux_handshake *h = spp_linux_handshake_first();
    return h != NULL || atomic_load(&spp_linux_handshakes) == NULL ? h : spp_linux_handshake_of(spp_linux_own_tid());
}

spp_linux_handshake *spp_linux_handshake_arm(int32_t tid, void *target) {
    uintptr_t none = 0;
    if (atomic_load(&spp_linux_handshakes) == NULL) return NULL;
    spp_linux_handshake *h = find_in(bucket_of(tid), tid);
    if (h == NULL) {
        if ((h = spp_linux_handshake_of(tid)) == NULL) return NULL;
        (void)atomic_compare_exchange_strong(&h->call, &none, SPP_CALL_UNKNOWN);
    }
    atomic_store(&h->tick, SPP_TICK_NONE);
    atomic_store(&h->wanted, 0);
    atomic_store(&h->quick, 0);
    atomic_store(&h->target, target);
    return h;
}

void spp_linux_handshakes_child(void) { atomic_flag_clear(&making); }

/* ---- the sampler's side */

static bool change_tick(spp_linux_handshake *h, uint32_t from, uint32_t to) {
    return atomic_compare_exchange_strong(&h->tick, &from, to);
}

bool spp_linux_tick_begin(spp_linux_handshake *h) {
    if (!change_tick(h, SPP_TICK_NONE, SPP_TICK_ABOUT)) return false;
    if (atomic_load(&h->call) != 0) {
        (void)change_tick(h, SPP_TICK_ABOUT, SPP_TICK_NONE);
        return false;
    }
    return change_tick(h, SPP_TICK_ABOUT, SPP_TICK_SENDING);
}

void spp_linux_tick_sent(spp_linux_handshake *h, bool sent) {
    (void)change_tick(h, SPP_TICK_SENDING, sent ? SPP_TICK_SENT : SPP_TICK_NONE); /* fails if the handler ran first */
}

/* ---- the thread's side */

static bool is_within(const stack_t *stack, uintptr_t at) { return at - (uintptr_t)stack->ss_sp < stack->ss_size; }

SPP_COLD uintptr_t spp_linux_outer_call(uintptr_t call, uintptr_t here) {
    stack_t alternate = {.ss_size = 0};
    if (call == 0 || call == here) return 0;
    if (!atomic_load_explicit(&spp_linux_confined, memory_order_relaxed))
        (void)raw_call(SYS_sigaltstack, 0, (uintptr_t)&alternate, 0, 0);
    bool on_alternate = is_within(&alternate, here);
    if (on_alternate != is_within(&alternate, call)) return on_alternate ? call : 0;
    return call > here && call - here < HANDLER_REACH ? call : 0;
}

/* The signal did not come: the thread blocks it, or the kernel dropped it because another of the same number was pending. */
static void take_back_blocked(spp_linux_handshake *h) {
    if (atomic_load_explicit(&spp_linux_confined, memory_order_relaxed)) return; /* it stays pending, and may interrupt a call */
    spp_linux_ticks_by->take_back();
    (void)change_tick(h, SPP_TICK_SENT, SPP_TICK_NONE);
}

/* Counts calls that come quickly: the thread ran for at least `ns` before this one. */
static void note_pace(spp_linux_handshake *h, uint64_t ns) {
    atomic_store_explicit(&h->quick, ns < QUICK_NS ? atomic_load(&h->quick) + 1 : 0, memory_order_relaxed);
}

static void sample_masked(spp_linux_handshake *h, uint32_t n) {
    uint64_t old = spp_linux_mask_all();
    spp_linux_ticks_by->sample(h, n);
    spp_linux_mask_set(old);
}

/* A call begins or ends. Takes the tick whose delay went on, if it is over. */
static void check_left_tick(spp_linux_handshake *h) {
    uint64_t cpu = spp_os_own_cpu_ns(), due = atomic_load(&h->due_cpu);
    if (cpu < due || !change_tick(h, SPP_TICK_LEFT, SPP_TICK_NONE)) return;
    note_pace(h, cpu - due);
    sample_masked(h, 1);
}

/* Waits for the interrupt in the thread's own code, as if there were no call: so it is known how long the delay is. The clock
 * in the handler does not show it, because a virtual machine is halted during most of an interrupt. After a wait in vain the
 * thread waits no more until a signal reaches it: a handler of the program's may block it, and a confined program keeps such a
 * tick. */
static void await_signal(spp_linux_handshake *h) {
    h->awaited_ns = h->entered_ns;
    if (h->in_vain) return;
    while (h->awaited_ns - h->entered_ns < AWAITED_NS) {
        uint32_t tick = atomic_load(&h->tick);
        if (tick != SPP_TICK_SENDING && tick != SPP_TICK_SENT) return;
        h->awaited_ns = spp_os_now_ns();
    }
    h->awaited_ns = h->entered_ns + AWAITED_NS; /* the thread may have been preempted, which is no time of its own */
    h->in_vain = true;
}

/* One step of settle_tick(). True: it was the last. */
static bool settle_step(spp_linux_handshake *h, int i) {
    switch (atomic_load(&h->tick)) {
    case SPP_TICK_ABOUT: return change_tick(h, SPP_TICK_ABOUT, SPP_TICK_NONE);
    case SPP_TICK_SENDING:
        /* A fork by the system call alone, in the instant in which the parent's sampler sent: the child has none, and no signal.
         */
        if (spp_os_forked_unseen()) return change_tick(h, SPP_TICK_SENDING, SPP_TICK_NONE);
        (void)raw_call(SYS_getpid, 0, 0, 0, 0); /* a pending signal is delivered when a system call returns */
        if (i % TRIES == 0 && !atomic_load_explicit(&spp_linux_confined, memory_order_relaxed)) sched_yield();
        return false;
    case SPP_TICK_SENT:
        (void)raw_call(SYS_getpid, 0, 0, 0, 0);
        if (atomic_load(&h->tick) != SPP_TICK_SENT) return false;
        take_back_blocked(h);
        return true;
    case SPP_TICK_TIMED: {
        uint64_t ran, left = spp_linux_ticks_by->stop(h, &ran);
        atomic_store(&h->tick, SPP_TICK_LEFT); /* it may be already, if the timer ended meanwhile */
        h->left_ns = left;
        note_pace(h, ran);
        return false;
    }
    case SPP_TICK_LEFT: /* The delay goes on only now: settling the tick took its own time, and so does reading the clock. */
        atomic_store_explicit(&h->due_cpu, spp_os_own_cpu_ns() + CPU_READ_NS + h->left_ns, memory_order_relaxed);
        return true;
    default: return true;
    }
}

/* The thread is about to make a call, or has left one, and has announced it, so no more ticks are sent. Takes the one under way,
 * or keeps it. */
static void settle_tick(spp_linux_handshake *h) {
    if (atomic_load(&h->tick) == SPP_TICK_LEFT) {
        check_left_tick(h);
        return;
    }
    h->entered_ns = spp_os_now_ns();
    await_signal(h);
    for (int i = 1; !settle_step(h, i); i++) {}
}

/* What spp_linux_call_begins() rarely needs. It may have announced the call already. */
SPP_COLD spp_linux_call spp_linux_begin_call(uintptr_t here) {
    spp_linux_call call = {spp_linux_handshake_own(), 0};
    if (call.of == NULL) return call;
    call.outer = spp_linux_outer_call(atomic_load(&call.of->call), here);
    atomic_exchange(&call.of->call, here);
    if (atomic_load(&call.of->tick) != SPP_TICK_NONE) settle_tick(call.of);
    return call;
}

/* Whether the thread ran at the instant of SPP_WANTED_UNSURE, or had been woken. Stores the CPU time at which its sample is due.
 * `now`, `cpu`: the thread's clocks now. It has run since it was woken. */
static bool was_awake(spp_linux_handshake *h, uint64_t now, uint64_t cpu, uint64_t *due) {
    uint32_t note = atomic_load(&h->note);
    uint64_t at = atomic_load(&h->noted_ns), before = atomic_load(&h->noted_cpu), delay = atomic_load(&h->delay_ns),
             woken = now - (cpu - before);
    if (note % 2 != 0 || note != atomic_load(&h->note) || note == h->judged) return false; /* a newer one */
    h->judged = note;
    if (cpu <= before || at + CPU_READ_NS < woken) return false;
    *due = before + (at > woken ? at - woken : 0) + delay;
    atomic_fetch_add_explicit(&h->woken, 1, memory_order_relaxed);
    return true;
}

/* A call has returned. Takes the samples that were due in it, and schedules one that is not due yet. */
static void take_due_ticks(spp_linux_handshake *h) {
    uint32_t wanted = atomic_exchange(&h->wanted, 0), n = wanted & ~SPP_WANTED_UNSURE, here = 0;
    bool joins = false;
    uint64_t cpu = spp_os_own_cpu_ns(), now = spp_os_now_ns(), due = 0, last = atomic_load(&h->wanted_cpu);
    if (atomic_load(&h->tick) == SPP_TICK_LEFT) {
        due = atomic_load(&h->due_cpu);
        if (cpu >= due) here++, due = 0;
    }
    if ((wanted & SPP_WANTED_UNSURE) && was_awake(h, now, cpu, &last)) n++;
    if (n > 0) {
        here += n - 1;
        if (cpu >= last) {
            here++;
        } else if (due != 0) {
            joins = true;
            if (last < due) due = last;
        } else {
            due = last;
        }
    }
    uint64_t left = due > cpu ? due - cpu : 0; /* sampling is not the program's time */
    if (here > 0) sample_masked(h, here);
    if (joins) spp_linux_ticks_by->join(h);
    if (due == 0) {
        atomic_store(&h->tick, SPP_TICK_NONE);
    } else if (atomic_load_explicit(&h->quick, memory_order_relaxed) >= QUICK) {
        atomic_store_explicit(&h->due_cpu, here > 0 ? spp_os_own_cpu_ns() + left : due, memory_order_relaxed);
        atomic_store(&h->tick, SPP_TICK_LEFT);
    } else {
        atomic_store(&h->tick, SPP_TICK_TIMED);
        if (!spp_linux_ticks_by->time(h, left)) {
            atomic_store(&h->tick, SPP_TICK_NONE);
            sample_masked(h, 1);
        }
    }
}

SPP_COLD void spp_linux_leave_call(spp_linux_handshake *h, uintptr_t here, uintptr_t function) {
    if (atomic_load(&h->call) != 0) return; /* it was a handler's: the outer call goes on */
    if (atomic_load(&h->target) == NULL || spp_linux_ticks_by == NULL) return;
    int saved = errno;
    if (atomic_load(&h->wanted) == 0 && atomic_load(&h->tick) != SPP_TICK_LEFT) return; /* a signal under way may come now */
    do {
        atomic_exchange(&h->call, here); /* keeps ticks away meanwhile */
        if (atomic_load(&h->tick) != SPP_TICK_LEFT) settle_tick(h);
        h->function = function;
        take_due_ticks(h);
        h->function = 0;
        atomic_store(&h->call, 0);
    } while (atomic_load(&h->wanted) != 0); /* an instant that fell into what this took */
    errno = saved;
}
