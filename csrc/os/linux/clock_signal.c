/* The clock `signal`: sender.c's samplers send signals to threads that run, at random instants. */
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/linux/linux.h"
#include "os/threads.h"
#include "os/ticks.h"

static int probe(const char **why) {
    siginfo_t none = {.si_code = SI_QUEUE};
    *why = "rt_tgsigqueueinfo";
    return syscall(SYS_rt_tgsigqueueinfo, getpid(), spp_os_tid(), 0, &none) != 0 ? -1 : 0;
}

static int arm(spp_os_trigger *trigger, int32_t tid, uint64_t period_ns, void *cookie) {
    int by = spp_linux_poll_signal_needed();
    if (by != 0) trigger->sender = spp_linux_sender_arm(tid, by, period_ns, cookie);
    return trigger->sender != NULL ? 0 : -1;
}

static void disarm(spp_os_trigger *trigger) {
    if (trigger->sender != NULL) spp_linux_sender_disarm(trigger->sender);
    trigger->sender = NULL;
}

static void drop(spp_os_trigger *trigger) { trigger->sender = NULL; }

static void set_period(spp_os_trigger *trigger, uint64_t period_ns) {
    if (trigger->sender != NULL) spp_linux_sender_period(trigger->sender, period_ns);
}

static bool alive(const spp_os_trigger *trigger) { return trigger->sender != NULL; }

static bool gave_up(const spp_os_trigger *trigger) { return trigger->sender != NULL && spp_linux_sender_unseen(trigger->sender); }

const spp_clock spp_clock_signal = {
    .name = "signal",
    .line = "signals that a thread of spprof's sends to those that run, at random instants; needs no privilege",
    .weight = SPP_WEIGHT_INSTANTS,
    .probe = probe,
    .arm = arm,
    .disarm = disarm,
    .drop = drop,
    .period = set_period,
    .alive = alive,
    .gave_up = gave_up,
    .signal = spp_linux_poll_signal,
};
