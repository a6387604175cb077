/* The environment and the machine, for all POSIX systems. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>

#include "os/process.h"

const char *const spp_os_family = "posix";
const bool spp_os_forks = true;
const char spp_os_path_separator = ':';

int spp_os_setenv(const char *name, const char *value) { return value != NULL ? setenv(name, value, 1) : unsetenv(name); }

void spp_os_host_machine(char *to, size_t size) {
    struct utsname names;
    *to = 0;
    if (uname(&names) >= 0) snprintf(to, size, "%s", names.machine);
}
