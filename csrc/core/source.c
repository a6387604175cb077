#include "core/source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const spp_source spp_sources[SPP_SOURCE_COUNT] = {
#define X(name, key, unit, event, period, least, from, weight) \
    {key, unit, weight, "an event's period is a number, " #least " to 1,000,000,000", SPP_EVENT_##event, period, least, from},
    SPP_SOURCES(X)
#undef X
};

#define PERIOD_MOST 1000000000u

/* The largest primes below powers of two. */
static const uint32_t periods[] = {
    1,       3,       7,       13,       31,       61,       127,       251,       509,       1021,
    2039,    4093,    8191,    16381,    32749,    65521,    131071,    262139,    524287,    1048573,
    2097143, 4194301, 8388593, 16777213, 33554393, 67108859, 134217689, 268435399, 536870909,
};

uint64_t spp_source_period(uint64_t least) {
    size_t i = 0;
    while (i + 1 < sizeof periods / sizeof *periods && periods[i] < least) i++;
    return periods[i];
}

const char *spp_source_key(const spp_source_set *set, uint32_t id) {
    return spp_sources[id].event == SPP_EVENT_TRACEPOINT ? set->names[id - SPP_SOURCE_TRACEPOINT_1] : spp_sources[id].key;
}

/* The source of a tracepoint, which may be new; -1: it is none, or there are too many. */
static int take_tracepoint(spp_source_set *set, const char *key, size_t n, const char **why) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    const char *group = key + sizeof SPP_TRACEPOINT - 1, *name = group + strspn(group, letters);
    *why = "a tracepoint is given as tracepoint:GROUP:NAME, in 63 letters at the most";
    if (name == group || *name++ != ':' || n >= sizeof set->names[0]) return -1;
    if (name + strspn(name, letters) != key + n || name == key + n) return -1;
    for (int i = 0; i < SPP_TRACEPOINTS; i++) {
        char *own = set->names[i];
        if (*own != 0 && (strncmp(own, key, n) != 0 || own[n] != 0)) continue;
        memcpy(own, key, n);
        own[n] = 0;
        return SPP_SOURCE_TRACEPOINT_1 + i;
    }
    *why = "a run has 4 tracepoints at the most";
    return -1;
}

/* One of the list: n letters at `text`. */
static bool parse_one(spp_source_set *set, const char *text, size_t n, const char **why) {
    const char *equals = memchr(text, '=', n);
    size_t key_n = equals != NULL ? (size_t)(equals - text) : n;
    bool traces = strncmp(text, SPP_TRACEPOINT, sizeof SPP_TRACEPOINT - 1) == 0;
    int id = traces ? take_tracepoint(set, text, key_n, why) : SPP_SOURCE_TRACEPOINT_1 - 1;
    if (traces && id < 0) return false;
    while (!traces && id >= 0 && (strlen(spp_sources[id].key) != key_n || memcmp(spp_sources[id].key, text, key_n) != 0)) id--;
    *why = "no such event: `spprof run --event list` names all";
    if (id < 0) return false;
    uint64_t period = id == SPP_SOURCE_TIME ? 1 : spp_sources[id].period;
    if (equals != NULL) {
        char *end;
        *why = id == SPP_SOURCE_TIME                      ? "the rate of the event time is --rate or --interval"
               : spp_sources[id].from == SPP_FROM_HOOK    ? "each one is a sample: it has no period"
               : spp_sources[id].from == SPP_FROM_OUTSIDE ? "tasks are drawn every 10 ms: it has no other period"
                                                          : spp_sources[id].range;
        period = strtoull(equals + 1, &end, 10);
        if (id == SPP_SOURCE_TIME || spp_sources[id].from != SPP_FROM_HANDLER || equals[1] < '0' || equals[1] > '9' ||
            end != text + n || period < spp_sources[id].least || period > PERIOD_MOST)
            return false;
    }
    set->period[id] = period;
    set->fixed[id] = equals != NULL;
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
