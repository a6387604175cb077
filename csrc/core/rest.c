#include "core/rest.h"

#include "core/capture.h"
#include "core/run.h"
#include "core/state.h"
#include "core/wall.h"
#include "core/writer.h"

#define REST_MOST_NS 50000000u
#define STEP_NS 20000u

enum { RUNS, ASKED, RESTS };

bool spp_rest_begins(spp_rest *rest) {
    uint32_t asked = ASKED;
    if (atomic_load_explicit(rest, memory_order_relaxed) != ASKED) return false;
    return atomic_compare_exchange_strong(rest, &asked, RESTS);
}

void spp_rest_ask(spp_rest *rest, spp_os_bell *bell) {
    uint32_t runs = RUNS;
    if (atomic_compare_exchange_strong(rest, &runs, ASKED)) spp_os_bell_ring(bell);
}

bool spp_rest_await(spp_rest *rest, spp_os_worker **worker, uint64_t until_ns) {
    while (atomic_load(rest) == ASKED) {
        uint64_t now = spp_os_now_ns();
        uint32_t asked = ASKED;
        if (now >= until_ns && atomic_compare_exchange_strong(rest, &asked, RUNS)) return false;
        spp_os_sleep_until(now + STEP_NS);
    }
    if (*worker != NULL) spp_os_worker_join(*worker);
    *worker = NULL;
    return true;
}

bool spp_rest_is(const spp_rest *rest) { return atomic_load(rest) == RESTS; }
void spp_rest_over(spp_rest *rest) { atomic_store(rest, RUNS); }

/* Of the thread that forks, say; nobody else is there. */
static bool resting;

static uint64_t ours(void) { return 2u + (spp_run_state.sampler != NULL) + spp_os_signal_threads(); }

void spp_run_rest(void) {
    bool mine;
    if (!spp_os_may_rest || resting || spp_run_phase_now(&mine) != SPP_RUN_ACTIVE || !spp_run_active()) return;
    if (atomic_load(&spp_run_state.stopping) || atomic_load(&spp_run_state.terminating) || spp_run_state.drain == NULL) return;
    if (!spp_os_threads_at_most(ours() + 1) || !spp_os_may_start()) return;
    uint64_t until = spp_os_now_ns() + REST_MOST_NS;
    bool samples = spp_run_state.sampler != NULL;
    resting = true;
    if (samples) spp_rest_ask(&spp_run_state.sampler_rest, &spp_run_state.sampler_bell);
    spp_rest_ask(&spp_run_state.drain_rest, &spp_cap.bell);
    bool all = spp_rest_await(&spp_run_state.drain_rest, &spp_run_state.drain, until);
    if (samples) all = spp_rest_await(&spp_run_state.sampler_rest, &spp_run_state.sampler, until) && all;
    if (all && spp_writer_rest(until)) spp_os_signal_rest();
}

static void wake(spp_rest *rest, spp_os_worker **worker, const char *name, void (*body)(void *)) {
    if (!spp_rest_is(rest)) return;
    *worker = spp_os_worker_start(name, true, body, NULL);
    if (*worker != NULL)
        spp_rest_over(rest);
    else
        resting = true;
}

void spp_run_wake(void) {
    if (!resting || !spp_run_active()) return; /* a child forgets */
    resting = false;
    spp_os_signal_wake();
    if (!spp_writer_wake()) resting = true;
    /* The drain thread last: it looks for new threads, and must know which are ours. */
    wake(&spp_run_state.sampler_rest, &spp_run_state.sampler, SPP_SAMPLER_NAME, spp_wall_body);
    wake(&spp_run_state.drain_rest, &spp_run_state.drain, SPP_DRAIN_NAME, spp_run_drain_body);
}

void spp_rest_abandon(void) { resting = false; }
