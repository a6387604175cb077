/* Systems whose ticks need a thread of ours: none of ours rests. */
#include "os/process.h"
#include "os/threads.h"
#include "os/ticks.h"
#include "os/worker.h"

const bool spp_os_may_rest = false;
uint64_t spp_os_signal_threads(void) { return 0; }
void spp_os_signal_rest(void) {}
void spp_os_signal_wake(void) {}
bool spp_os_may_start(void) { return true; }
bool spp_os_barred(void) { return false; }
bool spp_os_confined(void) { return false; }

bool spp_os_threads_at_most(uint64_t n) {
    (void)n;
    return false;
}

void spp_os_alone_notify(void (*rest)(void), void (*wake)(void)) { (void)rest, (void)wake; }
void spp_os_leave_notify(void (*call)(void)) { (void)call; }
void spp_os_confine_notify(void (*call)(void)) { (void)call; }
