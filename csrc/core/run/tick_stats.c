#include "core/run/tick_stats.h"

#include <stdatomic.h>
#include <string.h>

#include "base/json.h"
#include "core/capture/tasks.h"
#include "core/file/write.h"
#include "core/file/writer.h"
#include "core/run/ours.h"
#include "core/run/state.h"
#include "os/clock.h"
#include "os/lock.h"
#include "os/process.h"
#include "os/threads.h"
#include "os/ticks.h"

typedef struct {
    uint64_t taken, repeated, counters[SPP_COUNTERS_N], losses[SPP_LOSS_COUNT];
    uint64_t wall_ns, cpu_ns, paused_ns, paused_cpu;
    uint32_t threads;
} sums;

/* Drain lock held. All of these only ever grow while a thread lives, and so do the tick stats. What is due and may yet be made up
 * for is in none of them. */
static void add_thread(const spp_thread *t, sums *s) {
    uint64_t unstored = t->tick.losses[SPP_LOSS_store_full] + t->tick.losses[SPP_LOSS_writer_behind];
    uint64_t taken = t->tick.taken + t->wall.walked, repeated = t->wall.repeated;
    uint64_t more = unstored > taken ? unstored - taken : 0; /* of those that were repeated */
    s->taken += taken > unstored ? taken - unstored : 0;
    s->repeated += repeated > more ? repeated - more : 0;
    for (int i = 0; i < SPP_COUNTERS_N; i++) s->counters[i] += t->tick.counters[i];
    for (int i = 0; i < SPP_LOSS_COUNT; i++) s->losses[i] += t->tick.losses[i];
}

static bool has_time(void) { return spp_run_state.sources.period[SPP_SOURCE_TIME] != 0; }

/* Clock `signal`: ticks that fell due since the last one that came. A few are chance, since its instants are drawn. */
#define CHANCE 8u
static uint64_t never_came(const spp_thread *t, uint64_t cpu) {
    if (!has_time()) return 0;
    uint64_t due = cpu > t->watch.cpu_start ? (cpu - t->watch.cpu_start) / spp_run_state.interval_ns : 0, ticks = t->tick.ticks,
             owed = t->tick.owed;
    return t->clock->weight == SPP_WEIGHT_INSTANTS && !spp_run_state.paused && due > ticks + owed + CHANCE ? due - ticks : owed;
}

void spp_tick_stats_end(spp_thread *t) {
    sums s = {0};
    uint64_t cpu = 0;
    int64_t off = t->wall.due_ns;
    /* For an ended thread the system may report less than its samples were given, or the time of
     * another thread that has the same id now. Samples of the clock `signal` may be ahead of the
     * thread. */
    uint64_t least = t->clock->weight == SPP_WEIGHT_INSTANTS ? t->tick.spread_cpu : t->tick.given_ns;
    bool known = !t->watch.gone && spp_os_thread_cpu_ns(t->tid, &cpu) == 0 && cpu >= least;
    if (!known) cpu = t->tick.given_ns;
    add_thread(t, &s);
    s.losses[SPP_LOSS_overrun] += (known ? never_came(t, cpu) : t->tick.owed) +
                                  (off > 0 ? (uint64_t)off / spp_run_state.interval_ns : 0); /* never made up for */
    t->watch.counted = false;
    for (int i = 0; i < SPP_SOURCE_COUNT; i++) {
        const spp_thread_source *of = &t->sources[i];
        spp_run_state.ended_sources[i].taken += of->taken;
        spp_run_state.ended_sources[i].units += of->before + of->given;
        for (int k = 0; k < SPP_LOSS_COUNT; k++) spp_run_state.ended_sources[i].losses[k] += of->losses[k];
    }
    spp_run_state.ended_taken += s.taken;
    spp_run_state.ended_repeated += s.repeated;
    for (int i = 0; i < SPP_COUNTERS_N; i++) spp_run_state.ended_counters[i] += s.counters[i];
    for (int i = 0; i < SPP_LOSS_COUNT; i++) spp_run_state.ended_losses[i] += s.losses[i];
    /* What it ran before it was found is in the tick stats as whole ticks; the rest of it is nobody's yet. */
    spp_run_state.ended_cpu += cpu - t->watch.cpu_start + t->tick.losses[SPP_LOSS_before_found] * spp_run_state.interval_ns;
}

uint64_t spp_tick_stats_cpu(void) {
    uint64_t own = spp_ours_cpu_ns();
    uint64_t process = spp_os_process_cpu_ns() - spp_run_state.start_process_cpu;
    uint64_t cpu = process > own ? process - own : 0; /* some systems' clock of a process goes in steps */
    /* It only grows, although our threads report their use a little later than the system does. */
    uint64_t reported = atomic_load(&spp_run_state.cpu_reported);
    while (reported < cpu && !atomic_compare_exchange_weak(&spp_run_state.cpu_reported, &reported, cpu)) {}
    return reported < cpu ? cpu : reported;
}

void spp_tick_stats_unseen(void) {
    uint64_t process = spp_tick_stats_cpu(), known = spp_run_state.ended_cpu;
    /* Below two ticks it is the reading of the clocks one after the other. */
    if (has_time() && process > known + 2 * spp_run_state.interval_ns + 1000000) {
        spp_run_state.ended_losses[SPP_LOSS_before_found] += (process - known) / spp_run_state.interval_ns;
    }
}

void spp_tick_stats_begin(void) {
    uint64_t times;
    if (spp_os_thread_ready(0, &spp_run_state.ready_seen, &times) != 0) spp_run_state.ready_seen = UINT64_MAX;
    spp_run_state.children_seen = spp_os_children_cpu_ns();
}

/* What was counted since `seen`, but in a pause. */
static void count_on(_Atomic uint64_t *sum, uint64_t *seen, uint64_t all) {
    if (all > *seen && !spp_run_state.paused) *sum += all - *seen;
    *seen = all;
}

void spp_tick_stats_look(void) {
    uint64_t all, times;
    count_on(&spp_run_state.children_cpu, &spp_run_state.children_seen, spp_os_children_cpu_ns());
    if (spp_os_thread_ready(0, &all, &times) == 0) count_on(&spp_run_state.ready_ns, &spp_run_state.ready_seen, all);
}

static void sum_up(sums *s) {
    memset(s, 0, sizeof *s);
    spp_os_lock(); /* a thread that ends goes from one sum to the other at once */
    s->taken = spp_run_state.ended_taken;
    s->repeated = spp_run_state.ended_repeated;
    for (int i = 0; i < SPP_COUNTERS_N; i++) s->counters[i] = spp_run_state.ended_counters[i];
    for (int i = 0; i < SPP_LOSS_COUNT; i++) s->losses[i] = spp_run_state.ended_losses[i];
    uint32_t used = atomic_load_explicit(&spp_threads_used, memory_order_acquire);
    for (uint32_t i = 0; i < used; i++) {
        if (spp_threads[i].watch.counted) add_thread(&spp_threads[i], s);
    }
    s->threads = spp_run_state.next_id;
    uint64_t end = spp_run_state.stop_ns ? spp_run_state.stop_ns : spp_os_now_ns();
    s->wall_ns = end - spp_run_state.start_ns;
    s->cpu_ns = spp_run_state.stop_ns ? spp_run_state.cpu_ns : spp_tick_stats_cpu();
    s->paused_ns = spp_run_state.paused_ns + (spp_run_state.pause_ns != 0 ? end - spp_run_state.pause_ns : 0);
    s->paused_cpu = spp_run_state.paused_cpu + (spp_run_state.pause_ns != 0 ? s->cpu_ns - spp_run_state.pause_cpu : 0);
    spp_os_unlock();
    /* They were taken or repeated, and counted so until the writer failed; it does not know whose they are. */
    uint64_t lost = spp_writer_lost(), taken = lost < s->taken ? lost : s->taken, more = lost - taken;
    s->taken -= taken;
    s->repeated -= more < s->repeated ? more : s->repeated;
    s->losses[SPP_LOSS_not_written] = lost;
}

static void say(spp_bytes *to, const char *key, uint64_t value) {
    spp_json_key(to, key);
    spp_json_number(to, value);
}

/* Of a source other than time: `units` is what it counted in all. */
static void say_source(spp_bytes *to, int id) {
    uint64_t taken, units, lost = 0, losses[SPP_LOSS_COUNT], enabled_ns, running_ns;
    spp_os_lock();
    enabled_ns = spp_run_state.ended_sources[id].enabled_ns;
    running_ns = spp_run_state.ended_sources[id].running_ns;
    taken = spp_run_state.ended_sources[id].taken;
    units = spp_run_state.ended_sources[id].units;
    for (int k = 0; k < SPP_LOSS_COUNT; k++) losses[k] = spp_run_state.ended_sources[id].losses[k];
    uint32_t used = atomic_load_explicit(&spp_threads_used, memory_order_acquire);
    for (uint32_t i = 0; i < used; i++) {
        const spp_thread_source *of = &spp_threads[i].sources[id];
        if (!spp_threads[i].watch.counted) continue;
        taken += of->taken;
        units += of->before + of->given;
        for (int k = 0; k < SPP_LOSS_COUNT; k++) losses[k] += of->losses[k];
    }
    spp_os_unlock();
    uint64_t unstored = losses[SPP_LOSS_store_full] + losses[SPP_LOSS_writer_behind];
    taken -= unstored < taken ? unstored : taken;
    for (int k = 0; k < SPP_LOSS_COUNT; k++) lost += losses[k];
    spp_json_key(to, spp_source_key(&spp_run_state.sources, (uint32_t)id));
    spp_json_raw(to, "{");
    say(to, "units", units);
    say(to, "expected", taken + lost);
    say(to, "taken", taken);
    say(to, "dropped", lost);
    if (enabled_ns != 0) {
        say(to, "enabled_ns", enabled_ns);
        say(to, "running_ns", running_ns);
    }
    spp_json_key(to, "losses");
    spp_json_raw(to, "{");
    for (int k = 0; k < SPP_LOSS_COUNT; k++) {
        if (losses[k] > 0) say(to, spp_loss_keys[k], losses[k]);
    }
    spp_json_raw(to, "}}");
}

static void say_sources(spp_bytes *to) {
    if (!spp_source_others(&spp_run_state.sources)) return;
    spp_json_key(to, "events");
    spp_json_raw(to, "{");
    for (int id = SPP_SOURCE_TIME + 1; id < SPP_SOURCE_COUNT; id++) {
        if (spp_run_state.sources.period[id] != 0) say_source(to, id);
    }
    spp_json_raw(to, "}");
}

void spp_tick_stats_text(spp_bytes *to) {
    if (spp_run_state.start_ns == 0) return;
    sums s;
    sum_up(&s);
    uint64_t lost = 0, invalid = 0;
    for (int i = 0; i < SPP_LOSS_COUNT; i++) {
        lost += s.losses[i];
        if (i <= SPP_LOSS_LAST_VALIDATION) invalid += s.losses[i];
    }
    spp_json_raw(to, "{");
    spp_json_key(to, "clock");
    spp_json_string(to, spp_run_state.clock->name);
    say(to, "interval_ns", spp_run_state.interval_ns);
    say(to, "expected", s.taken + s.repeated + lost);
    say(to, "taken", s.taken);
    say(to, "captured", s.taken);
    say(to, "repeated", s.repeated);
    say(to, "dropped", lost);
    say(to, "validation_drops", invalid);
    say(to, "overruns", s.losses[SPP_LOSS_overrun]);
    for (int i = 0; i < SPP_COUNTERS_N; i++) {
        if (!spp_counter_rows[i].native || spp_cap.native != SPP_NATIVE_OFF) say(to, spp_counter_rows[i].key, s.counters[i]);
    }
    say(to, "calls_interrupted", spp_os_calls_interrupted());
    say(to, "signals_not_ignored", spp_os_signals_not_ignored());
    say(to, "confined", spp_os_confined());
    say(to, "tasks_unknown", atomic_load(&spp_task_unknown));
    say(to, "threads", s.threads);
    say(to, "wall_ns", s.wall_ns);
    say(to, "cpu_ns", s.cpu_ns);
    say(to, "paused_ns", s.paused_ns);
    say(to, "paused_cpu_ns", s.paused_cpu);
    say(to, "first_thread_ready_ns", spp_run_state.ready_ns);
    say(to, "children_cpu_ns", spp_run_state.children_cpu);
    say(to, "write_error", (uint64_t)spp_write_error());
    spp_json_key(to, "losses");
    spp_json_raw(to, "{");
    for (int i = 0; i < SPP_LOSS_COUNT; i++) say(to, spp_loss_keys[i], s.losses[i]);
    spp_json_raw(to, "}");
    say_sources(to);
    spp_json_raw(to, "}");
}
