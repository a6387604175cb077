/* The profile's file, by POSIX. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/files.h"
#include "os/posix/posix.h"

/* Copies a descriptor to a number that is no standard stream: see module/output.c. */
static int copy_high(int fd) {
    int made = fcntl(fd, F_DUPFD_CLOEXEC, SPP_OS_FILES_FROM);
    return made >= 0 ? made : fcntl(fd, F_DUPFD_CLOEXEC, 3); /* with a very low `ulimit -n` */
}

int spp_os_file_copy(spp_os_file *file, int fd) {
    struct stat now;
    file->from = fd;
    file->apart = false;
    file->fd = copy_high(fd);
    if (file->fd < 0) return errno;
    if (fstat(file->fd, &now) != 0) {
        int error = errno;
        spp_os_file_close(file);
        return error;
    }
    file->device = (uint64_t)now.st_dev;
    file->number = (uint64_t)now.st_ino;
    if (!spp_os_path_of(fd, file->path, sizeof file->path)) file->path[0] = 0;
    return 0;
}

void spp_os_file_close(spp_os_file *file) {
    close(file->fd);
    file->fd = -1;
}

/* Descriptors with locks that this process holds. A forked child closes them. */
#define LOCKED_MAX 16
#define LOCKINGS 50 /* half of the time for which a writer may be stuck */
#define LOCKING_NS 10000000u
#define CLOSINGS 8
static struct {
    _Atomic int fd; /* plus 1; 0: unused, -1: being filled in */
    uint64_t device, number;
} locked[LOCKED_MAX];

static void remember(int fd, const struct stat *is) {
    for (size_t i = 0; i < LOCKED_MAX; i++) {
        int none = 0;
        if (!atomic_compare_exchange_strong(&locked[i].fd, &none, -1)) continue;
        locked[i].device = (uint64_t)is->st_dev;
        locked[i].number = (uint64_t)is->st_ino;
        atomic_store(&locked[i].fd, fd + 1);
        return;
    }
}

void spp_os_file_forget(int fd) {
    for (size_t i = 0; i < LOCKED_MAX; i++) {
        int same = fd + 1;
        atomic_compare_exchange_strong(&locked[i].fd, &same, 0);
    }
}

void spp_posix_files_child(void) {
    struct stat now;
    for (size_t i = 0; i < LOCKED_MAX; i++) {
        int fd = atomic_exchange(&locked[i].fd, 0) - 1;
        if (fd < 0 || fstat(fd, &now) != 0) continue;
        if ((uint64_t)now.st_dev == locked[i].device && (uint64_t)now.st_ino == locked[i].number) close(fd);
    }
}

/* Locks the file. 1: another process holds the lock; -1: it cannot be locked. */
static int lock_file(int fd, struct stat *is) {
    if (fstat(fd, is) != 0 || !S_ISREG(is->st_mode)) return -1;
    return flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno == EWOULDBLOCK ? 1 : -1;
}

int spp_os_file_lock(int fd) {
    struct stat now;
    int another = lock_file(fd, &now);
    if (another == 0) remember(fd, &now);
    return another > 0;
}

/* Whether `fd` is still the profile's file, open for writing. A program may close every descriptor that it finds, as daemons do,
 * and get the number for another file, or for this one to read it. */
static bool is_file(const spp_os_file *file, int fd) {
    struct stat now;
    int flags = fd >= 0 ? fcntl(fd, F_GETFL) : -1;
    return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && fstat(fd, &now) == 0 && (uint64_t)now.st_dev == file->device &&
           (uint64_t)now.st_ino == file->number;
}

/* Locks the file, and waits if needed. The lock of a closed descriptor is released with its last use, which may be later: by the
 * kernel, or by a child that is being created. A process that checks whether the file is being written holds it for a moment,
 * too. */
static bool lock_in_time(int fd, bool shared_table) {
    struct stat now;
    for (int i = 0; (shared_table ? spp_os_file_lock(fd) : lock_file(fd, &now)) > 0; i++) {
        if (i == LOCKINGS) return false;
        spp_os_sleep_until(spp_os_now_ns() + LOCKING_NS);
    }
    return true;
}

static int open_by_path(const spp_os_file *file) {
    int first = file->path[0] ? open(file->path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
    int fd = first >= 0 && first < 3 ? copy_high(first) : first; /* in an empty table it may be 0 to 2 */
    if (fd != first) close(first);
    if (is_file(file, fd) && lock_in_time(fd, !file->apart)) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

/* Reopens the file, which the program closed, and locks it: by Python's descriptor, or by path if that is closed too. From here
 * on in a descriptor table of the thread's own, because the program may close more descriptors, and reuse a number that we then
 * close. */
static int open_again(spp_os_file *file) {
    int from = is_file(file, file->from) ? file->from : -1;
    spp_os_file_forget(file->fd);
    if (from < 0) spp_os_file_forget(file->from);
    file->apart = spp_os_own_files(from);
    if (file->apart && is_file(file, from)) return from;
    if (file->apart && from >= 0) close(from);
    int fd = file->apart || from < 0 ? -1 : copy_high(from);
    if (is_file(file, fd)) return fd;
    if (fd >= 0) close(fd);
    return open_by_path(file);
}

static int keep_file_open(spp_os_file *file) {
    if (file->fd >= 0 && !file->apart && !is_file(file, file->fd)) file->fd = open_again(file);
    return file->fd >= 0 ? 0 : EBADF;
}

int spp_os_file_empty(spp_os_file *file) {
    struct stat now;
    if (fstat(file->fd, &now) != 0) return errno;
    return S_ISREG(now.st_mode) && ftruncate(file->fd, 0) != 0 ? errno : 0;
}

/* Writing beyond the limit of a file's size sends SIGXFSZ to the writing thread, and writing to a pipe without a reader SIGPIPE.
 * Either ends a program that does not expect it. Our threads block all signals. If a thread of the program's writes, because none
 * of ours could be started, the signal is blocked and removed. */
static ssize_t write_quietly(int fd, const void *from, size_t n) {
    sigset_t both, old, before, after;
    if (spp_posix_on_worker()) return write(fd, from, n);
    sigemptyset(&both);
    sigaddset(&both, SIGXFSZ);
    sigaddset(&both, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &both, &old);
    sigpending(&before);
    ssize_t done = write(fd, from, n);
    int error = errno, signum = done >= 0 ? 0 : error == EFBIG ? SIGXFSZ : error == EPIPE ? SIGPIPE : 0;
    sigpending(&after);
    if (signum != 0 && sigismember(&before, signum) == 0 && sigismember(&after, signum) == 1) {
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, signum);
        sigwait(&one, &signum);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = error;
    return done;
}

/* Uses as few writes as the kernel allows, since a kill between two leaves an incomplete block, which readers drop. */
int spp_os_file_write(spp_os_file *file, const void *from, size_t n) {
    const uint8_t *at = from;
    int error = keep_file_open(file), closings = CLOSINGS;
    while (error == 0 && n > 0) {
        ssize_t done = write_quietly(file->fd, at, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0 && errno == EBADF && !file->apart && closings-- > 0) { /* closed since it was checked */
            error = keep_file_open(file);
            continue;
        }
        if (done <= 0) return done < 0 ? errno : EIO;
        at += done;
        n -= (size_t)done;
    }
    return error;
}

uint64_t spp_os_file_size(const spp_os_file *file) {
    struct stat now;
    if (file->fd < 0 || (!file->apart && !is_file(file, file->fd)) || fstat(file->fd, &now) != 0) return UINT64_MAX;
    return S_ISREG(now.st_mode) ? (uint64_t)now.st_size : UINT64_MAX;
}

int spp_os_file_cut(spp_os_file *file, uint64_t size) {
    if (!file->apart && !is_file(file, file->fd)) return EBADF;
    if (ftruncate(file->fd, (off_t)size) != 0 || lseek(file->fd, (off_t)size, SEEK_SET) < 0) return errno;
    return 0;
}

/* Unlocks explicitly, since a child that is being created may keep the descriptor until it calls exec. */
int spp_os_file_end(spp_os_file *file) {
    bool ours = is_file(file, file->fd);
    if (ours) flock(file->fd, LOCK_UN);
    int error = ours && close(file->fd) != 0 ? errno : 0;
    if (!file->apart) spp_os_file_forget(file->fd);
    spp_os_file_forget(file->from);
    file->fd = -1;
    return error;
}

void spp_os_file_drop(spp_os_file *file) {
    if (!file->apart && is_file(file, file->fd)) close(file->fd);
    if (is_file(file, file->from)) close(file->from); /* a child that Python did not notice would keep the lock */
    file->fd = file->from = -1;
}
