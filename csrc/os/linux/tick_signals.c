/* Which signals ticks come by: the kernel's trap, the C library's own signal, or one that the program ignores. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/utsname.h>

#include "os/linux/linux.h"

static spp_linux_handler on_tick, on_trap; /* constant since the first run of this process */

/* The kernel can send a perf event's tick as SIGTRAP when the thread returns to user mode (perf_event_attr.sigtrap;
 * perf_pending_task in kernel/events/core.c). That never interrupts a system call, while SIGURG interrupts one that is about to
 * sleep. It also costs 13 us less here than the older way, by which a processor sends itself an interrupt. */
static bool traps;              /* ticks of the clock perf-trap come as SIGTRAP */
static bool traps_allowed;      /* the caller disarms a thread before it replaces the program */
static bool event_traps;        /* ticks of events that are no clock do */
static _Atomic int poll_signal; /* the signal of other ticks; 0: none */
/* The signal of events that are no clock: another one, since two pending signals of one number become one; 0: no event was armed.
 */
static _Atomic int event_signal;
static _Atomic bool moving; /* the last spp_linux_tick_signals_taken() changed a signal, so triggers are being armed again */
static bool reserved;       /* ticks of timers come by the C library's own signal; else by poll_signal */

bool spp_linux_traps(void) { return traps; }
int spp_linux_poll_signal(void) { return poll_signal; }
int spp_linux_timer_signal(void) { return reserved ? SPP_LINUX_RESERVED : poll_signal; }
bool spp_linux_tick_signals_move(void) { return moving; }

/* Whether this kernel sends SIGTRAP at the return to user mode, and no debugger uses SIGTRAP. Linux 6.11 to 6.15 do so too, but
 * closing an event whose tick is pending for a sleeping thread blocks until that thread wakes (fixed by "perf: Fix hang while
 * freeing sigtrap event"). */
static bool can_trap(void) {
    struct utsname name;
    int major = 0, minor = 0;
    if (uname(&name) != 0 || sscanf(name.release, "%d.%d", &major, &minor) != 2) return false;
    return (major > 6 || (major == 6 && minor >= 16)) && !spp_linux_traced();
}

/* A thread that sleeps in a call gets its tick when it wakes, maybe long after the run. So the handler stays installed; a late
 * tick finds no run, or a run with another number. */
static bool take_trap(void) {
    if (spp_linux_signal_installed(SIGTRAP)) return true;
    return spp_linux_signal_free(SIGTRAP) && spp_linux_signal_take(SIGTRAP, on_trap);
}

/* Chooses a signal that is ignored by default, so that a tick does nothing if our handler is lost, by exec or in a program that
 * resets all signals. The program must have no handler for it: of two pending signals with one number below 32 a thread gets only
 * one, so the program's might be lost to a tick. (SIGCHLD and SIGCONT are ignored too, but have a meaning for a process that
 * waits for a child, or is stopped.) */
static int choose_signal(int but) {
    static const int candidates[] = {SIGURG, SIGWINCH};
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
        if (candidates[i] != but && spp_linux_signal_free(candidates[i]) && spp_linux_signal_take(candidates[i], on_tick))
            return candidates[i];
    }
    return 0;
}

/* Another one than `but`, or else that one. */
static int choose_other(int but) {
    int chosen = choose_signal(but);
    return chosen != 0 ? chosen : choose_signal(0);
}

/* Without any the one before stays. */
static bool choose_poll_signal(void) {
    int chosen = choose_other(event_signal);
    if (chosen != 0) poll_signal = chosen;
    return chosen != 0;
}

int spp_linux_poll_signal_needed(void) {
    if (poll_signal == 0) (void)choose_poll_signal();
    return poll_signal;
}

int spp_linux_event_signal(void) { return event_signal; }

int spp_linux_event_signal_needed(void) {
    if (event_signal == 0) event_signal = choose_other(poll_signal);
    return event_signal;
}

bool spp_linux_may_trap(void) { return can_trap() && (spp_linux_signal_installed(SIGTRAP) || spp_linux_signal_free(SIGTRAP)); }

bool spp_linux_traps_needed(void) {
    if (!event_traps) event_traps = traps_allowed && can_trap() && take_trap();
    return event_traps;
}

int spp_linux_tick_signals_begin(spp_linux_handler tick, spp_linux_handler trap, bool wants_trap, bool may_trap) {
    on_tick = tick;
    on_trap = trap;
    /* Its default action ends the program, as SIGTRAP's does. */
    reserved = may_trap && SIGRTMIN > SPP_LINUX_RESERVED && spp_linux_signal_take(SPP_LINUX_RESERVED, on_tick);
    traps = wants_trap && may_trap && can_trap() && take_trap();
    traps_allowed = may_trap;
    event_traps = false;
    poll_signal = event_signal = 0;
    moving = false;
    spp_linux_signals_run();
    spp_linux_signals_owned();
    bool polls = (traps && reserved) || choose_poll_signal();
    return polls || reserved ? 0 : -1;
}

bool spp_linux_tick_signals_taken(void) {
    bool was_trapping = traps, was_reserved = reserved;
    int polled = poll_signal;
    traps = traps && spp_linux_signal_installed(SIGTRAP);
    reserved = reserved && spp_linux_signal_installed(SPP_LINUX_RESERVED);
    bool needs = !traps || !reserved || polled != 0;
    bool lost = polled != 0 && !(spp_linux_signal_installed(polled) && spp_linux_signal_free(polled));
    /* If none is free, timers are used, provided they have a signal of their own. */
    if (needs && (polled == 0 || lost) && !choose_poll_signal() && reserved) poll_signal = 0;
    bool event_lost = event_signal != 0 && !(spp_linux_signal_installed(event_signal) && spp_linux_signal_free(event_signal));
    if (event_lost) event_signal = choose_other(poll_signal);
    bool trap_lost = event_traps && !spp_linux_signal_installed(SIGTRAP);
    if (trap_lost) event_traps = false;
    bool moves = traps != was_trapping || reserved != was_reserved || (lost && poll_signal != polled) || event_lost || trap_lost;
    moving = moves;
    return moves;
}

void spp_linux_tick_signals_moved(void) {
    static const int both[] = {SIGURG, SIGWINCH};
    for (int i = 0; i < 2; i++)
        if (both[i] != poll_signal && both[i] != event_signal) spp_linux_signal_leave(both[i]);
}

void spp_linux_tick_signals_end(void) {
    spp_linux_signal_leave(SIGURG);
    spp_linux_signal_leave(SIGWINCH);
    spp_linux_tick_signals_child();
}

void spp_linux_tick_signals_child(void) {
    poll_signal = event_signal = 0;
    traps = event_traps = false;
}
