#include "core/run/ours.h"

#include <stdatomic.h>
#include <stddef.h>

#include "base/patience.h"
#include "base/spinlock.h"
#include "core/file/writer.h"
#include "core/run/state.h"
#include "os/clock.h"
#include "os/ticks.h"
#include "os/worker.h"

#define MOST 32
#define BIRTH_MOST_NS 100000000u /* a thread that begins needs the GIL, which C code of the program may have for long */
/* Threads that run Python. */
static struct {
    _Atomic int32_t tid; /* 0: nobody's */
    _Atomic uint64_t cpu_start;
} threads[MOST];
static _Atomic uint64_t ended_cpu; /* of those that left */
static _Atomic uint32_t births;    /* announced, and not entered */
static _Atomic uint64_t looks;
static uint64_t latest; /* the last look whose result came. Under the lock, like all changes of threads */
static spp_spinlock lock;

/* 0 for a thread that is no more, or another process's, as a forked child's parent's are. */
static uint64_t cpu_of(int32_t tid) {
    uint64_t cpu;
    return spp_os_thread_cpu_ns(tid, &cpu) == 0 ? cpu : 0;
}

static int place_of(int32_t tid) {
    for (int i = 0; i < MOST; i++) {
        if (atomic_load(&threads[i].tid) == tid) return i;
    }
    return MOST;
}

void spp_ours_forget(void) {
    for (int i = 0; i < MOST; i++) atomic_store(&threads[i].tid, 0);
    atomic_store(&ended_cpu, 0);
    atomic_store(&births, 0);
}

void spp_ours_abandon(void) {
    spp_spin_reset(&lock);
    spp_ours_forget();
}

static void enter(int32_t tid) {
    uint64_t cpu;
    if (spp_os_thread_cpu_ns(tid, &cpu) != 0 || place_of(tid) != MOST) return;
    for (int i = 0; i < MOST; i++) {
        int32_t none = 0;
        if (!atomic_compare_exchange_strong(&threads[i].tid, &none, tid)) continue;
        atomic_store(&threads[i].cpu_start, cpu);
        return;
    }
}

uint64_t spp_ours_look(void) { return atomic_fetch_add(&looks, 1) + 1; }

void spp_ours_found(uint64_t look, const int32_t *tids, uint32_t n, uint32_t announced) {
    spp_spin_lock(&lock);
    if (look > latest) {
        latest = look;
        for (uint32_t i = 0; i < n; i++) enter(tids[i]);
        atomic_store(&births, announced);
    }
    spp_spin_unlock(&lock);
}

bool spp_ours_are_born(void) { return atomic_load(&births) != 0; }

static void leave(int32_t tid) {
    int i = place_of(tid);
    if (i == MOST) return;
    uint64_t cpu = cpu_of(tid), start = atomic_load(&threads[i].cpu_start);
    if (cpu > start) atomic_fetch_add(&ended_cpu, cpu - start);
    atomic_store(&threads[i].tid, 0);
}

void spp_ours_leave(int32_t tid) {
    spp_spin_lock(&lock);
    latest = spp_ours_look(); /* looks that began before may have seen it */
    leave(tid);
    spp_spin_unlock(&lock);
}

void spp_ours_start(void) {
    spp_patience left = BIRTH_MOST_NS;
    while (spp_ours_are_born() && spp_patience_sleep(&left, 100000)) {}
    for (int i = 0; i < MOST; i++) {
        int32_t tid = atomic_load(&threads[i].tid);
        if (tid != 0) atomic_store(&threads[i].cpu_start, cpu_of(tid));
    }
    atomic_store(&ended_cpu, 0);
}

static bool is_worker(const spp_os_worker *worker, int32_t tid) { return worker != NULL && tid == spp_os_worker_tid(worker); }

bool spp_ours_is(int32_t tid) {
    return is_worker(spp_run_state.drain, tid) || is_worker(spp_run_state.sampler, tid) || spp_writer_is(tid) ||
           place_of(tid) != MOST;
}

uint64_t spp_ours_cpu_ns(void) {
    uint64_t all = spp_run_state.drain_cpu + spp_run_state.sampler_cpu + spp_os_signal_cpu_ns() + atomic_load(&ended_cpu);
    for (int i = 0; i < MOST; i++) {
        int32_t tid = atomic_load(&threads[i].tid);
        uint64_t cpu = tid != 0 ? cpu_of(tid) : 0, start = atomic_load(&threads[i].cpu_start);
        if (cpu > start) all += cpu - start;
    }
    return all;
}
