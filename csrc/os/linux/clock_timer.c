/* The clock `timer`: thread-CPU timers. perf-user also uses them, for time in the kernel (clock_perf.c). */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "os/linux/linux.h"
#include "os/threads.h"
#include "os/ticks.h"

static int make_timer(timer_t *timer, int32_t tid, uintptr_t value) {
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo =
        spp_linux_timer_signal() != 0 ? spp_linux_timer_signal() : SIGURG; /* only when probing; the timer is never set */
    event.sigev_value.sival_ptr = (void *)value;
    event.sigev_notify_thread_id = tid;
    return timer_create(spp_linux_thread_clock(tid), &event, timer);
}

int spp_linux_timer_probe(const char **why) {
    timer_t timer;
    *why = "timer_create";
    if (make_timer(&timer, spp_os_tid(), 0) != 0) return -1;
    timer_delete(timer);
    return 0;
}

static struct itimerspec every(uint64_t ns) {
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    return (struct itimerspec){.it_interval = t, .it_value = t};
}

int spp_linux_timer_arm(spp_os_trigger *trigger, int32_t tid, uint64_t period_ns, uintptr_t value) {
    timer_t timer;
    struct itimerspec spec = every(period_ns);
    if (make_timer(&timer, tid, value) != 0) return -1;
    if (timer_settime(timer, 0, &spec, NULL) != 0) {
        timer_delete(timer);
        return -1;
    }
    trigger->timer = (uintptr_t)timer;
    trigger->has_timer = 1;
    return 0;
}

void spp_linux_timer_disarm(spp_os_trigger *trigger) {
    if (trigger->has_timer) timer_delete((timer_t)trigger->timer);
    trigger->has_timer = 0;
}

/* A timer belongs to the thread it was created for, even if the thread's id is reused. When that thread has ended, the timer has
 * no time left (posix_cpu_timer_get in kernel/time/posix-cpu-timers.c). */
bool spp_linux_timer_orphan(const spp_os_trigger *trigger) {
    struct itimerspec left;
    return trigger->has_timer && timer_gettime((timer_t)trigger->timer, &left) == 0 && left.it_value.tv_sec == 0 &&
           left.it_value.tv_nsec == 0;
}

static int timer_arm(spp_os_trigger *trigger, int32_t tid, uint64_t period_ns, void *cookie) {
    return spp_linux_timer_arm(trigger, tid, period_ns, (uintptr_t)cookie);
}

static void timer_set_period(spp_os_trigger *trigger, uint64_t period_ns) {
    struct itimerspec spec = every(period_ns);
    if (trigger->has_timer) timer_settime((timer_t)trigger->timer, 0, &spec, NULL);
}

static bool timer_alive(const spp_os_trigger *trigger) { return trigger->has_timer; }
static void timer_drop(spp_os_trigger *trigger) { trigger->has_timer = 0; } /* timers are not inherited */

const spp_clock spp_clock_timer = {
    .name = "timer",
    .line = "thread-CPU timers: right shares anywhere, but no more samples than the kernel's tick (CONFIG_HZ)",
    .weight = SPP_WEIGHT_CPU,
    .coarse = true,
    .probe = spp_linux_timer_probe,
    .arm = timer_arm,
    .disarm = spp_linux_timer_disarm,
    .drop = timer_drop,
    .period = timer_set_period,
    .alive = timer_alive,
    .orphan = spp_linux_timer_orphan,
    .signal = spp_linux_timer_signal,
};
