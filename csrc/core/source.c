#include "core/source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const spp_source spp_sources[SPP_SOURCE_COUNT] = {
#define X(name, key, unit, period, least, from, weight) {key, unit, weight, period, least, from},
    SPP_SOURCES(X)
#undef X
};

#define PERIOD_MOST 1000000000u

/* One of the list: n letters at `text`. */
static bool parse_one(spp_source_set *set, const char *text, size_t n, const char **why) {
    const char *equals = memchr(text, '=', n);
    size_t key_n = equals != NULL ? (size_t)(equals - text) : n;
    int id = SPP_SOURCE_COUNT - 1;
    while (id >= 0 && (strlen(spp_sources[id].key) != key_n || memcmp(spp_sources[id].key, text, key_n) != 0)) id--;
    *why = "no such event: time, page-faults";
    if (id < 0) return false;
    uint64_t period = id == SPP_SOURCE_TIME ? 1 : spp_sources[id].period;
    if (equals != NULL) {
        char *end;
        *why = id == SPP_SOURCE_TIME ? "the rate of the event time is --rate or --interval"
                                     : "an event's period is a number, 4 to 1,000,000,000";
        period = strtoull(equals + 1, &end, 10);
        if (id == SPP_SOURCE_TIME || equals[1] < '0' || equals[1] > '9' || end != text + n || period < spp_sources[id].least ||
            period > PERIOD_MOST)
            return false;
    }
    set->period[id] = period;
    return true;
}

bool spp_source_parse(spp_source_set *set, const char *text, const char **why) {
    for (;;) {
        size_t n = strcspn(text, ",");
        if (!parse_one(set, text, n, why)) return false;
        if (text[n] == 0) return true;
        text += n + 1;
    }
}

bool spp_source_others(const spp_source_set *set) {
    for (int id = SPP_SOURCE_TIME + 1; id < SPP_SOURCE_COUNT; id++) {
        if (set->period[id] != 0) return true;
    }
    return false;
}
