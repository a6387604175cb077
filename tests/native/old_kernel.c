/* To be preloaded: a kernel before 6.16, whose perf events send no SIGTRAP. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

int uname(struct utsname *to) {
    int failed = (int)syscall(SYS_uname, to);
    strcpy(to->release, "6.1.0");
    return failed;
}
