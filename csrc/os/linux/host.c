/* The machine's number. */
#include <stdio.h>

#include "os/process.h"

void spp_os_host_id(char id[64]) {
    static const char *const files[] = {"/etc/machine-id", "/proc/sys/kernel/random/boot_id"};
    id[0] = 0;
    for (size_t i = 0; i < 2 && id[0] == 0; i++) {
        FILE *file = fopen(files[i], "re");
        size_t n = file != NULL ? fread(id, 1, 32, file) : 0;
        id[n == 32 ? 32 : 0] = 0;
        if (file != NULL) (void)fclose(file);
    }
}
