/* No process waits for a supervisor here: the program is its child. */
#include "os/beside.h"

#include <stdlib.h>

void spp_os_at_exit(void (*call)(void)) {
    static bool known;
    if (!known) known = atexit(call) == 0;
}

bool spp_os_beside_take(int fd) { return (void)fd, false; }
bool spp_os_beside_claim(int fd) { return (void)fd, true; }
void spp_os_beside_end(void) {}
int spp_os_beside_hand_on(void) { return -1; }
void spp_os_beside_keep(void) {}
void spp_os_beside_forget(void) {}
void spp_os_beside_failed(void) {}
bool spp_os_beside_waits(void) { return false; }
int spp_os_beside_wait(int status) { return status; }
bool spp_os_reaps(void) { return false; }
int spp_os_fork_quietly(void) { return -1; }
