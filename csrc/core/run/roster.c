#include "core/run/roster.h"

#include <stdatomic.h>
#include <string.h>

#include "os/clock.h"
#include "os/lock.h"

static spp_map slot_of_tid; /* under the drain lock */
static uint32_t free_from;  /* no slot below is free */

uint32_t spp_roster_slot(int32_t tid) { return spp_map_get(&slot_of_tid, (uint64_t)tid, 0); }

void spp_roster_enter(spp_thread *t) { (void)spp_map_add(&slot_of_tid, (uint64_t)t->tid, 0, (uint32_t)(t - spp_threads)); }

void spp_roster_leave(spp_thread *t) {
    if (!t->watch.gone) (void)spp_map_remove(&slot_of_tid, (uint64_t)t->tid, 0);
}

void spp_roster_ends(int32_t tid) {
    uint64_t cpu;
    if (spp_os_thread_cpu_ns(tid, &cpu) != 0) return;
    spp_os_lock();
    uint32_t slot = spp_roster_slot(tid);
    if (slot != SPP_MAP_NONE) {
        spp_threads[slot].watch.ends = true;
        spp_threads[slot].watch.ends_cpu = cpu;
    }
    spp_os_unlock();
}

void spp_roster_gone(spp_thread *t) {
    t->watch.gone = true;
    if (spp_roster_slot(t->tid) == (uint32_t)(t - spp_threads)) (void)spp_map_remove(&slot_of_tid, (uint64_t)t->tid, 0);
}

/* A new thread may already be known: the scan can find it before Python reports it. */
void spp_roster_born(int32_t tid) {
    spp_os_lock();
    uint32_t slot = spp_roster_slot(tid);
    if (slot != SPP_MAP_NONE && spp_threads[slot].watch.ends) spp_roster_gone(&spp_threads[slot]);
    spp_os_unlock();
}

void spp_roster_free_ended(void) {
    uint32_t used = spp_threads_used;
    for (uint32_t i = 0; i < used; i++) {
        if (spp_threads[i].state == SPP_THREAD_ENDED) atomic_store(&spp_threads[i].state, SPP_THREAD_FREE);
    }
    free_from = 0;
}

spp_thread *spp_roster_free_slot(void) {
    uint32_t used = spp_threads_used;
    for (; free_from < used; free_from++) {
        if (spp_threads[free_from].state == SPP_THREAD_FREE) return &spp_threads[free_from];
    }
    if (used == SPP_THREADS_MAX) return NULL;
    atomic_store_explicit(&spp_threads_used, used + 1, memory_order_release);
    return &spp_threads[used];
}

void spp_roster_clear(void) { spp_map_free(&slot_of_tid); }

void spp_roster_abandon(void) {
    memset(&slot_of_tid, 0, sizeof slot_of_tid);
    free_from = 0;
}
