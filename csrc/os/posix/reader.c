/* Reads memory through a pipe: write() fails where a plain read would fault. */
#include <fcntl.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/syscall.h>
#endif

#include "os/memory.h"

/* Opens a pipe that children do not inherit and that never blocks. */
static int open_pipe(int ends[2]) {
#ifdef __APPLE__ /* no pipe2: a child forked at this moment keeps the pipe */
    if (pipe(ends) != 0) return -1;
    for (int i = 0; i < 2; i++) {
        fcntl(ends[i], F_SETFD, FD_CLOEXEC);
        fcntl(ends[i], F_SETFL, O_NONBLOCK);
    }
    return 0;
#else
    return pipe2(ends, O_CLOEXEC | O_NONBLOCK);
#endif
}

int spp_os_reader_open(spp_os_reader *reader) {
    int ends[2];
    if (open_pipe(ends) != 0) return -1;
    reader->from = ends[0];
    reader->to = ends[1];
    return 0;
}

/* Not by write() on Linux: AddressSanitizer would report a read of memory that was freed. */
static ssize_t copy_in(int to, uintptr_t addr, size_t n) {
#ifdef __linux__
    return syscall(SYS_write, to, addr, n);
#else
    return write(to, (const void *)addr, n);
#endif
}

int spp_os_reader_read(const spp_os_reader *reader, void *to, uintptr_t addr, size_t n) {
    if (copy_in(reader->to, addr, n) == (ssize_t)n) return read(reader->from, to, n) == (ssize_t)n ? 0 : -1;
    char left[64]; /* what came before the fault; and a kernel may keep a place in the pipe for each that failed */
    while (read(reader->from, left, sizeof left) > 0) {}
    return -1;
}

void spp_os_reader_close(spp_os_reader *reader) {
    close(reader->from);
    close(reader->to);
}
