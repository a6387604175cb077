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

/* Also a thread that is about to begin a profile asks, while another one ends the last: a job, the worker's begin and its end are
 * one at a time. Else an end that comes within a job is overwritten by that job's, and who joins the worker waits for ever. */
enum { BEGINS, IDLE, ASKED, DONE, REFUSED, ENDS };
static struct {
    spp_os_worker *worker;
    _Atomic pid_t process;
    _Atomic int32_t tid;    /* the worker's; 0: there is none */
    _Atomic uint32_t state; /* of the one job: see above */
    _Atomic uint32_t taken; /* the process in which a thread has all this, or waits for a job's end; 0: none */
    void (*work)(void *);
    void *arg;
} apart;

static void await(_Atomic uint32_t *word, uint32_t while_is) {
    while (atomic_load(word) == while_is) syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, while_is, NULL, NULL, 0);
}

static void set(_Atomic uint32_t *word, uint32_t to) {
    atomic_store(word, to);
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 2, NULL, NULL, 0);
}

static void become(uint32_t state) { set(&apart.state, state); }

/* A process that was forked unseen, by a call of the system's, has none of the threads that had it in its parent. */
static void take(void) {
    uint32_t here = (uint32_t)getpid();
    for (;;) {
        uint32_t who = atomic_load(&apart.taken);
        if (who != here && atomic_compare_exchange_strong(&apart.taken, &who, here)) return;
        await(&apart.taken, here);
    }
}

static void give(void) { set(&apart.taken, 0); }

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

static void end(void) {
    apart.tid = 0;
    become(ENDS);
    spp_os_worker_join(apart.worker);
    apart.worker = NULL;
}

static void begin(void) {
    apart.process = getpid();
    apart.state = BEGINS;
    apart.worker = spp_os_worker_start("spprof-files", true, body, NULL);
    if (apart.worker == NULL) return;
    await(&apart.state, BEGINS);
    apart.tid = spp_os_worker_tid(apart.worker);
    if (apart.state == REFUSED) end();
}

void spp_linux_apart_start(void) {
    take();
    if (spp_linux_apart_tid() == 0) {
        apart.tid = 0; /* a parent's */
        begin();
    }
    give();
}

void spp_linux_apart_stop(void) {
    take();
    if (spp_linux_apart_tid() != 0) end();
    give();
}

/* Its number tells nothing if it is in a namespace of its own: the first process there is 1, as its parent may be. */
void spp_linux_apart_child(void) {
    apart.tid = 0;
    give();
}

int32_t spp_linux_apart_tid(void) {
    int32_t tid = atomic_load(&apart.tid);
    return tid != 0 && apart.process == getpid() ? tid : 0;
}

void spp_linux_apart(void (*work)(void *), void *arg) {
    take();
    bool there = spp_linux_apart_tid() != 0;
    if (there) {
        apart.work = work;
        apart.arg = arg;
        become(ASKED);
        await(&apart.state, ASKED);
        apart.state = IDLE;
    }
    give();
    if (!there) work(arg); /* or this system has no such tables */
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
