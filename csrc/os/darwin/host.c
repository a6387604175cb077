/* The machine's number. */
#include "os/darwin/mach.h"
#include "os/process.h"

void spp_os_host_id(char id[64]) {
    size_t size = 64;
    if (sysctlbyname("kern.uuid", id, &size, NULL, 0) != 0) id[0] = 0;
}
