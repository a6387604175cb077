/* What a thread does that the kernel and the processor count: events of perf. */
#include "os/event.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "os/linux/linux.h"

/* A tick that arises within a call, as a fault in a read() into new memory does, may come as a signal that cuts the call short.
 * So ticks are traps, which come when the call is over, and on its stack still; where there are none, signals. `in_kernel`:
 * arises in the kernel alone, most often while the thread is about to sleep in a call: a signal would end the call, and have the
 * thread leave the processor once more. Without traps it is refused. `file`, `first`, `second`: where /proc says how many a
 * thread has had, and by which words (their sum). Of `stat` see below. */
typedef struct {
    uint32_t type;
    uint64_t config;
    bool in_kernel;
    const char *file, *first, *second;
} event_row;

static const event_row rows[SPP_EVENT_COUNT] = {
    [SPP_EVENT_PAGE_FAULTS] = {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, false, "stat", "minor", "major"},
    [SPP_EVENT_MAJOR_FAULTS] = {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ, false, "stat", "major", NULL},
    [SPP_EVENT_CONTEXT_SWITCHES] = {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, true, "status",
                                    "\nvoluntary_ctxt_switches", "\nnonvoluntary_ctxt_switches"},
    [SPP_EVENT_CPU_MIGRATIONS] = {PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, true, "sched", "\nse.nr_migrations", NULL},
    [SPP_EVENT_ALIGNMENT_FAULTS] = {.type = PERF_TYPE_SOFTWARE, .config = PERF_COUNT_SW_ALIGNMENT_FAULTS},
    [SPP_EVENT_INSTRUCTIONS] = {.type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_INSTRUCTIONS},
    [SPP_EVENT_CYCLES] = {.type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_CPU_CYCLES},
    [SPP_EVENT_CACHE_MISSES] = {.type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_CACHE_MISSES},
    [SPP_EVENT_BRANCH_MISSES] = {.type = PERF_TYPE_HARDWARE, .config = PERF_COUNT_HW_BRANCH_MISSES},
    [SPP_EVENT_TRACEPOINT] = {.type = PERF_TYPE_TRACEPOINT, .in_kernel = true},
};

static bool in_user[SPP_EVENT_COUNT]; /* users may not count what the kernel does (perf_event_paranoid) */

static spp_linux_perf_event event_of(spp_event_kind kind, uint64_t detail, uint64_t period) {
    return (spp_linux_perf_event){rows[kind].type, rows[kind].config | detail, period, !in_user[kind]};
}

int spp_os_event_probe(spp_event_kind kind, uint64_t detail, const char **why) {
    *why = "perf_event_open";
    in_user[kind] = false;
    int result = spp_linux_perf_probe(event_of(kind, detail, 1000000));
    if (result != 0 && (errno == EACCES || errno == EPERM) && !rows[kind].in_kernel) {
        in_user[kind] = true;
        result = spp_linux_perf_probe(event_of(kind, detail, 1000000));
    }
    if (result != 0 || !rows[kind].in_kernel || spp_linux_may_trap()) return result;
    *why = "ticks at the end of a call need Linux 6.16, no debugger, and no SIGTRAP handler of the program's";
    errno = EOPNOTSUPP;
    return -1;
}

/* The newer place, and that of old kernels and of systems that mount nothing there. */
int spp_os_event_tracepoint(const char *name, uint64_t *detail, const char **why) {
    static const char *const places[] = {"/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"};
    const char *colon = strchr(name, ':');
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%.*s/%s/id", *why = places[i], (int)(colon - name), name, colon + 1);
        FILE *file = fopen(path, "re");
        if (file == NULL) continue;
        unsigned long number;
        bool known = fscanf(file, "%lu", &number) == 1;
        fclose(file);
        if (known) return *detail = number, 0;
        errno = EIO;
    }
    return -1;
}

bool spp_os_event_in_user(spp_event_kind kind) { return in_user[kind]; }

static int arm_signal(const spp_os_event *event, int32_t tid, uintptr_t value) {
    return spp_linux_perf_polls(event->fd, spp_linux_event_signal_needed(), tid, value);
}

int spp_os_event_arm(spp_os_event *event, spp_event_kind kind, uint64_t detail, int32_t tid, uint64_t period, void *cookie,
                     uint32_t source) {
    uintptr_t value = (uintptr_t)cookie | source << SPP_LINUX_SOURCE_SHIFT;
    bool traps = spp_linux_traps_needed(), was_open = event->fd >= 0;
    if ((!traps && rows[kind].in_kernel) || (was_open && event->traps != traps)) {
        spp_os_event_close(event);
        errno = EBUSY;
        return -1;
    }
    event->traps = traps;
    if (!was_open)
        event->fd =
            spp_linux_perf_open(tid, event_of(kind, detail, period), traps ? spp_linux_perf_trap_data(value) : 0, &event->id);
    if (event->fd < 0) return -1;
    if ((traps || arm_signal(event, tid, value) == 0) && spp_linux_perf_call(event->fd, PERF_EVENT_IOC_ENABLE, NULL) == 0)
        return 0;
    int saved = errno;
    spp_os_event_close(event);
    errno = saved;
    return -1;
}

void spp_os_event_period(const spp_os_event *event, uint64_t period) {
    if (event->fd >= 0) spp_linux_perf_call(event->fd, PERF_EVENT_IOC_PERIOD, &period);
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

/* What a read of an event gives, by the read_format of perf.c. */
typedef struct {
    uint64_t count, enabled_ns, running_ns;
} reading;

/* A processor has few counters. If more are asked for, by another profiler say, the kernel lets each count in turn: of
 * `enabled_ns` only for `running_ns`. The count is what it had been in all of that time, at the same rate. An estimate may be
 * less than the one before it. */
static uint64_t whole_count(const reading *r) {
    if (r->running_ns == 0 || r->running_ns >= r->enabled_ns) return r->count;
    return (uint64_t)((double)r->count * ((double)r->enabled_ns / (double)r->running_ns));
}

/* As with spp_linux_perf_close: a program that closes descriptors it does not own, between the
 * check and the read, loses some bytes of another file. */
static int read_event(const spp_os_event *event, reading *r) {
    if (event->fd < 0 || atomic_load_explicit(&spp_linux_confined, memory_order_relaxed)) return -1; /* it may not read */
    if (!spp_linux_perf_is(event->fd, event->id)) return -1;
    return read(event->fd, r, sizeof *r) == (ssize_t)sizeof *r ? 0 : -1;
}

int spp_os_event_count(const spp_os_event *event, uint64_t *count) {
    reading r;
    if (read_event(event, &r) != 0) return -1;
    *count = whole_count(&r);
    return 0;
}

int spp_os_event_times(const spp_os_event *event, uint64_t *enabled_ns, uint64_t *running_ns) {
    reading r;
    if (read_event(event, &r) != 0) return -1;
    *enabled_ns = r.enabled_ns;
    *running_ns = r.running_ns < r.enabled_ns ? r.running_ns : r.enabled_ns;
    return 0;
}

/* Fields 10 and 12 of proc_pid_stat(5), behind a name in parentheses that may hold anything. */
static int read_stat(const char *text, bool minors, uint64_t *count) {
    unsigned long minor, major;
    const char *behind = strrchr(text, ')');
    if (behind == NULL || sscanf(behind + 1, " %*c %*d %*d %*d %*d %*d %*u %lu %*u %lu", &minor, &major) != 2) return -1;
    *count = major + (minors ? minor : 0);
    return 0;
}

/* Adds the number of a line "WORD : NUMBER". */
static int add_line(const char *text, const char *word, uint64_t *count) {
    const char *at = strstr(text, word);
    unsigned long more;
    if (at == NULL || sscanf(at + strlen(word), " : %lu", &more) != 1) return -1;
    *count += more;
    return 0;
}

int spp_os_event_total(spp_event_kind kind, int32_t tid, uint64_t *count) {
    char text[4096];
    const event_row *row = &rows[kind];
    if (row->file == NULL || spp_linux_task_read(tid, row->file, text, sizeof text) < 0) return -1;
    if (strcmp(row->file, "stat") == 0) return read_stat(text, row->second != NULL, count);
    *count = 0;
    if (add_line(text, row->first, count) != 0) return -1;
    return row->second != NULL ? add_line(text, row->second, count) : 0;
}
