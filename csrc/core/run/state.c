#include "core/run/state.h"

#include "core/run/run.h"
#include "os/threads.h"

spp_run spp_run_state;

#define PHASE_BITS 32

static uint64_t as_mine(spp_run_phase phase) { return (uint64_t)(uint32_t)spp_os_tid() << PHASE_BITS | phase; }

bool spp_run_turn(spp_run_phase from, spp_run_phase to) {
    uint64_t seen = atomic_load(&spp_run_state.phase);
    return (uint32_t)seen == from && atomic_compare_exchange_strong(&spp_run_state.phase, &seen, as_mine(to));
}

void spp_run_take(spp_run_phase phase) { atomic_store(&spp_run_state.phase, as_mine(phase)); }

spp_run_phase spp_run_phase_now(bool *mine) {
    uint64_t seen = atomic_load(&spp_run_state.phase);
    spp_run_phase phase = (spp_run_phase)(uint32_t)seen;
    *mine = (phase == SPP_RUN_STARTING || phase == SPP_RUN_STOPPING) && (uint32_t)(seen >> PHASE_BITS) == (uint32_t)spp_os_tid();
    return phase;
}
