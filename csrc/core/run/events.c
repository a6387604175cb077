#include "core/run/events.h"

#include <string.h>

#include "core/resolve/resolve.h"
#include "core/run/state.h"
#include "os/clock.h"
#include "os/lock.h"

int spp_events_probe(spp_source_set *set, const char **why) {
    for (uint32_t i = 0; i < SPP_SOURCE_COUNT; i++) {
        spp_event_kind kind = spp_sources[i].event;
        if (kind == SPP_EVENT_NONE || set->period[i] == 0) continue;
        const char *key = spp_source_key(set, i);
        if (kind == SPP_EVENT_TRACEPOINT && spp_os_event_tracepoint(strchr(key, ':') + 1, &set->detail[i], why) != 0) return -1;
        if (spp_os_event_probe(kind, set->detail[i], why) != 0) return -1;
    }
    return 0;
}

void spp_events_arm(spp_thread *t, const spp_source_set *set) {
    for (uint32_t i = 0; i < SPP_SOURCE_COUNT; i++) {
        if (spp_sources[i].event == SPP_EVENT_NONE || set->period[i] == 0) continue;
        spp_thread_source *s = &t->sources[i];
        if (s->event.fd < 0) { /* one that was stopped keeps its period */
            s->before += atomic_exchange_explicit(&s->given, 0, memory_order_relaxed);
            s->least = set->fixed[i] ? 0 : set->period[i];
            atomic_store_explicit(&s->period, set->period[i], memory_order_relaxed);
        }
        if (spp_os_event_arm(&s->event, spp_sources[i].event, set->detail[i], t->tid, set->period[i], t, i) != 0)
            atomic_fetch_add_explicit(&s->losses[SPP_LOSS_no_trigger], 1, memory_order_relaxed);
    }
}

void spp_events_from_birth(spp_thread *t) {
    for (uint32_t i = 0; i < SPP_SOURCE_COUNT; i++) {
        spp_thread_source *s = &t->sources[i];
        uint64_t total, since;
        if (s->event.fd < 0 || spp_os_event_total(spp_sources[i].event, t->tid, &total) != 0) continue;
        if (spp_os_event_count(&s->event, &since) != 0 || total <= since) continue;
        spp_os_lock();
        spp_resolve_unknown(t, i, total - since);
        s->before += total - since;
        spp_os_unlock();
    }
}

void spp_events_stop(spp_thread *t) {
    for (uint32_t i = 0; i < SPP_SOURCE_COUNT; i++) spp_os_event_stop(&t->sources[i].event);
}

void spp_events_settle(spp_thread *t) {
    for (uint32_t i = 0; i < SPP_SOURCE_COUNT; i++) {
        spp_thread_source *s = &t->sources[i];
        uint64_t count, enabled, running, given = atomic_load_explicit(&s->given, memory_order_relaxed);
        if (spp_os_event_count(&s->event, &count) == 0 && count > given) {
            spp_resolve_unknown(t, i, count - given);
            given = count;
        }
        if (spp_os_event_times(&s->event, &enabled, &running) == 0) {
            spp_run_state.ended_sources[i].enabled_ns += enabled;
            spp_run_state.ended_sources[i].running_ns += running;
        }
        s->before += given;
        atomic_store_explicit(&s->given, 0, memory_order_relaxed);
        spp_os_event_close(&s->event);
    }
}

/* An event that was frequent and is rare by now: its next sample is not to be one for all until then. */
static void wait_less(spp_thread_source *s) {
    uint32_t ticks = atomic_load_explicit(&s->ticks, memory_order_relaxed);
    if (s->event.fd >= 0 && s->least != 0 && ticks == s->ticks_seen &&
        atomic_load_explicit(&s->period, memory_order_relaxed) > s->least) {
        atomic_store_explicit(&s->period, s->least, memory_order_relaxed);
        spp_os_event_period(&s->event, s->least);
    }
    s->ticks_seen = ticks;
}

void spp_events_care(spp_thread *t, const spp_source_set *set) {
    for (uint32_t i = 0; i < SPP_SOURCE_COUNT; i++) wait_less(&t->sources[i]);
    for (uint32_t i = 0; i < SPP_SOURCE_COUNT; i++) {
        if (spp_os_event_alive(&t->sources[i].event)) continue;
        spp_os_lock();
        spp_events_stop(t);
        while (atomic_load_explicit(&t->tick.busy, memory_order_seq_cst)) spp_os_sleep_until(spp_os_now_ns() + 20000);
        spp_events_settle(t);
        spp_events_arm(t, set);
        spp_os_unlock();
        return;
    }
}

void spp_events_drop(spp_thread *t) {
    for (uint32_t i = 0; i < SPP_SOURCE_COUNT; i++) spp_os_event_drop(&t->sources[i].event);
}
