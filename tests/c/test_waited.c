/* How long a thread waited for a processor in all, beside what the kernel's file says before and after. */
#include "check.h"

#if defined(__linux__)
#include <inttypes.h>
#include <stdio.h>

#include "emulated.h"
#include "os/clock.h"
#include "os/files.h"
#include "os/linux/linux.h"
#include "os/threads.h"

/* False: the kernel says nothing. */
static bool kernel_says(uint64_t *waited) {
    char path[64];
    uint64_t ran;
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", spp_os_tid());
    FILE *file = fopen(path, "r");
    if (file == NULL) return false;
    bool found = fscanf(file, "%" SCNu64 " %" SCNu64, &ran, waited) == 2 && ran != 0;
    fclose(file);
    return found;
}

int main(void) {
    spp_linux_files files = {.tid = 0};
    uint64_t before, after, waited;
    while (spp_os_own_cpu_ns() < 50000000) continue;                /* the kernel counts at its tick */
    if (is_emulated() || !kernel_says(&before)) return 0;           /* an emulator's files are the host's */
    CHECK(!spp_linux_thread_waited(spp_os_tid(), &files, &waited)); /* another thread would have to be asked each time */
    CHECK(spp_os_own_files(-1));
    CHECK(spp_linux_thread_waited(spp_os_tid(), &files, &waited));
    CHECK(kernel_says(&after));
    CHECK(before <= waited && waited <= after);
    CHECK(!spp_linux_thread_waited(0x7ffffffe, &files, &waited)); /* no such thread */
    return check_done();
}
#else
int main(void) { return 0; }
#endif
