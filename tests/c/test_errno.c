/* A tick leaves errno alone, by whichever clock it comes. The core's part of the handler is played by one that fails in a call.
 */
#include "check.h"

#if defined(__linux__)
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "os/context.h"
#include "os/memory.h"
#include "os/threads.h"
#include "os/ticks.h"
#include "processes.h"

#define INTERVAL_NS 200000u
#define TICKS 50u
#define LONGEST_S 60 /* without ticks it would go on for ever */

static _Alignas(64) char cookie[64];
static volatile unsigned long ticks; /* not atomic: TSan locks what is, and a tick in its midst would wait for itself */

static void fails(void *unused, spp_tick kind, const spp_os_context *context) {
    (void)unused, (void)kind, (void)context;
    (void)close(-1);
    if (errno == EBADF) ticks = ticks + 1;
}

static bool is_cookie(const void *at) { return at == cookie; }

/* Calls that a tick may meet: some of its ways out of them make calls of their own. */
static void works(void) {
    struct timespec now;
    for (int i = 0; i < 20; i++) {
        (void)getppid();
        clock_gettime(CLOCK_MONOTONIC, &now);
    }
    for (volatile int i = 0; i < 100000; i++) {}
}

static void counts(const spp_clock *clock) {
    static const int values[] = {0, EINTR, EBADF, 4711};
    spp_os_trigger trigger = {.perf_fd = -1};
    unsigned long changed = 0, rounds = 0;
    time_t late = time(NULL) + LONGEST_S;
    ticks = 0;
    bool armed = spp_os_trigger_arm(&trigger, clock, spp_os_tid(), INTERVAL_NS, cookie) == 0;
    CHECK(armed);
    if (!armed) return;
    while (ticks < TICKS && time(NULL) < late) {
        int value = values[rounds++ % 4];
        errno = value;
        works();
        changed += errno != value;
    }
    spp_os_trigger_disarm(&trigger);
    printf("clock %s: %lu ticks, errno changed %lu times\n", clock->name, (unsigned long)ticks, changed);
    CHECK(ticks >= TICKS);
    CHECK_EQUAL(changed, 0);
}

/* In a process of its own: TSan never restores a signal's default once it had a handler. */
static int one(const spp_clock *clock, bool traps) {
    const char *why;
    CHECK_EQUAL(spp_os_memory_init(), 0);
    if (clock->probe(&why) != 0) return check_done();
    CHECK_EQUAL(spp_os_signal_install(fails, is_cookie, clock, traps), 0);
    if (check_valgrind() && clock->signal != NULL && clock->signal() == SIGTRAP)
        printf("clock %s by traps: not under valgrind\n", clock->name);
    else
        counts(clock);
    spp_os_signal_remove();
    return check_done();
}

SPP_CLOCKS_OF_LINUX(SPP_CLOCK_DECLARE)

/* What other systems call these clocks. */
static void names_are_those_of_the_rows(void) {
#define NAMED(row, name_) CHECK(strcmp(spp_clock_##row.name, name_) == 0);
    SPP_CLOCKS_OF_LINUX(NAMED)
}

int main(void) {
    names_are_those_of_the_rows();
    for (int i = 0; spp_os_clocks[i / 2] != NULL; i++) {
        int status = -1;
        pid_t pid = check_fork();
        if (pid == 0) exit(one(spp_os_clocks[i / 2], i % 2));
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
        CHECK_EQUAL(status, 0);
    }
    return check_done();
}
#else
int main(void) { return check_done(); }
#endif
