/* Reads the files in which JIT compilers describe their code, and parts of other files. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/memory.h"
#include "os/objects.h"
#include "os/posix/posix.h"

void spp_posix_read_part(int fd, uint8_t *bytes, size_t n, uint64_t offset, uint64_t size) {
    if (offset > n || size > n - offset) return;
    while (size > 0) {
        ssize_t got = pread(fd, bytes + offset, size, (off_t)offset);
        if (got <= 0) return;
        offset += (uint64_t)got;
        size -= (uint64_t)got;
    }
}

#define JIT_MAP_MAX ((off_t)256 << 20)

char *spp_os_jit_map(uint64_t *known, size_t *n) {
    char path[64];
    struct stat is;
    snprintf(path, sizeof path, "/tmp/perf-%ld.map", (long)getpid());
    if (lstat(path, &is) != 0 || (uint64_t)is.st_size == *known) return NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) return NULL;
    uint8_t *bytes = NULL;
    if (fstat(fd, &is) == 0 && S_ISREG(is.st_mode) && is.st_uid == geteuid() && is.st_size > 0 && is.st_size <= JIT_MAP_MAX) {
        bytes = spp_os_pages((size_t)is.st_size);
    }
    *known = (uint64_t)is.st_size;
    *n = (size_t)is.st_size;
    if (bytes != NULL) spp_posix_read_part(fd, bytes, *n, 0, *n);
    close(fd);
    return (char *)bytes;
}
