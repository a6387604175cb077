/* What a thread does that the kernel counts: software events of perf. */
#include "os/event.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "os/linux/linux.h"

static bool in_user; /* users may not count what the kernel does (perf_event_paranoid) */

static spp_linux_perf_event event_of(spp_event_kind kind, uint64_t period) {
    (void)kind; /* the only one */
    return (spp_linux_perf_event){PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, period, !in_user};
}

int spp_os_event_probe(spp_event_kind kind, const char **why) {
    *why = "perf_event_open";
    for (int left_out = 0; left_out < 2; left_out++) {
        in_user = left_out != 0;
        if (spp_linux_perf_probe(event_of(kind, 1000000)) == 0) return 0;
        if (errno != EACCES && errno != EPERM) return -1;
    }
    return -1;
}

bool spp_os_event_in_user(void) { return in_user; }

int spp_os_event_arm(spp_os_event *event, spp_event_kind kind, int32_t tid, uint64_t period, void *cookie, uint32_t source) {
    if (event->fd < 0) event->fd = spp_linux_perf_open(tid, event_of(kind, period), 0, &event->id);
    if (event->fd < 0) return -1;
    if (spp_linux_perf_polls(event->fd, spp_linux_event_signal_needed(), tid,
                             (uintptr_t)cookie | source << SPP_LINUX_SOURCE_SHIFT) == 0 &&
        spp_linux_perf_call(event->fd, PERF_EVENT_IOC_ENABLE, NULL) == 0)
        return 0;
    int saved = errno;
    spp_os_event_close(event);
    errno = saved;
    return -1;
}

void spp_os_event_births(void (*born)(void)) { spp_linux_births(born); }

void spp_os_event_stop(const spp_os_event *event) {
    if (event->fd < 0 || !spp_os_event_alive(event)) return;
    (void)spp_linux_perf_call(event->fd, PERF_EVENT_IOC_DISABLE, NULL);
    spp_linux_perf_quiet(event->fd);
}

void spp_os_event_close(spp_os_event *event) {
    spp_os_event_stop(event);
    if (event->fd >= 0) spp_linux_perf_close(event->fd, event->id);
    event->fd = -1;
}

void spp_os_event_drop(spp_os_event *event) {
    if (event->fd < 0) return;
    spp_linux_perf_quiet(event->fd);
    spp_linux_perf_close(event->fd, event->id);
    event->fd = -1;
}

bool spp_os_event_alive(const spp_os_event *event) { return event->fd < 0 || spp_linux_perf_is(event->fd, event->id); }

/* As with spp_linux_perf_close: who closes descriptors that are not his, between the question and the read, has 8 bytes read. */
int spp_os_event_count(const spp_os_event *event, uint64_t *count) {
    if (event->fd < 0 || atomic_load_explicit(&spp_linux_confined, memory_order_relaxed)) return -1; /* it may not read */
    if (!spp_linux_perf_is(event->fd, event->id)) return -1;
    return read(event->fd, count, sizeof *count) == (ssize_t)sizeof *count ? 0 : -1;
}

/* Fields 10 and 12 of proc_pid_stat(5), behind a name in parentheses that may hold anything. */
int spp_os_event_total(spp_event_kind kind, int32_t tid, uint64_t *count) {
    char text[512];
    unsigned long minor, major;
    (void)kind;
    if (spp_linux_task_read(tid, "stat", text, sizeof text) < 0) return -1;
    const char *behind = strrchr(text, ')');
    if (behind == NULL || sscanf(behind + 1, " %*c %*d %*d %*d %*d %*d %*u %lu %*u %lu", &minor, &major) != 2) return -1;
    *count = (uint64_t)minor + major;
    return 0;
}
