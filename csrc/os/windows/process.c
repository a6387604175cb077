/* A process of Windows and its machine. */
#include "os/windows/windows.h"

#include <stdlib.h>

#include "os/process.h"

const char *const spp_os_family = "nt";
const bool spp_os_forks = false;
const char spp_os_path_separator = ';';

int spp_os_setenv(const char *name, const char *value) { return _putenv_s(name, value != NULL ? value : "") == 0 ? 0 : -1; }

void spp_os_host_machine(char *to, size_t size) {
    const char *machine = getenv("PROCESSOR_ARCHITECTURE");
    size_t n = 0;
    for (; machine != NULL && machine[n] != 0 && n + 1 < size; n++) {
        bool upper = machine[n] >= 'A' && machine[n] <= 'Z';
        to[n] = (char)(upper ? machine[n] + ('a' - 'A') : machine[n]);
    }
    to[n] = 0;
}
