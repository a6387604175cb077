/* Reading a whole file. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/memory.h"
#include "os/posix/posix.h"

/* Looked at first: to open a device may do something. */
void *spp_posix_file_text(const char *path, size_t most, size_t *n) {
    struct stat is;
    if (stat(path, &is) != 0 || !S_ISREG(is.st_mode)) return NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    if (fstat(fd, &is) == 0 && S_ISREG(is.st_mode) && is.st_size > 0 && (uint64_t)is.st_size <= most) {
        size = (size_t)is.st_size;
        bytes = spp_os_pages(size);
    }
    ssize_t got = 1;
    for (size_t at = 0; bytes != NULL && at < size && got > 0; at += got > 0 ? (size_t)got : 0) {
        got = read(fd, bytes + at, size - at);
    }
    close(fd);
    if (bytes != NULL && got <= 0) {
        spp_os_pages_free(bytes, size);
        bytes = NULL;
    }
    *n = size;
    return bytes;
}
