/* The clock `signal`: samplers send signals to running threads at random instants. See sender.c. */
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/linux/linux.h"
#include "os/threads.h"
#include "os/ticks.h"

static int signal_probe(const char **why) {
    siginfo_t none = {.si_code = SI_QUEUE};
    *why = "rt_tgsigqueueinfo";
    return syscall(SYS_rt_tgsigqueueinfo, getpid(), spp_os_tid(), 0, &none) != 0 ? -1 : 0;
}

static int signal_arm(spp_os_trigger *trigger, int32_t tid, uint64_t period_ns, void *cookie) {
    int by = spp_linux_poll_signal_needed();
    if (by != 0) trigger->sender = spp_linux_sender_arm(tid, by, period_ns, cookie, trigger->older);
    return trigger->sender != NULL ? 0 : -1;
}

static void signal_disarm(spp_os_trigger *trigger) {
    if (trigger->sender != NULL) spp_linux_sender_disarm(trigger->sender);
    trigger->sender = NULL;
}

static void signal_drop(spp_os_trigger *trigger) { trigger->sender = NULL; }

static void signal_set_period(spp_os_trigger *trigger, uint64_t period_ns) {
    if (trigger->sender != NULL) spp_linux_sender_period(trigger->sender, period_ns);
}

static bool signal_alive(const spp_os_trigger *trigger) { return trigger->sender != NULL; }

static bool signal_gave_up(const spp_os_trigger *trigger) {
    return trigger->sender != NULL && spp_linux_sender_unseen(trigger->sender);
}

const spp_clock spp_clock_signal = {
    .name = "signal",
    .line = "signals that a thread of spprof's sends to those that run, at random instants; needs no privilege",
    .weight = SPP_WEIGHT_INSTANTS,
    .probe = signal_probe,
    .arm = signal_arm,
    .disarm = signal_disarm,
    .drop = signal_drop,
    .period = signal_set_period,
    .alive = signal_alive,
    .gave_up = signal_gave_up,
    .signal = spp_linux_poll_signal,
};
