/* Systems that suspend threads count nothing for us. */
#include "os/event.h"

#include <errno.h>

int spp_os_event_probe(spp_event_kind kind, uint64_t detail, const char **why) {
    (void)kind, (void)detail;
    *why = "events other than time are counted on Linux only";
    errno = ENOSYS;
    return -1;
}

int spp_os_event_tracepoint(const char *name, uint64_t *detail, const char **why) {
    (void)name;
    *detail = 0;
    return spp_os_event_probe(SPP_EVENT_TRACEPOINT, 0, why);
}

bool spp_os_event_in_user(spp_event_kind kind) {
    (void)kind;
    return false;
}

int spp_os_event_arm(spp_os_event *event, spp_event_kind kind, uint64_t detail, int32_t tid, uint64_t period, void *cookie,
                     uint32_t source) {
    (void)event, (void)kind, (void)detail, (void)tid, (void)period, (void)cookie, (void)source;
    errno = ENOSYS;
    return -1;
}

void spp_os_event_births(void (*born)(void)) { (void)born; }
void spp_os_event_stop(const spp_os_event *event) { (void)event; }
void spp_os_event_close(spp_os_event *event) { (void)event; }
void spp_os_event_period(const spp_os_event *event, uint64_t period) { (void)event, (void)period; }
void spp_os_event_drop(spp_os_event *event) { (void)event; }

bool spp_os_event_alive(const spp_os_event *event) {
    (void)event;
    return true;
}

int spp_os_event_total(spp_event_kind kind, int32_t tid, uint64_t *count) {
    (void)kind, (void)tid, (void)count;
    return -1;
}

int spp_os_event_times(const spp_os_event *event, uint64_t *enabled_ns, uint64_t *running_ns) {
    (void)event, (void)enabled_ns, (void)running_ns;
    return -1;
}

int spp_os_event_count(const spp_os_event *event, uint64_t *count) {
    (void)event, (void)count;
    return -1;
}
