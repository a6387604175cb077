/* Opens files for a moment, on a thread with a descriptor table of its own. In the program's table the program may close our
 * descriptor, as daemons close all that they find, and get its number for a file of its own, which we would then close. */
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

#include "os/files.h"
#include "os/linux/linux.h"
#include "os/posix/posix.h"
#include "os/worker.h"

#define SYS_CLOSE_RANGE 436 /* Linux 5.9; older headers lack it */
#define CLOSE_UNSHARE 2u

static void close_all(int first, int last) {
    if (first > last || syscall(SYS_CLOSE_RANGE, (unsigned)first, (unsigned)last, 0) == 0) return;
    for (int fd = first; fd <= last; fd++) close(fd);
}

/* The copy must keep no descriptor of the program's, or a reader of a pipe would never see its end. */
bool spp_linux_own_table(int but) {
    struct rlimit limit;
    int above = but < 0 ? 0 : but + 1;
    spp_linux_reads_in_table(false);
    if (syscall(SYS_CLOSE_RANGE, (unsigned)above, ~0u, CLOSE_UNSHARE) != 0) { /* it does not copy them at all */
        if (unshare(CLONE_FILES) != 0) return false;
        int most = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < (1 << 20) ? (int)limit.rlim_cur : 1 << 20;
        close_all(above, most - 1);
    }
    close_all(0, but - 1);
    spp_linux_reads_in_table(true);
    return true;
}

/* A job, the worker's start and its end happen one at a time, since a thread may start a profile while another one ends the last.
 * Otherwise the end of a job could overwrite ENDS, and joining the worker would never return. */
enum { BEGINS, IDLE, ASKED, DONE, REFUSED, ENDS };
static struct {
    spp_os_worker *worker;
    _Atomic pid_t process;
    _Atomic int32_t tid;    /* the worker's; 0: none */
    _Atomic uint32_t state; /* one of the above */
    _Atomic uint32_t taken; /* the process in which a thread holds this lock; 0: free */
    void (*work)(void *);
    void *arg;
} apart;

static void wait_while(_Atomic uint32_t *word, uint32_t while_is) {
    while (atomic_load(word) == while_is) syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, while_is, NULL, NULL, 0);
}

static void set_and_wake(_Atomic uint32_t *word, uint32_t to) {
    atomic_store(word, to);
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 2, NULL, NULL, 0);
}

static void set_state(uint32_t state) { set_and_wake(&apart.state, state); }

/* Takes the lock. A process that was forked by a system call of its own does not have the thread that held it in its parent. */
static void take_apart(void) {
    uint32_t here = (uint32_t)getpid();
    for (;;) {
        uint32_t owner = atomic_load(&apart.taken);
        if (owner != here && atomic_compare_exchange_strong(&apart.taken, &owner, here)) return;
        wait_while(&apart.taken, here);
    }
}

static void release_apart(void) { set_and_wake(&apart.taken, 0); }

static void apart_body(void *unused) {
    (void)unused;
    bool own = spp_linux_own_table(-1);
    set_state(own ? IDLE : REFUSED);
    while (own) {
        uint32_t state = atomic_load(&apart.state);
        if (state == ENDS) break;
        if (state == ASKED) {
            apart.work(apart.arg);
            set_state(DONE);
        } else {
            wait_while(&apart.state, state);
        }
    }
}

static void end_apart(void) {
    apart.tid = 0;
    set_state(ENDS);
    spp_os_worker_join(apart.worker);
    apart.worker = NULL;
}

static void begin_apart(void) {
    apart.process = getpid();
    spp_linux_reads_apart = spp_linux_apart;
    apart.state = BEGINS;
    apart.worker = spp_os_worker_start("spprof-files", true, apart_body, NULL);
    if (apart.worker == NULL) return;
    wait_while(&apart.state, BEGINS);
    apart.tid = spp_os_worker_tid(apart.worker);
    if (apart.state == REFUSED) end_apart();
}

void spp_linux_apart_start(void) {
    take_apart();
    if (spp_linux_apart_tid() == 0) {
        apart.tid = 0; /* may be a parent's */
        begin_apart();
    }
    release_apart();
}

void spp_linux_apart_stop(void) {
    take_apart();
    if (spp_linux_apart_tid() != 0) end_apart();
    release_apart();
}

/* The process id is not enough: in a new namespace the first process is 1, as its parent may be. */
void spp_linux_apart_child(void) {
    apart.tid = 0;
    release_apart();
}

int32_t spp_linux_apart_tid(void) {
    int32_t tid = atomic_load(&apart.tid);
    return tid != 0 && apart.process == getpid() ? tid : 0;
}

void spp_linux_apart(void (*work)(void *), void *arg) {
    take_apart();
    bool there = spp_linux_apart_tid() != 0;
    if (there) {
        apart.work = work;
        apart.arg = arg;
        set_state(ASKED);
        wait_while(&apart.state, ASKED);
        apart.state = IDLE;
    }
    release_apart();
    if (!there) work(arg); /* no thread, or no tables of their own on this system */
}

typedef struct {
    int fd;
    void *at;
} hold;

/* Opens the file again, since a mapping of `fd` itself would also keep its lock. */
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

typedef struct {
    const char *path;
    size_t most, *n;
    void *bytes;
} text_job;

static void read_text(void *arg) {
    text_job *job = arg;
    job->bytes = spp_posix_file_text(job->path, job->most, job->n);
}

void *spp_os_file_text(const char *path, size_t most, size_t *n) {
    text_job job = {path, most, n, NULL};
    spp_linux_apart(read_text, &job);
    return job.bytes;
}
