/* What a thread does that the system counts, other than time. Each call returns 0, or -1 with errno unless said otherwise. */
#ifndef SPPROF_OS_EVENT_H
#define SPPROF_OS_EVENT_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    SPP_EVENT_NONE,
    SPP_EVENT_PAGE_FAULTS,
    SPP_EVENT_MAJOR_FAULTS,
    SPP_EVENT_CONTEXT_SWITCHES,
    SPP_EVENT_CPU_MIGRATIONS,
    SPP_EVENT_ALIGNMENT_FAULTS,
    SPP_EVENT_INSTRUCTIONS,
    SPP_EVENT_CYCLES,
    SPP_EVENT_CACHE_MISSES,
    SPP_EVENT_BRANCH_MISSES,
    SPP_EVENT_TRACEPOINT, /* `detail`: its number; of others 0 */
    SPP_EVENT_COUNT
} spp_event_kind;

/* A thread's counter, of which a tick comes each time that it has counted a period. fd -1: not armed. */
typedef struct {
    int fd;
    bool traps;  /* how its ticks come: the system's own affair */
    uint64_t id; /* the kernel's number of it */
} spp_os_event;

/* Whether a thread's own can be counted here; else *why names the call, or says what is missing. */
int spp_os_event_probe(spp_event_kind kind, uint64_t detail, const char **why);
/* The number of the kernel's tracepoint GROUP:NAME. As above. */
int spp_os_event_tracepoint(const char *name, uint64_t *detail, const char **why);
/* Whether those that arise within the kernel are left out, as it demands of users; only after a probe. */
bool spp_os_event_in_user(spp_event_kind kind);
/* Drain thread, after spp_os_signal_install. Ticks come as SPP_TICK_EVENT with `source` (1 to 31), from now on. One that was
 * stopped goes on counting. A cookie is aligned to 64 bytes. */
int spp_os_event_arm(spp_os_event *event, spp_event_kind kind, uint64_t detail, int32_t tid, uint64_t period, void *cookie,
                     uint32_t source);
/* Each new thread calls this from now on before it does anything else, where the system lets us see its birth: so its events can
 * be opened first. NULL: no more. */
void spp_os_event_births(void (*born)(void));
/* It counts no more, and no tick comes; what it has counted can still be read. */
void spp_os_event_stop(const spp_os_event *event);
void spp_os_event_close(spp_os_event *event);
/* Handler, or drain thread. Ticks come by this period from now on; the next one may come at once. */
void spp_os_event_period(const spp_os_event *event, uint64_t period);
/* In a forked child: lets go of the parent's. */
void spp_os_event_drop(spp_os_event *event);
/* False: the program has closed it. */
bool spp_os_event_alive(const spp_os_event *event);
/* Handler. What it has counted since it was armed. If it counted for a part of the time, as there are not enough counters, that
 * is an estimate, which may be less than the one before. */
int spp_os_event_count(const spp_os_event *event, uint64_t *count);
/* Of the time for which it was to count, and for which it did: less, if there are not enough counters. */
int spp_os_event_times(const spp_os_event *event, uint64_t *enabled_ns, uint64_t *running_ns);
/* Of any thread, since its birth. -1 also if the system does not say. */
int spp_os_event_total(spp_event_kind kind, int32_t tid, uint64_t *count);

#endif
