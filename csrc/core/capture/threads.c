#include "core/capture/threads.h"

#include <stdatomic.h>
#include <string.h>

#include "os/clock.h"
#include "os/memory.h"

spp_capture spp_cap;
spp_thread *spp_threads;
_Atomic uint32_t spp_threads_used;
_Atomic uint64_t spp_pending[SPP_THREADS_MAX / 64];

int spp_threads_init(void) {
    if (spp_threads != NULL) return 0;
    spp_threads = spp_os_pages(SPP_THREADS_MAX * sizeof(spp_thread));
    return spp_threads != NULL ? 0 : -1;
}

/* Handler. Whether a pointer that came with a signal is a slot of ours. */
bool spp_threads_valid(const void *cookie) {
    uintptr_t at = (uintptr_t)cookie, base = (uintptr_t)spp_threads;
    uintptr_t used = atomic_load_explicit(&spp_threads_used, memory_order_acquire);
    return at >= base && at < base + used * sizeof(spp_thread) && (at - base) % sizeof(spp_thread) == 0;
}

/* One block: two stacks of the handler, four paths of ids. Kept for the next use of the slot, if
 * its stacks are no deeper. */
static int make_stacks(spp_thread *t) {
    uint32_t depth = spp_cap.max_depth + (spp_cap.native != SPP_NATIVE_OFF ? SPP_NATIVE_MAX : 0);
    size_t stack = depth * sizeof(spp_frame), ids = (depth + 2u) * sizeof(uint32_t), bytes = 2 * stack + 4 * ids;
    if (t->watch.block_depth >= depth) return 0;
    uint8_t *block = spp_os_pages(bytes);
    if (block == NULL) return -1;
    spp_os_pages_free(t->watch.block, t->watch.block_bytes);
    t->watch.block = block;
    t->watch.block_bytes = bytes;
    t->watch.block_depth = depth;
    t->tick.now = (spp_frame *)(void *)block;
    t->tick.prev = (spp_frame *)(void *)(block + stack);
    t->queued.path = (uint32_t *)(void *)(block + 2 * stack);
    t->file.nodes = (uint32_t *)(void *)(block + 2 * stack + ids);
    t->file.frames = (uint32_t *)(void *)(block + 2 * stack + 2 * ids);
    t->wall.path = (uint32_t *)(void *)(block + 2 * stack + 3 * ids);
    return 0;
}

/* Resets all that weights are computed from. Open time from before goes to no sample: it may be
 * negative where samples represent the time between two, and giving it to later samples would move
 * time across the gap. */
static void begin_tick(spp_thread_tick *t, uint64_t now, uint64_t cpu) {
    t->last_ns = now;
    t->given_ns = t->spread_cpu = t->begun_cpu = cpu;
    t->spread_ran = t->spread_time = t->unseen_ns = t->begun_taken = 0;
    t->period_ns = spp_cap.interval_ns;
    t->until_sync = 0;
    t->owed = t->in_user = t->row = 0;
    t->patience = SPP_PATIENCE_LEAST;
    t->ahead_ns = 0;
    t->group_cpu = t->tick_ns = t->last_tick_ns = 0;
}

/* Except `busy`: a late signal may be in its handler. */
static void reset_tick(spp_thread_tick *t, uint64_t now, uint64_t cpu, uint64_t seed) {
    begin_tick(t, now, cpu);
    t->epoch = 0;
    t->prev_depth = 0;
    t->random = (now ^ seed << 32) * 0x9E3779B97F4A7C15u | 1u;
    memset(t->known, 0, sizeof t->known);
    t->ticks = t->taken = 0;
    for (int i = 0; i < SPP_COUNTERS_N; i++) t->counters[i] = 0;
    for (int i = 0; i < SPP_LOSS_COUNT; i++) t->losses[i] = 0;
    t->tstate = t->stack_end = 0;
    t->stack = (spp_os_stack){0, 0};
    if (t->native != NULL) t->native->most = spp_native_most(spp_cap.interval_ns);
}

static void reset_watch(spp_thread_watch *w, uint64_t cpu) {
    w->cpu_start = w->last_cpu = cpu;
    w->last_ticks = 0;
    w->exec_disarmed_ns = w->blocked_ns = 0;
    w->ends = w->gone = false;
}

/* Its repeats are written already. */
static void begin_wall(spp_thread_wall *w, uint64_t now, uint64_t cpu) {
    w->look_ns = w->written_ns = now;
    w->look_cpu = cpu;
    w->off_ns = 0;
    w->due_ns = 0;
    w->blocked = w->cut = false;
    w->repeats = 0;
    w->ready_times = w->ready_ns = 0;
    w->ready_read = false;
    w->waited = w->waited_n = w->waited_on = w->waited_held_by = 0;
    w->waited_leaf = 0;
    memset(w->places, 0, sizeof w->places);
}

static void reset_wall(spp_thread_wall *w, uint64_t now, uint64_t cpu) {
    begin_wall(w, now, cpu);
    w->walked = w->repeated = 0;
}

static void reset_file(spp_thread_file *f) {
    f->depth = 0;
    f->nodes[0] = 0;
    f->us = f->pace = f->value_us = 0;
    f->carry_ns = 0;
}

static void reset_sources(spp_thread *t) {
    for (int i = 0; i < SPP_SOURCE_COUNT; i++) {
        spp_thread_source *s = &t->sources[i];
        s->event = (spp_os_event){.fd = -1};
        s->before = 0;
        s->given = 0;
        s->taken = 0;
        s->least = 0;
        s->period = 0;
        s->since_ns = 0;
        s->ticks = s->ticks_seen = 0;
        for (int k = 0; k < SPP_LOSS_COUNT; k++) s->losses[k] = 0;
    }
}

int spp_threads_prepare(spp_thread *t, int32_t tid, uint32_t id, const spp_clock *clock) {
    if (make_stacks(t) != 0 || spp_queue_make(&t->tick.queue) != 0) return -1;
    if (spp_cap.native != SPP_NATIVE_OFF && t->tick.native == NULL) {
        t->tick.native = spp_os_pages(sizeof *t->tick.native);
        if (t->tick.native == NULL) return -1;
    }
    uint64_t now = spp_os_now_ns(), cpu = 0;
    (void)spp_os_thread_cpu_ns(tid, &cpu);
    t->tid = tid;
    t->trigger = (spp_os_trigger){.perf_fd = -1};
    t->id = id;
    t->clock = clock;
    reset_tick(&t->tick, now, cpu, (uint32_t)tid);
    reset_watch(&t->watch, cpu);
    reset_wall(&t->wall, now, cpu);
    t->queued.cut = false;
    t->queued.round = 0;
    reset_file(&t->file);
    reset_sources(t);
    return 0;
}

void spp_threads_begin(spp_thread *t, uint64_t cpu) {
    uint64_t now = spp_os_now_ns();
    begin_tick(&t->tick, now, cpu);
    t->tick.begun_taken = atomic_load_explicit(&t->tick.taken, memory_order_relaxed);
    t->watch.cpu_start = cpu - atomic_load_explicit(&t->tick.ticks, memory_order_relaxed) * spp_cap.interval_ns;
    t->watch.last_cpu = cpu;
    t->watch.last_ticks = atomic_load_explicit(&t->tick.ticks, memory_order_relaxed);
    t->queued.round = 0;
    begin_wall(&t->wall, now, cpu);
}

bool spp_threads_from_birth(spp_thread *t) {
    if (t->clock->weight != SPP_WEIGHT_INSTANTS || t->watch.cpu_start >= spp_cap.interval_ns) return false;
    t->tick.unseen_ns = t->watch.cpu_start;
    t->watch.cpu_start = 0;
    t->tick.given_ns = 0;
    t->tick.begun_cpu = 0;
    return true;
}

/* Records hold only values, and the memory that is freed here. Only an armed trigger has a
 * descriptor. */
void spp_threads_child(void) {
    uint32_t used = atomic_load(&spp_threads_used);
    for (uint32_t i = 0; i < used; i++) {
        spp_thread *t = &spp_threads[i];
        if (t->state == SPP_THREAD_ARMED) {
            spp_os_trigger_drop(&t->trigger);
            for (int k = 0; k < SPP_SOURCE_COUNT; k++) spp_os_event_drop(&t->sources[k].event);
        }
        spp_os_pages_free(t->watch.block, t->watch.block_bytes);
        spp_os_pages_free(t->tick.native, sizeof *t->tick.native);
        spp_queue_free(&t->tick.queue);
        memset((void *)t, 0, sizeof *t);
    }
    for (size_t i = 0; i < sizeof spp_pending / sizeof *spp_pending; i++)
        atomic_store_explicit(&spp_pending[i], 0, memory_order_relaxed);
    atomic_store(&spp_threads_used, 0);
    atomic_store(&spp_cap.active, 0);
    atomic_store(&spp_cap.bell.rung, 0);
}

void spp_threads_wait(void) {
    uint32_t used = atomic_load_explicit(&spp_threads_used, memory_order_acquire);
    for (uint32_t i = 0; i < used; i++) {
        while (atomic_load(&spp_threads[i].tick.busy) != 0) spp_os_sleep_until(spp_os_now_ns() + 50000);
    }
}
