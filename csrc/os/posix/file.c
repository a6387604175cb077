/* The profile's file, by POSIX. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/os.h"

static int file = -1;
static struct stat file_is;  /* what it was opened as */
static char file_path[4096]; /* "": none */

int spp_os_file_copy(int fd) { return fcntl(fd, F_DUPFD_CLOEXEC, 3); }
void spp_os_file_close(int fd) { close(fd); }

/* A program may close every descriptor that it finds, as daemons do, and get our number for a file of its own. */
static bool is_ours(int fd) {
    struct stat now;
    return fd >= 0 && fstat(fd, &now) == 0 && now.st_dev == file_is.st_dev && now.st_ino == file_is.st_ino;
}

static int see_to_file(void) {
    if (file >= 0 && !is_ours(file)) {
        file = file_path[0] ? open(file_path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
        if (is_ours(file)) return 0;
        if (file >= 0) close(file);
        file = -1;
    }
    return file >= 0 ? 0 : EBADF;
}

int spp_os_file_take(int fd) {
    file = fd;
    if (fstat(fd, &file_is) != 0) return errno;
    if (!spp_os_path_of(fd, file_path, sizeof file_path)) file_path[0] = 0;
    return 0;
}

/* By as few writes as the kernel allows: a kill between two leaves a block cut short, which readers drop. */
int spp_os_file_write(const void *from, size_t n) {
    const uint8_t *at = from;
    int error = see_to_file();
    while (error == 0 && n > 0) {
        ssize_t done = write(file, at, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return done < 0 ? errno : EIO;
        at += done;
        n -= (size_t)done;
    }
    return error;
}

int spp_os_file_end(void) {
    int error = is_ours(file) && close(file) != 0 ? errno : 0;
    file = -1;
    return error;
}
