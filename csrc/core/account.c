/* The account of ticks: expected = taken + repeated + losses, each loss with its reason. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/run.h"
#include "core/write.h"

typedef struct {
    uint64_t taken, repeated, truncated, unpaired, gaps, losses[SPP_LOSS_COUNT];
    uint32_t threads;
} sums;

static void add_thread(const spp_thread *t, sums *s) {
    uint64_t unstored = t->losses[SPP_LOSS_store_full];
    uint64_t taken = t->taken + t->stood;
    s->taken += taken > unstored ? taken - unstored : 0;
    s->repeated += t->repeated;
    s->truncated += t->truncated;
    s->unpaired += t->unpaired;
    s->gaps += t->gaps;
    for (int i = 0; i < SPP_LOSS_COUNT; i++) s->losses[i] += t->losses[i];
    /* So far. */
    int64_t off = t->due_ns;
    s->losses[SPP_LOSS_overrun] += t->owed + (off > 0 ? (uint64_t)off / spp_now.interval_ns : 0);
}

void spp_account_end(spp_thread *t) {
    sums s = {0};
    uint64_t cpu = 0;
    add_thread(t, &s);
    spp_now.ended_taken += s.taken;
    spp_now.ended_repeated += s.repeated;
    spp_now.ended_truncated += s.truncated;
    spp_now.ended_unpaired += s.unpaired;
    spp_now.ended_gaps += s.gaps;
    for (int i = 0; i < SPP_LOSS_COUNT; i++) spp_now.ended_losses[i] += s.losses[i];
    /* Of a thread that has ended the system may say less than its samples were given, or tell another's that has its id now. */
    if (spp_os_thread_cpu_ns(t->tid, &cpu) != 0 || cpu < t->given_ns) cpu = t->given_ns;
    /* What it ran before it was found is in the account as whole ticks; the rest of it is nobody's yet. */
    spp_now.ended_cpu += cpu - t->cpu_start + t->losses[SPP_LOSS_before_found] * spp_now.interval_ns;
}

void spp_account_unseen(void) {
    uint64_t own = 0, cpu = 0;
    if (spp_now.drain && spp_os_thread_cpu_ns(spp_os_worker_tid(spp_now.drain), &cpu) == 0) own += cpu;
    own += spp_now.sampler_cpu + spp_os_signal_cpu_ns();
    uint64_t process = spp_os_process_cpu_ns() - spp_now.start_process_cpu;
    uint64_t known = own + spp_now.ended_cpu;
    /* Below two ticks it is the reading of the clocks one after the other. */
    if (process > known + 2 * spp_now.interval_ns + 1000000) {
        spp_now.ended_losses[SPP_LOSS_before_found] += (process - known) / spp_now.interval_ns;
    }
}

static void sum_up(sums *s) {
    memset(s, 0, sizeof *s);
    s->taken = spp_now.ended_taken;
    s->repeated = spp_now.ended_repeated;
    s->truncated = spp_now.ended_truncated;
    s->unpaired = spp_now.ended_unpaired;
    s->gaps = spp_now.ended_gaps;
    for (int i = 0; i < SPP_LOSS_COUNT; i++) s->losses[i] = spp_now.ended_losses[i];
    uint32_t used = atomic_load_explicit(&spp_threads_used, memory_order_acquire);
    for (uint32_t i = 0; i < used; i++) {
        if (spp_threads[i].state == SPP_THREAD_ARMED) add_thread(&spp_threads[i], s);
    }
    s->threads = spp_now.next_id;
}

static void say(spp_bytes *to, const char *format, const char *name, uint64_t value) {
    char text[96];
    int n = snprintf(text, sizeof text, format, name, (unsigned long long)value);
    spp_bytes_append(to, text, (size_t)n);
}

void spp_run_account(spp_bytes *to) {
    if (spp_now.start_ns == 0) return;
    sums s;
    sum_up(&s);
    uint64_t lost = 0, invalid = 0;
    for (int i = 0; i < SPP_LOSS_COUNT; i++) {
        lost += s.losses[i];
        if (i <= SPP_LOSS_LAST_VALIDATION) invalid += s.losses[i];
    }
    uint64_t end = spp_now.stop_ns ? spp_now.stop_ns : spp_os_now_ns();
    char text[160];
    int n = snprintf(text, sizeof text, "{\"clock\":\"%s\",\"interval_ns\":%llu,", spp_clock_names[spp_now.clock],
                     (unsigned long long)spp_now.interval_ns);
    spp_bytes_append(to, text, (size_t)n);
    say(to, "\"%s\":%llu,", "expected", s.taken + s.repeated + lost);
    say(to, "\"%s\":%llu,", "taken", s.taken);
    say(to, "\"%s\":%llu,", "captured", s.taken);
    say(to, "\"%s\":%llu,", "repeated", s.repeated);
    say(to, "\"%s\":%llu,", "dropped", lost);
    say(to, "\"%s\":%llu,", "validation_drops", invalid);
    say(to, "\"%s\":%llu,", "overruns", s.losses[SPP_LOSS_overrun]);
    say(to, "\"%s\":%llu,", "truncated", s.truncated);
    if (spp_cap.native != SPP_NATIVE_OFF) {
        say(to, "\"%s\":%llu,", "native_unpaired", s.unpaired);
        say(to, "\"%s\":%llu,", "native_gaps", s.gaps);
    }
    say(to, "\"%s\":%llu,", "threads", s.threads);
    say(to, "\"%s\":%llu,", "wall_ns", end - spp_now.start_ns);
    say(to, "\"%s\":%llu,", "cpu_ns", spp_now.cpu_ns ? spp_now.cpu_ns : spp_os_process_cpu_ns() - spp_now.start_process_cpu);
    say(to, "\"%s\":%llu,\"losses\":{", "write_error", (uint64_t)spp_write_error());
    for (int i = 0; i < SPP_LOSS_COUNT; i++) {
        if (i > 0) spp_bytes_append(to, ",", 1);
        say(to, "\"%s\":%llu", spp_loss_keys[i], s.losses[i]);
    }
    spp_bytes_append(to, "}}", 2);
}
