/* The profile's file: a handle of our own, which no descriptor of the program's names. */
#include "os/windows/windows.h"

#include <errno.h>
#include <io.h>

#include "os/os.h"

static HANDLE file = INVALID_HANDLE_VALUE;

static int errno_of(DWORD error) {
    switch (error) {
    case ERROR_DISK_FULL:
    case ERROR_HANDLE_DISK_FULL: return ENOSPC;
    case ERROR_ACCESS_DENIED:
    case ERROR_LOCK_VIOLATION: return EACCES;
    case ERROR_INVALID_HANDLE: return EBADF;
    case ERROR_BROKEN_PIPE:
    case ERROR_NO_DATA: return EPIPE;
    default: return EIO;
    }
}

/* Handles have 32 bits that count (Windows' "Interprocess Communication Between 32-bit and 64-bit Applications"). */
static HANDLE handle_of(int number) { return (HANDLE)(intptr_t)number; }

int spp_os_file_copy(int fd) {
    HANDLE from = (HANDLE)_get_osfhandle(fd), copy;
    if (!DuplicateHandle(GetCurrentProcess(), from, GetCurrentProcess(), &copy, 0, FALSE, DUPLICATE_SAME_ACCESS)) {
        errno = EBADF;
        return -1;
    }
    return (int)(intptr_t)copy;
}

void spp_os_file_close(int number) { CloseHandle(handle_of(number)); }

int spp_os_file_take(int number) {
    file = handle_of(number);
    return 0;
}

int spp_os_file_write(const void *from, size_t n) {
    const uint8_t *at = from;
    while (n > 0) {
        DWORD done = 0, part = n < 1u << 30 ? (DWORD)n : 1u << 30;
        if (!WriteFile(file, at, part, &done, NULL)) return errno_of(GetLastError());
        if (done == 0) return EIO;
        at += done;
        n -= done;
    }
    return 0;
}

int spp_os_file_end(void) {
    int error = file != INVALID_HANDLE_VALUE && !CloseHandle(file) ? errno_of(GetLastError()) : 0;
    file = INVALID_HANDLE_VALUE;
    return error;
}
