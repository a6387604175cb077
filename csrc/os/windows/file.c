/* The profile's file: a handle of our own, which no descriptor of the program's names. */
#include "os/windows/windows.h"

#include <errno.h>
#include <io.h>

#include "os/files.h"
#include "os/memory.h"

#define PATH_UNITS 4096u

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

int spp_os_file_copy(spp_os_file *file, int fd) {
    HANDLE from = (HANDLE)_get_osfhandle(fd), copy;
    if (!DuplicateHandle(GetCurrentProcess(), from, GetCurrentProcess(), &copy, 0, FALSE, DUPLICATE_SAME_ACCESS)) return EBADF;
    file->fd = (int)(intptr_t)copy;
    return 0;
}

void spp_os_file_close(spp_os_file *file) {
    CloseHandle(handle_of(file->fd));
    file->fd = -1;
}

/* A lock of Windows keeps readers from what is locked: so a byte that no file reaches. It goes with the handles. */
int spp_os_file_lock(int fd) {
    HANDLE handle = (HANDLE)_get_osfhandle(fd);
    OVERLAPPED beyond = {.OffsetHigh = 0x40000000};
    if (GetFileType(handle) != FILE_TYPE_DISK) return 0;
    if (LockFileEx(handle, LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &beyond)) return 0;
    return GetLastError() == ERROR_LOCK_VIOLATION || GetLastError() == ERROR_IO_PENDING;
}

void spp_os_file_forget(int fd) { (void)fd; } /* nothing forks */

int spp_os_file_empty(spp_os_file *file) {
    HANDLE handle = handle_of(file->fd);
    if (GetFileType(handle) == FILE_TYPE_DISK && !SetEndOfFile(handle)) return errno_of(GetLastError());
    return 0;
}

int spp_os_file_write(spp_os_file *file, const void *from, size_t n) {
    const uint8_t *at = from;
    while (n > 0) {
        DWORD done = 0, part = n < 1u << 30 ? (DWORD)n : 1u << 30;
        if (!WriteFile(handle_of(file->fd), at, part, &done, NULL)) return errno_of(GetLastError());
        if (done == 0) return EIO;
        at += done;
        n -= done;
    }
    return 0;
}

uint64_t spp_os_file_size(const spp_os_file *file) {
    LARGE_INTEGER size;
    HANDLE handle = handle_of(file->fd);
    if (GetFileType(handle) != FILE_TYPE_DISK || !GetFileSizeEx(handle, &size)) return UINT64_MAX;
    return (uint64_t)size.QuadPart;
}

int spp_os_file_cut(spp_os_file *file, uint64_t size) {
    LARGE_INTEGER to = {.QuadPart = (LONGLONG)size};
    HANDLE handle = handle_of(file->fd);
    return SetFilePointerEx(handle, to, NULL, FILE_BEGIN) && SetEndOfFile(handle) ? 0 : errno_of(GetLastError());
}

int spp_os_file_end(spp_os_file *file) {
    int error = file->fd != -1 && !CloseHandle(handle_of(file->fd)) ? errno_of(GetLastError()) : 0;
    file->fd = -1;
    return error;
}

void spp_os_file_drop(spp_os_file *file) { (void)file; } /* nothing forks */

void *spp_os_file_text(const char *path, size_t most, size_t *n) {
    wchar_t wide[PATH_UNITS];
    LARGE_INTEGER size;
    DWORD got = 0;
    if (MultiByteToWideChar(CP_UTF8, 0, path, -1, wide, PATH_UNITS) == 0) return NULL;
    HANDLE handle =
        CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL, OPEN_EXISTING, 0, NULL);
    if (handle == INVALID_HANDLE_VALUE) return NULL;
    uint8_t *bytes = NULL;
    if (GetFileType(handle) == FILE_TYPE_DISK && GetFileSizeEx(handle, &size) && size.QuadPart > 0 &&
        (uint64_t)size.QuadPart <= most) {
        *n = (size_t)size.QuadPart;
        bytes = spp_os_pages(*n);
    }
    if (bytes != NULL && (!ReadFile(handle, bytes, (DWORD)*n, &got, NULL) || got != *n)) {
        spp_os_pages_free(bytes, *n);
        bytes = NULL;
    }
    CloseHandle(handle);
    return bytes;
}
