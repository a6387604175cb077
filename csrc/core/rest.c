#include "core/rest.h"

#include <stddef.h>

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

bool spp_rest_await(spp_rest *rest, spp_os_worker **worker, spp_patience *left_ns) {
    while (atomic_load(rest) == ASKED) {
        uint32_t asked = ASKED;
        if (!spp_patience_sleep(left_ns, STEP_NS) && atomic_compare_exchange_strong(rest, &asked, RUNS)) return false;
    }
    if (*worker != NULL) spp_os_worker_join(*worker);
    *worker = NULL;
    return true;
}

bool spp_rest_is(const spp_rest *rest) { return atomic_load(rest) == RESTS; }
void spp_rest_over(spp_rest *rest) { atomic_store(rest, RUNS); }
