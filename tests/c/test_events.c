/* What perf is asked for by each word of --event, and what is made of a counter that counted for a part of the time. The kernel
 * is made up: perf_event_open of this program keeps the attribute and fails; an event's descriptor is a file with numbers. */
#include "check.h"

#if defined(__linux__)
#include <dlfcn.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/source.h"

static struct perf_event_attr asked; /* the last one */
static int asked_n, error;           /* how many, and what each fails with */
static bool only_kernel;             /* it does so only to those that count the kernel, and others with ENOENT */
static int file;                     /* the descriptor that is an event, number 7 */

/* In place of the C library's: its arguments are words. */
long syscall(long number, ...) {
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
    va_end(list);
    if (number == SYS_perf_event_open) {
        memset(&asked, 0, sizeof asked);
        uint32_t size = ((const struct perf_event_attr *)a[0])->size;
        memcpy(&asked, (const void *)a[0], size < sizeof asked ? size : sizeof asked);
        asked_n++;
        errno = only_kernel && asked.exclude_kernel ? ENOENT : error;
        return -1;
    }
    if (number == SYS_ioctl && a[0] == file && a[1] == (long)PERF_EVENT_IOC_ID) {
        *(uint64_t *)a[2] = 7;
        return 0;
    }
    static long (*real)(long, ...);
    if (real == NULL) *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* By the kernel's ABI (perf_event_open(2), enum perf_sw_ids, enum perf_hw_id), not by the names that the code has. */
typedef struct {
    const char *word;
    uint32_t type;
    uint64_t config;
    bool in_kernel; /* arises there alone: not asked for again without the kernel */
} truth;

static const truth truths[] = {
    {"page-faults", 1, 2, false},     {"major-faults", 1, 6, false},
    {"context-switches", 1, 3, true}, {"cpu-migrations", 1, 4, true},
    {"cycles", 0, 0, false},          {"alignment-faults", 1, 7, false},
    {"instructions", 0, 1, false},    {"cache-misses", 0, 3, false},
    {"branch-misses", 0, 5, false},   {"tracepoint:GROUP:NAME", 2, 321, true},
};

static void check_asked(const truth *t, uint64_t period, bool kernel) {
    CHECK_EQUAL(asked.type, t->type);
    CHECK_EQUAL(asked.config, t->config);
    CHECK_EQUAL(asked.sample_period, period);
    CHECK_EQUAL(asked.freq, 0);
    CHECK_EQUAL(asked.read_format, 3); /* the times enabled and running */
    CHECK_EQUAL(asked.exclude_kernel, !kernel);
    CHECK_EQUAL(asked.exclude_user, 0);
    CHECK_EQUAL(asked.exclude_hv, 1);
    CHECK_EQUAL(asked.precise_ip, 0);
    CHECK_EQUAL(asked.inherit, 0);
    CHECK_EQUAL(asked.disabled, 1);
}

static void check_word(const truth *t, spp_event_kind kind) {
    const char *why;
    uint64_t detail = t->type == PERF_TYPE_TRACEPOINT ? t->config : 0;
    spp_os_event event = {.fd = -1};
    asked_n = 0, error = ENOENT, only_kernel = false;
    CHECK_EQUAL(spp_os_event_probe(kind, detail, &why), -1);
    CHECK_EQUAL(errno, ENOENT);
    CHECK_EQUAL(asked_n, 1);
    check_asked(t, 1000000, true);
    CHECK(!spp_os_event_in_user(kind));
    CHECK_EQUAL(spp_os_event_arm(&event, kind, detail, getpid(), 61, &event, 1), -1);
    CHECK_EQUAL(asked_n, t->in_kernel ? 1 : 2); /* without traps it is not asked for */
    if (!t->in_kernel) check_asked(t, 61, true);

    asked_n = 0, error = EACCES, only_kernel = true;
    CHECK_EQUAL(spp_os_event_probe(kind, detail, &why), -1);
    CHECK_EQUAL(asked_n, t->in_kernel ? 1 : 2);
    check_asked(t, 1000000, t->in_kernel);
    CHECK_EQUAL(spp_os_event_in_user(kind), !t->in_kernel);
    if (t->in_kernel) return;
    CHECK_EQUAL(spp_os_event_arm(&event, kind, detail, getpid(), 61, &event, 1), -1);
    check_asked(t, 61, false);
}

static void test_each_word_asks_for_its_event(void) {
    size_t words = 0;
    for (int i = 0; i < SPP_SOURCE_COUNT; i++) {
        if (spp_sources[i].event == SPP_EVENT_NONE) continue;
        const truth *found = NULL;
        for (size_t k = 0; k < sizeof truths / sizeof *truths; k++) {
            if (strcmp(truths[k].word, spp_sources[i].key) == 0) found = &truths[k];
        }
        CHECK(found != NULL);
        if (found != NULL) check_word(found, spp_sources[i].event);
        words++;
    }
    CHECK_EQUAL(words, sizeof truths / sizeof *truths + SPP_TRACEPOINTS - 1);
}

static void check_count(uint64_t count, uint64_t enabled, uint64_t running, uint64_t wanted, uint64_t turns) {
    const uint64_t numbers[] = {count, enabled, running};
    const spp_os_event event = {.fd = file, .id = 7};
    uint64_t got = 0;
    CHECK_EQUAL(pwrite(file, numbers, sizeof numbers, 0), sizeof numbers);
    CHECK_EQUAL(lseek(file, 0, SEEK_SET), 0);
    CHECK_EQUAL(spp_os_event_count(&event, &got), 0);
    CHECK_EQUAL(got, wanted);
    uint64_t of = 1, it = 1;
    CHECK_EQUAL(lseek(file, 0, SEEK_SET), 0);
    CHECK_EQUAL(spp_os_event_times(&event, &of, &it), 0);
    CHECK_EQUAL(of, enabled);
    CHECK_EQUAL(it, turns);
}

static void test_a_counter_that_takes_turns_is_scaled(void) {
    char name[] = "/tmp/spprof-test-XXXXXX";
    file = mkstemp(name);
    CHECK(file >= 0);
    unlink(name);
    check_count(1234567, 900, 900, 1234567, 900);                                           /* all of the time */
    check_count(((uint64_t)1 << 60) + 1, 900, 900, ((uint64_t)1 << 60) + 1, 900);           /* then exactly */
    check_count(1000, 10000000, 4000000, 2500, 4000000);                                    /* 40 % of it */
    check_count(3000000000000, 3600000000000, 1200000000000, 9000000000000, 1200000000000); /* an hour: the product has 84 bits */
    check_count(0, 5000, 0, 0, 0);                                                          /* it had no turn yet */
    check_count(0, 0, 0, 0, 0);                                                             /* nor time */
    check_count(70, 100, 101, 70, 100);
    CHECK_EQUAL(ftruncate(file, 8), 0); /* no event's file: one number */
    uint64_t count = 5;
    CHECK_EQUAL(lseek(file, 0, SEEK_SET), 0);
    CHECK_EQUAL(spp_os_event_count(&(spp_os_event){.fd = file, .id = 7}, &count), -1);
    CHECK_EQUAL(count, 5);
    CHECK_EQUAL(lseek(file, 0, SEEK_SET), 0);
    CHECK_EQUAL(spp_os_event_times(&(spp_os_event){.fd = file, .id = 7}, &count, &count), -1);
    close(file);
}
#endif

int main(void) {
#if defined(__linux__)
    test_each_word_asks_for_its_event();
    test_a_counter_that_takes_turns_is_scaled();
#endif
    return check_done();
}
