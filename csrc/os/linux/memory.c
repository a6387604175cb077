/* Reads memory that may not be mapped, without a handler for SIGSEGV (faulthandler, torch and Go have one). */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/faults.h"
#include "os/linux/linux.h"
#include "os/linux/machine.h"
#include "os/memory.h"
#include "os/posix/posix.h"

_Atomic bool spp_linux_confined, spp_linux_blinded, spp_linux_barred;

/* rt_sigprocmask with an impossible `how` copies the new mask from user memory, then fails: EFAULT if the memory is not
 * readable, EINVAL if it is. It changes nothing, needs no right and costs 0.1 us. Raw: the libc wrapper filters the mask
 * and touches errno. */
#define IMPOSSIBLE_HOW (~0L)

static long raw_probe(uintptr_t addr) { return raw_call(SYS_rt_sigprocmask, IMPOSSIBLE_HOW, addr, 0, 8); }

bool spp_os_readable(uintptr_t addr) { return raw_probe(addr & ~(uintptr_t)7) == -EINVAL && !spp_at_fault(); }

static bool vm_readv_works;

/* Not memcpy, since AddressSanitizer would report reads beyond the end of an object. */
__attribute__((no_sanitize("address", "thread"))) static void copy_bytes(uint8_t *to, const volatile uint8_t *from, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = from[i];
}

/* Probes each page, then copies. Another thread may unmap it in between. The program's threads always read this way: a filter may
 * end the program for a call that it never makes itself, and what they read, running code or a code object being freed, stays
 * mapped. */
static int read_by_probe(void *to, uintptr_t addr, size_t n) {
    uintptr_t end = addr + n;
    if (end < addr) return -1;
    for (uintptr_t at = addr; at < end; at = (at & ~(uintptr_t)4095) + 4096) {
        if (!spp_os_readable(at)) return -1;
    }
    copy_bytes(to, (const volatile uint8_t *)addr, n);
    return 0;
}

/* ---- without process_vm_readv (seccomp, old containers), our threads read through a pipe: the kernel copies there, too */

static _Thread_local spp_os_reader pipe_here; /* of threads with their own table of descriptors, till they end */
static _Thread_local bool has_pipe;

bool spp_linux_reads_by_pipe(void) { return !vm_readv_works; }

void (*_Atomic spp_linux_reads_apart)(void (*job)(void *arg), void *arg);

/* The first use of a thread-local variable may allocate, and the program's allocator may open files: not in a table of ours. */
void spp_linux_reads_in_table(bool own) {
    has_pipe = false;
    has_pipe = own && !vm_readv_works && spp_os_reader_open(&pipe_here) == 0;
}

typedef struct {
    uint8_t *to;
    uintptr_t addr;
    size_t n;
    bool tried;
    int gave;
} pipe_copy;

static void copy_by_pipe(void *arg) {
    enum { MOST = 4096 };
    pipe_copy *c = arg;
    c->tried = has_pipe;
    c->gave = has_pipe ? 0 : -1;
    for (size_t done = 0, part; c->gave == 0 && done < c->n; done += part) {
        part = c->n - done < MOST ? c->n - done : MOST;
        c->gave = spp_os_reader_read(&pipe_here, c->to + done, c->addr + done, part);
    }
}

/* One of our threads, of which one may have failed to get its own table: then by the probe. */
static int read_by_pipe(void *to, uintptr_t addr, size_t n) {
    pipe_copy copy = {to, addr, n, false, -1};
    void (*apart)(void (*job)(void *arg), void *arg) = spp_linux_reads_apart;
    if (has_pipe || apart == NULL)
        copy_by_pipe(&copy);
    else
        apart(copy_by_pipe, &copy);
    return copy.tried ? copy.gave : read_by_probe(to, addr, n);
}

int spp_os_read(void *to, uintptr_t addr, size_t n) {
    if (spp_at_fault()) return -1;
    if (!spp_posix_on_worker()) return read_by_probe(to, addr, n);
    if (!vm_readv_works) return read_by_pipe(to, addr, n);
    struct iovec local = {.iov_base = to, .iov_len = n};
    struct iovec remote = {.iov_base = (void *)addr, .iov_len = n};
    ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
    if (got < 0 && errno != EFAULT) return read_by_probe(to, addr, n); /* a newer filter: there may be no pipe yet */
    return got == (ssize_t)n ? 0 : -1;
}

int spp_os_memory_init(void) {
    uint64_t word = 0x5bd1e995, copy = 0;
    void *hole = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (hole == MAP_FAILED) return -1;
    bool probes = spp_os_readable((uintptr_t)&word) && !spp_os_readable((uintptr_t)hole);
    struct iovec local = {.iov_base = &copy, .iov_len = sizeof copy};
    struct iovec remote = {.iov_base = &word, .iov_len = sizeof word};
    vm_readv_works = process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)sizeof word && copy == word;
    munmap(hole, 4096);
    return probes ? 0 : -1;
}

void *spp_os_pages(size_t bytes) {
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

void *spp_os_pages_grow(void *at, size_t bytes, size_t more) {
    if (spp_linux_confined) return NULL; /* a filter may forbid this call */
    void *grown = mremap(at, bytes, bytes + more, MREMAP_MAYMOVE);
    return grown == MAP_FAILED ? NULL : grown;
}

void spp_os_pages_free(void *at, size_t bytes) {
    if (at != NULL) munmap(at, bytes);
}
