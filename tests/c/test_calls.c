/* Which system calls end with EINTR when a tick interrupts them while a signal of the program's waits: those that would wait, and
 * only those. Each is interrupted as the kernel leaves it: pc on its instruction, its arguments in the registers. */
#include "check.h"

#if defined(__linux__)
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "os/linux/calls.h"
#include "os/memory.h"
#include "os/signals.h"

#if defined(__x86_64__)
static const uint8_t code[] = {0x0f, 0x05, 0x90, 0x90};
#else
static const uint8_t code[] = {0x01, 0, 0, 0xd4, 0x1f, 0x20, 0x03, 0xd5};
#endif
static ucontext_t uc;

static void meets(uintptr_t pc, long number, const uintptr_t a[6]) {
    memset(&uc, 0, sizeof uc);
#if defined(__x86_64__)
    static const int order[] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9};
    uc.uc_mcontext.gregs[REG_RIP] = (greg_t)pc;
    uc.uc_mcontext.gregs[REG_RCX] = (greg_t)pc + 2;
    uc.uc_mcontext.gregs[REG_RAX] = number;
    for (int i = 0; i < 6; i++) uc.uc_mcontext.gregs[order[i]] = (greg_t)a[i];
#else
    uc.uc_mcontext.pc = pc;
    uc.uc_mcontext.regs[8] = (unsigned long)number;
    for (int i = 0; i < 6; i++) uc.uc_mcontext.regs[i] = a[i];
#endif
}

static bool ended(uintptr_t pc) {
#if defined(__x86_64__)
    return uc.uc_mcontext.gregs[REG_RIP] == (greg_t)pc + 2 && uc.uc_mcontext.gregs[REG_RAX] == -EINTR;
#else
    return uc.uc_mcontext.pc == pc + 4 && uc.uc_mcontext.regs[0] == (unsigned long)-EINTR;
#endif
}

/* What becomes of this call. */
static bool ends_at(uintptr_t pc, bool trapped, long number, uintptr_t a, uintptr_t b, uintptr_t c, uintptr_t d, uintptr_t e) {
    const uintptr_t arguments[6] = {a, b, c, d, e, 0};
    meets(pc, number, arguments);
    spp_linux_see_call(&uc, trapped);
    return ended(pc);
}

#define ENDS(...) ends_at((uintptr_t)code, true, __VA_ARGS__)
#define FDS(number, fd) ENDS(number, (uintptr_t)(fd), (uintptr_t)code, 1, 0, 0)

static void handler(int signum) { (void)signum; }

/* SIGUSR1 has this handler, and waits, or not. */
static void signal_is(int flags, bool waits) {
    struct sigaction action;
    sigset_t one;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = flags;
    sigaction(SIGUSR1, &action, NULL);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    sigprocmask(SIG_UNBLOCK, &one, NULL); /* what waited is gone */
    sigprocmask(SIG_BLOCK, &one, NULL);   /* as in our handler */
    if (waits) raise(SIGUSR1);
}

static int empty[2], full[2], slow[2], pair[2], file, null, quiet;
static char fifo[64];

static void descriptors(void) {
    char bytes[4096] = {0}, name[64];
    CHECK(pipe(empty) == 0 && pipe(full) == 0 && pipe2(slow, O_NONBLOCK) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    fcntl(full[1], F_SETFL, O_NONBLOCK);
    while (write(full[1], bytes, sizeof bytes) > 0) {}
    fcntl(full[1], F_SETFL, 0);
    null = open("/dev/null", O_RDWR);
    snprintf(name, sizeof name, "/tmp/spprof-calls-%d", (int)getpid());
    file = open(name, O_RDWR | O_CREAT, 0600);
    unlink(name);
    snprintf(fifo, sizeof fifo, "/tmp/spprof-fifo-%d", (int)getpid());
    CHECK_EQUAL(mkfifo(fifo, 0600), 0);
    quiet = socket(AF_INET, SOCK_STREAM, 0);
}

static void those_that_would_wait(bool end) {
    static uint32_t word = 7;
    CHECK_EQUAL(FDS(SYS_read, empty[0]), end);
    CHECK_EQUAL(FDS(SYS_readv, empty[0]), end);
    CHECK_EQUAL(FDS(SYS_write, full[1]), end);
    CHECK_EQUAL(ENDS(SYS_recvfrom, (uintptr_t)pair[0], 0, 1, 0, 0), end);
    CHECK_EQUAL(ENDS(SYS_recvmsg, (uintptr_t)pair[0], 0, 0, 0, 0), end);
    CHECK_EQUAL(ENDS(SYS_fcntl, (uintptr_t)file, F_SETLKW, 0, 0, 0), end);
    CHECK_EQUAL(ENDS(SYS_fcntl, (uintptr_t)file, 38, 0, 0, 0), end); /* F_OFD_SETLKW */
    CHECK_EQUAL(ENDS(SYS_flock, (uintptr_t)file, LOCK_EX, 0, 0, 0), end);
    CHECK_EQUAL(ENDS(SYS_wait4, (uintptr_t)-1, 0, 0, 0, 0), end);
    CHECK_EQUAL(ENDS(SYS_waitid, P_ALL, 0, 0, WEXITED, 0), end);
    CHECK_EQUAL(ENDS(SYS_futex, (uintptr_t)&word, FUTEX_WAIT_PRIVATE, 7, 0, 0), end);
    /* By number, for older headers: futex_wait, futex_waitv and its list. */
    struct {
        uint64_t expected, word;
        uint32_t flags, reserved;
    } words[2] = {{7, (uintptr_t)&word, 2, 0}, {7, (uintptr_t)&word, 2, 0}};
    CHECK_EQUAL(ENDS(455, (uintptr_t)&word, 7, ~0u, 2, 0), end);
    CHECK(!ENDS(455, (uintptr_t)&word, 8, ~0u, 2, 0)); /* it has changed */
    CHECK_EQUAL(ENDS(449, (uintptr_t)words, 2, 0, 0, 0), end);
    words[1].expected = 8;
    CHECK(!ENDS(449, (uintptr_t)words, 2, 0, 0, 0));
    CHECK_EQUAL(ENDS(SYS_openat, (uintptr_t)AT_FDCWD, (uintptr_t)fifo, O_RDONLY, 0, 0), end);
    CHECK_EQUAL(ENDS(SYS_tee, (uintptr_t)empty[0], (uintptr_t)slow[1], 1, 0, 0), end);
    CHECK_EQUAL(ENDS(SYS_ioctl, 0, 0x5409, 1, 0, 0), end); /* tcdrain */
}

static void those_that_would_not(void) {
    static uint32_t word = 7;
    const long never[] = {SYS_getpid,
                          SYS_lseek,
                          SYS_close,
                          SYS_mmap,
                          SYS_munmap,
                          SYS_brk,
                          SYS_newfstatat,
                          SYS_fstat,
                          SYS_dup,
                          SYS_clock_gettime,
                          SYS_ppoll,
                          SYS_pselect6,
                          SYS_epoll_pwait,
                          SYS_nanosleep,
                          SYS_clock_nanosleep,
                          SYS_rt_sigsuspend,
                          SYS_rt_sigtimedwait,
                          SYS_semop,
                          SYS_msgrcv,
                          SYS_msgsnd,
                          SYS_clone,
                          SYS_execve,
                          SYS_getrandom,
                          SYS_unlinkat,
                          SYS_renameat,
                          SYS_socket,
                          SYS_bind,
                          SYS_listen,
                          SYS_kill,
                          SYS_sched_yield,
                          SYS_rt_sigaction,
                          SYS_rt_sigprocmask,
                          SYS_setitimer,
                          SYS_getdents64,
                          SYS_mprotect,
                          SYS_exit,
                          434,
                          435,
                          436};
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) CHECK(!FDS(never[i], empty[0]));
    CHECK(!FDS(SYS_read, file) && !FDS(SYS_pread64, file) && !FDS(SYS_write, file) && !FDS(SYS_pwrite64, file));
    CHECK(!FDS(SYS_read, null) && !FDS(SYS_write, null) && !FDS(SYS_writev, null) && !FDS(SYS_write, empty[1]));
    CHECK(!FDS(SYS_read, full[0]));  /* there is something */
    CHECK(!FDS(SYS_read, slow[0]));  /* it says O_NONBLOCK */
    CHECK(!FDS(SYS_read, 1000000));  /* no such descriptor: EBADF */
    CHECK(!FDS(SYS_connect, quiet)); /* it has not begun */
    CHECK(!ENDS(SYS_recvfrom, (uintptr_t)pair[0], 0, 1, MSG_DONTWAIT, 0));
    CHECK(!ENDS(SYS_recvmsg, (uintptr_t)pair[0], 0, MSG_DONTWAIT, 0, 0));
    CHECK(!ENDS(SYS_sendto, (uintptr_t)pair[0], 0, 1, 0, 0));
    const int commands[] = {F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK, F_SETOWN, F_GETOWN};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        CHECK(!ENDS(SYS_fcntl, (uintptr_t)file, (uintptr_t)commands[i], 0, 0, 0));
    }
    CHECK(!ENDS(SYS_flock, (uintptr_t)file, LOCK_EX | LOCK_NB, 0, 0, 0) && !ENDS(SYS_flock, (uintptr_t)file, LOCK_UN, 0, 0, 0));
    CHECK(!ENDS(SYS_ioctl, (uintptr_t)pair[0], FIONREAD, 0, 0, 0) && !ENDS(SYS_ioctl, 0, TIOCGWINSZ, 0, 0, 0));
    CHECK(!ENDS(SYS_wait4, (uintptr_t)-1, 0, WNOHANG, 0, 0) && !ENDS(SYS_waitid, P_ALL, 0, 0, WEXITED | WNOHANG, 0));
    const int ops[] = {FUTEX_WAKE,      FUTEX_REQUEUE,    FUTEX_CMP_REQUEUE, FUTEX_WAKE_OP,         FUTEX_LOCK_PI,
                       FUTEX_UNLOCK_PI, FUTEX_TRYLOCK_PI, FUTEX_WAKE_BITSET, FUTEX_WAIT_REQUEUE_PI, FUTEX_CMP_REQUEUE_PI};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) CHECK(!ENDS(SYS_futex, (uintptr_t)&word, (uintptr_t)ops[i], 7, 0, 0));
    CHECK(!ENDS(SYS_futex, (uintptr_t)&word, FUTEX_WAIT, 8, 0, 0));    /* it has changed */
    CHECK(!ENDS(SYS_futex, 8, FUTEX_WAIT, 8, 0, 0));                   /* EFAULT */
    CHECK(!ENDS(SYS_futex, (uintptr_t)&word, FUTEX_WAIT, 7, 4096, 0)); /* the kernel itself ends it */
    CHECK(!ENDS(SYS_openat, (uintptr_t)AT_FDCWD, (uintptr_t) "/", O_RDONLY, 0, 0));
    CHECK(!ENDS(SYS_openat, (uintptr_t)AT_FDCWD, (uintptr_t)fifo, O_RDONLY | O_NONBLOCK, 0, 0));
    CHECK(!ENDS(SYS_openat, (uintptr_t)AT_FDCWD, 8, O_RDONLY, 0, 0)); /* EFAULT */
}

/* Code that may be executed and not read (where the processor has that), or is gone: there is no fault. */
static void code_that_cannot_be_read(void) {
    long size = sysconf(_SC_PAGESIZE);
    uint8_t *page = mmap(NULL, (size_t)size * 2, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page + size - sizeof code, code, sizeof code);
    mprotect(page, (size_t)size, PROT_NONE);
    const uintptr_t at[] = {(uintptr_t)page, (uintptr_t)page + (uintptr_t)size - sizeof code, (uintptr_t)page + (uintptr_t)size,
                            (uintptr_t)page + (uintptr_t)size * 2 - 1, 16};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        CHECK(!ends_at(at[i], true, SYS_read, (uintptr_t)empty[0], 0, 1, 0, 0));
        (void)spp_linux_at_call(&uc);
    }
    munmap(page, (size_t)size * 2);
}

/* A call has just ended with EINTR: it stays so, and the note that it may have ended for is used up, for that one. */
static void those_that_have_ended(volatile int *note) {
    meets((uintptr_t)code + sizeof code / 2, 0, (const uintptr_t[6]){0});
#if defined(__x86_64__)
    uc.uc_mcontext.gregs[REG_RCX] = uc.uc_mcontext.gregs[REG_RIP];
    uc.uc_mcontext.gregs[REG_RAX] = -EINTR;
#else
    uc.uc_mcontext.regs[8] = UINT64_MAX;
    uc.uc_mcontext.regs[0] = (unsigned long)-EINTR;
#endif
    ucontext_t before = uc;
    CHECK(spp_linux_sleeps_in_call(&uc));
    *note = 1;
    spp_linux_see_call(&uc, false);
    CHECK_EQUAL(*note, 2);
    CHECK(memcmp(&uc, &before, sizeof uc) == 0);
    *note = 0;
}

int main(void) {
    static volatile int note;
    CHECK_EQUAL(spp_os_memory_init(), 0);
    spp_linux_calls_init();
    spp_os_signals_wait_at(&note);
    those_that_have_ended(&note);
    descriptors();
    signal_is(0, true);
    those_that_would_wait(true);
    those_that_would_not();
    code_that_cannot_be_read();
    CHECK(!ends_at((uintptr_t)code + sizeof code / 2, true, SYS_read, (uintptr_t)empty[0], 0, 1, 0, 0)); /* a nop */
    signal_is(SA_RESTART, true); /* its handler restarts calls */
    those_that_would_wait(false);
    signal_is(0, false); /* nothing waits, and no handler ran: the process was stopped, and goes on */
    those_that_would_wait(false);
    note = 1; /* another thread of Python's has taken it */
    CHECK(FDS(SYS_read, empty[0]));
    CHECK(!FDS(SYS_read, empty[0])); /* one call ends for it */
    CHECK_EQUAL(note, 2);
    note = 1; /* another signal */
    those_that_would_not();
    CHECK(FDS(SYS_read, empty[0]));
    unlink(fifo);
    return check_done();
}
#else
int main(void) { return check_done(); }
#endif
