/* Calls for which a process must have one thread, those that end it at once, and those that confine it. */
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/linux/linux.h"
#include "os/os.h"

static void (*rest)(void), (*wake)(void), (*leave)(void);

void spp_os_alone_tell(void (*before)(void), void (*after)(void)) {
    rest = before;
    wake = after;
}

void spp_os_leave_tell(void (*call)(void)) { leave = call; }

/* The kernel starts no thread where children are to be in another namespace of processes (copy_process in its kernel/fork.c). A
 * kernel that does not tell has none, or is too old to. */
bool spp_os_may_start(void) {
    struct stat own, children;
    if (stat("/proc/self/ns/pid", &own) != 0 || stat("/proc/self/ns/pid_for_children", &children) != 0) return true;
    return own.st_ino == children.st_ino;
}

static int (*real_unshare)(int), (*real_setns)(int, int);

/* What needs a process of one thread (check_unshare_flags there). */
#define NEED_ONE (CLONE_NEWUSER | CLONE_THREAD | CLONE_SIGHAND | CLONE_VM)

static int own_unshare(int flags) {
    bool alone = (flags & NEED_ONE) != 0 && spp_linux_signals_own() && rest != NULL;
    if (alone) rest();
    int result = real_unshare(flags), saved = errno;
    if (alone) wake();
    errno = saved;
    return result;
}

/* A namespace of users, of time or of mounts; which it is, only the kernel knows for sure. */
static int own_setns(int fd, int kinds) {
    bool alone = spp_linux_signals_own() && rest != NULL;
    if (alone) rest();
    int result = real_setns(fd, kinds), saved = errno;
    if (alone) wake();
    errno = saved;
    return result;
}

static void (*real_exit)(int);

/* A child that has our memory leaves by this if its exec fails. */
static void own_exit(int status) {
    if (spp_linux_signals_own() && leave != NULL) leave();
    real_exit(status);
}

/* Before a thread has a filter that may end the process for a system call. (What the kernel allowed at the start, it allows by a
 * filter from before.) */
static int (*real_prctl)(int, ...);

static int own_prctl(int option, ...) {
    va_list list;
    unsigned long rest_of_it[4];
    va_start(list, option);
    for (int i = 0; i < 4; i++) rest_of_it[i] = va_arg(list, unsigned long); /* as the C library reads them */
    va_end(list);
    if (option == PR_SET_SECCOMP) atomic_store(&spp_linux_confined, true);
    return real_prctl(option, rest_of_it[0], rest_of_it[1], rest_of_it[2], rest_of_it[3]);
}

const spp_linux_import spp_linux_alone[] = {
    {"prctl", (void *)(uintptr_t)own_prctl, NULL, (void *)&real_prctl},
    {"unshare", (void *)(uintptr_t)own_unshare, NULL, (void *)&real_unshare},
    {"setns", (void *)(uintptr_t)own_setns, NULL, (void *)&real_setns},
    {"_exit", (void *)(uintptr_t)own_exit, NULL, (void *)&real_exit},
    {"_Exit", (void *)(uintptr_t)own_exit, NULL, NULL},
};
