/* Files that are opened in passing, by a thread with a table of descriptors of its own. In the program's table such a descriptor
 * has a number that the program may close, as daemons close all that they find, and get for a file of its own: the close of ours
 * would then close that one. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/linux/linux.h"
#include "os/os.h"

#define SYS_CLOSE_RANGE 436 /* Linux 5.9; older headers lack it */
#define CLOSE_UNSHARE 2u

static void close_all(int first, int last) {
    if (first > last || syscall(SYS_CLOSE_RANGE, (unsigned)first, (unsigned)last, 0) == 0) return;
    for (int fd = first; fd <= last; fd++) close(fd);
}

/* Nothing of the program's may stay in the copy: who reads a pipe would wait for its end for ever. */
bool spp_linux_own_table(int but) {
    struct rlimit limit;
    int above = but < 0 ? 0 : but + 1;
    if (syscall(SYS_CLOSE_RANGE, (unsigned)above, ~0u, CLOSE_UNSHARE) != 0) { /* does not copy them in the first place */
        if (unshare(CLONE_FILES) != 0) return false;
        int most = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < (1 << 20) ? (int)limit.rlim_cur : 1 << 20;
        close_all(above, most - 1);
    }
    close_all(0, but - 1);
    return true;
}

enum { BEGINS, IDLE, ASKED, DONE, REFUSED, ENDS };
static struct {
    spp_os_worker *worker;
    pid_t process;
    _Atomic uint32_t state; /* of the one job: see above */
    _Atomic uint32_t taken; /* somebody has it, or waits for its end */
    void (*work)(void *);
    void *arg;
} apart;

static void await(_Atomic uint32_t *word, uint32_t while_is) {
    while (atomic_load(word) == while_is) syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, while_is, NULL, NULL, 0);
}

static void become(uint32_t state) {
    atomic_store(&apart.state, state);
    syscall(SYS_futex, &apart.state, FUTEX_WAKE_PRIVATE, 2, NULL, NULL, 0);
}

static void body(void *unused) {
    (void)unused;
    bool own = spp_linux_own_table(-1);
    become(own ? IDLE : REFUSED);
    while (own) {
        uint32_t state = atomic_load(&apart.state);
        if (state == ENDS) break;
        if (state == ASKED) {
            apart.work(apart.arg);
            become(DONE);
        } else {
            await(&apart.state, state);
        }
    }
}

void spp_linux_apart_start(void) {
    if (spp_linux_apart_tid() != 0) return;
    apart.process = getpid();
    apart.taken = 0;
    apart.state = BEGINS;
    apart.worker = spp_os_worker_start("spprof-files", true, body, NULL);
    if (apart.worker == NULL) return;
    await(&apart.state, BEGINS);
    if (apart.state == REFUSED) spp_linux_apart_stop();
}

void spp_linux_apart_stop(void) {
    spp_os_worker *worker = apart.worker;
    if (worker == NULL || apart.process != getpid()) return;
    apart.worker = NULL;
    become(ENDS);
    spp_os_worker_join(worker);
}

/* Its number tells nothing if it is in a namespace of its own: the first process there is 1, as its parent may be. */
void spp_linux_apart_child(void) { apart.worker = NULL; }

int32_t spp_linux_apart_tid(void) {
    return apart.worker != NULL && apart.process == getpid() ? spp_os_worker_tid(apart.worker) : 0;
}

void spp_linux_apart(void (*work)(void *), void *arg) {
    if (spp_linux_apart_tid() == 0) { /* nobody is there, or this system has no such tables */
        work(arg);
        return;
    }
    for (uint32_t free = 0; !atomic_compare_exchange_strong(&apart.taken, &free, 1); free = 0) sched_yield();
    apart.work = work;
    apart.arg = arg;
    become(ASKED);
    await(&apart.state, ASKED);
    apart.state = IDLE;
    atomic_store(&apart.taken, 0);
}

typedef struct {
    int fd;
    void *at;
} hold;

/* Opened again, for a mapping of `fd` itself would keep its lock, too. */
static void make_hold(void *arg) {
    hold *h = arg;
    char path[32];
    struct stat it, again;
    snprintf(path, sizeof path, "/proc/self/fd/%d", h->fd);
    if (stat(path, &it) != 0 || !S_ISREG(it.st_mode)) return;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (fstat(fd, &again) == 0 && again.st_dev == it.st_dev && again.st_ino == it.st_ino) {
        h->at = mmap(NULL, 1, PROT_NONE, MAP_SHARED, fd, 0);
        if (h->at == MAP_FAILED) h->at = NULL;
        if (h->at != NULL && madvise(h->at, 1, MADV_DONTFORK) != 0) spp_os_file_release(h->at), h->at = NULL;
    }
    close(fd);
}

void *spp_os_file_hold(int fd) {
    hold h = {fd, NULL};
    spp_linux_apart(make_hold, &h);
    return h.at;
}

void spp_os_file_release(void *held) {
    if (held != NULL) munmap(held, 1);
}
