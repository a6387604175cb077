#include "base/counters.h"

#define X(name, key, native) {key, native},
const spp_counter_row spp_counter_rows[SPP_COUNTERS_N] = {SPP_COUNTERS(X)};
#undef X
#define X(name, title) #name,
const char *const spp_loss_keys[SPP_LOSS_COUNT] = {SPP_LOSSES(X)};
#undef X
#define X(name, title) title,
const char *const spp_loss_titles[SPP_LOSS_COUNT] = {SPP_LOSSES(X)};
#undef X
