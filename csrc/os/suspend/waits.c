#include "os/waits.h"

spp_os_wait spp_os_thread_waits(int32_t tid) {
    (void)tid;
    return (spp_os_wait){.fd = -1};
}

void spp_os_descriptor(int32_t tid, int fd, char to[SPP_OS_DESCRIPTOR]) {
    (void)tid, (void)fd;
    to[0] = 0;
}
