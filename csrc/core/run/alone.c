#include "core/run/alone.h"

#include <stdatomic.h>

#include "base/patience.h"
#include "core/capture/capture.h"
#include "core/file/writer.h"
#include "core/run/drain.h"
#include "core/run/run.h"
#include "core/run/state.h"
#include "os/process.h"
#include "os/signals.h"
#include "os/threads.h"
#include "os/worker.h"

#define REST_STEP_NS 20000u

static uint64_t ours(void) { return 2u + (spp_run_state.sampler != NULL) + spp_os_signal_threads(); }

void spp_alone_rest(uint64_t most_ns) {
    spp_patience left = most_ns;
    bool mine;
    if (!spp_os_may_rest || spp_run_phase_now(&mine) != SPP_RUN_ACTIVE || !atomic_load(&spp_run_state.active) ||
        spp_run_state.drain == NULL)
        return;
    if (atomic_load(&spp_run_state.stopping) || atomic_load(&spp_run_state.terminating)) return;
    while (atomic_load(&spp_run_state.resting)) { /* the fork before this one was a moment ago */
        if (!spp_patience_sleep(&left, REST_STEP_NS)) return;
    }
    if (!spp_os_threads_at_most(ours() + 1) || !spp_os_may_start()) return;
    spp_rest_ask(&spp_run_state.drain_rest, &spp_cap.bell);
    if (!spp_rest_await(&spp_run_state.drain_rest, &spp_run_state.drain, &left)) return;
    atomic_store(&spp_run_state.resting, true);
    bool samples = spp_run_state.sampler != NULL;
    if (samples) spp_rest_ask(&spp_run_state.sampler_rest, &spp_run_state.sampler_bell);
    bool all = !samples || spp_rest_await(&spp_run_state.sampler_rest, &spp_run_state.sampler, &left);
    if (!spp_writer_rest(&left) || !all) return;
    spp_os_signal_rest();
    /* A thread lets go of its stack, for which the C library waits, a little before it leaves its process. */
    while (!spp_os_threads_at_most(1) && spp_patience_sleep(&left, REST_STEP_NS)) {}
}

void spp_alone_wake(void) {
    if (!atomic_load(&spp_run_state.active) || !spp_rest_is(&spp_run_state.drain_rest)) return; /* or a child, which forgets */
    spp_run_state.drain = spp_os_worker_start(SPP_DRAIN_NAME, true, spp_drain_body, NULL);
    if (spp_run_state.drain != NULL) spp_rest_over(&spp_run_state.drain_rest);
}
