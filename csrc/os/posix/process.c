/* The environment and the machine, for all POSIX systems. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include "os/process.h"

const char *const spp_os_family = "posix";
const bool spp_os_forks = true;
const char spp_os_path_separator = ':';

uint64_t spp_os_children_cpu_ns(void) {
    struct rusage used;
    if (getrusage(RUSAGE_CHILDREN, &used) != 0) return 0;
    return (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000u +
           (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000u;
}

int spp_os_setenv(const char *name, const char *value) { return value != NULL ? setenv(name, value, 1) : unsetenv(name); }

void spp_os_host_machine(char *to, size_t size) {
    struct utsname names;
    *to = 0;
    if (uname(&names) >= 0) snprintf(to, size, "%s", names.machine);
}
