/* What the system says of a thread in a call that waits: for each way to wait what it is, and for which descriptor or lock. */
#include "check.h"

#if defined(__linux__)
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "emulated.h"
#include "os/clock.h"
#include "os/linux/linux.h"
#include "os/memory.h"
#include "os/threads.h"
#include "os/waits.h"
#include "processes.h"

#define PATIENCE_NS 60000000000u

static int pipe_a[2], pipe_b[2], listening, locked, locked_again, semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void polls(int n) {
    struct pollfd fds[2] = {{.fd = pipe_a[0], .events = POLLIN}, {.fd = pipe_b[0], .events = POLLIN}};
    (void)poll(fds, (nfds_t)n, 600000);
}
static void selects(int n) {
    fd_set set;
    struct timeval tv = {.tv_sec = 600};
    FD_ZERO(&set);
    if (n > 0) FD_SET((unsigned)pipe_a[0], &set);
    if (n > 1) FD_SET((unsigned)pipe_b[0], &set);
    (void)select(pipe_b[0] + 1, &set, NULL, NULL, &tv);
}
static void polls_none(void) { polls(0); }
static void polls_one(void) { polls(1); }
static void polls_two(void) { polls(2); }
static void selects_none(void) { selects(0); }
static void selects_one(void) { selects(1); }
static void selects_two(void) { selects(2); }
static void reads(void) {
    char byte;
    (void)!read(pipe_b[0], &byte, 1);
}
static void sleeps(void) { (void)sleep(600); }
static void locks_mutex(void) { (void)pthread_mutex_lock(&mutex); }
static void locks_file(void) { (void)flock(locked_again, LOCK_EX); }
static void takes_semaphore(void) {
    struct sembuf take = {.sem_op = -1};
    (void)semop(semaphore, &take, 1);
}
static void accepts(void) { (void)accept(listening, NULL, NULL); }
static void waits_for_events(void) {
    struct epoll_event event;
    (void)epoll_wait(epoll_create1(EPOLL_CLOEXEC), &event, 1, 600000);
}
static void pauses(void) { (void)pause(); }
static pid_t child;
static void waits_for_child(void) { (void)waitpid(child, NULL, 0); }

static const struct {
    void (*call)(void);
    spp_reason reason;
    const int *fd; /* NULL: none */
    const void *address;
} cases[] = {
    {polls_none, SPP_REASON_sleep, NULL, NULL},      {polls_one, SPP_REASON_io, &pipe_a[0], NULL},
    {polls_two, SPP_REASON_io, NULL, NULL},          {selects_none, SPP_REASON_sleep, NULL, NULL},
    {selects_one, SPP_REASON_io, &pipe_a[0], NULL},  {selects_two, SPP_REASON_io, NULL, NULL},
    {reads, SPP_REASON_io, &pipe_b[0], NULL},        {sleeps, SPP_REASON_sleep, NULL, NULL},
    {locks_mutex, SPP_REASON_lock, NULL, &mutex},    {locks_file, SPP_REASON_lock, &locked_again, NULL},
    {takes_semaphore, SPP_REASON_lock, NULL, NULL},  {accepts, SPP_REASON_idle, &listening, NULL},
    {waits_for_events, SPP_REASON_idle, NULL, NULL}, {pauses, SPP_REASON_idle, NULL, NULL},
    {waits_for_child, SPP_REASON_child, NULL, NULL},
};
enum { CASES = sizeof cases / sizeof *cases };
static _Atomic int32_t tids[CASES];

static void *run(void *number) {
    size_t i = (size_t)number;
    atomic_store(&tids[i], spp_os_tid());
    cases[i].call();
    return NULL;
}

static bool has_two(const spp_os_wait *wait) {
    return wait->several_n == 2 && wait->several[0] == pipe_a[0] && wait->several[1] == pipe_b[0];
}

/* What the kernel is told of a lock is within it, where each C library has it. */
static bool is_at(uintptr_t address, const void *object) {
    return object == NULL ? address == 0 : address - (uintptr_t)object < sizeof mutex;
}

/* valgrind makes a thread's calls on a stack of its own, which is not to be taken for the thread's. */
static bool has_registers;

static bool is_expected(size_t i, const spp_os_wait *wait) {
    return wait->reason == cases[i].reason && wait->fd == (cases[i].fd != NULL ? *cases[i].fd : -1) &&
           is_at(wait->address, cases[i].address) && (wait->pc != 0) == has_registers && (wait->sp != 0) == has_registers &&
           has_two(wait) == (cases[i].call == polls_two || cases[i].call == selects_two);
}

/* Each thread makes its call once, for longer than the test: it gets there, and then that is what it waits for. */
static void test_each_wait_is_known(void) {
    uint64_t late = spp_os_now_ns() + PATIENCE_NS;
    for (size_t i = 0; i < CASES; i++) {
        spp_os_wait wait = {.fd = -1};
        while (!is_expected(i, &wait) && spp_os_now_ns() < late) {
            spp_os_sleep_until(spp_os_now_ns() + 1000000);
            if (atomic_load(&tids[i]) != 0) wait = spp_os_thread_waits(tids[i]);
        }
        CHECK_EQUAL(wait.reason, cases[i].reason);
        CHECK_EQUAL(wait.fd, cases[i].fd != NULL ? *cases[i].fd : -1);
        CHECK(is_at(wait.address, cases[i].address));
        CHECK(has_two(&wait) == (cases[i].call == polls_two || cases[i].call == selects_two));
        if (!is_expected(i, &wait)) printf("case %zu\n", i);
        spp_linux_files files = {0};
        bool past =
            has_registers && cases[i].reason != SPP_REASON_lock && cases[i].reason != SPP_REASON_child && cases[i].call != reads;
        CHECK_EQUAL(spp_linux_thread_waits_past(tids[i], &files), past);
    }
}

/* Where /proc has an emulator's calls and registers, nothing is said of any thread: the numbers are of other calls, and its stack
 * may be gone while it is read. */
static void test_no_wait_is_claimed(void) {
    for (size_t i = 0; i < CASES; i++) {
        while (atomic_load(&tids[i]) == 0 || !spp_linux_thread_waits(tids[i])) spp_os_sleep_until(spp_os_now_ns() + 1000000);
        spp_linux_files files = {0};
        CHECK(!spp_linux_thread_waits_past(tids[i], &files));
        spp_os_wait wait = spp_os_thread_waits(tids[i]);
        CHECK(wait.reason == SPP_REASON_running || wait.reason == SPP_REASON_ready);
        CHECK(wait.fd == -1 && wait.several_n == 0 && wait.address == 0 && wait.pc == 0 && wait.sp == 0);
    }
}

static void test_descriptors_have_names(const char *file) {
    char name[SPP_OS_DESCRIPTOR], wanted[SPP_OS_DESCRIPTOR];
    spp_os_descriptor(spp_os_tid(), locked, name);
    snprintf(wanted, sizeof wanted, "file %s", file);
    CHECK(strcmp(name, wanted) == 0);
    spp_os_descriptor(spp_os_tid(), pipe_a[0], name);
    snprintf(wanted, sizeof wanted, "pipe, descriptor %d", pipe_a[0]);
    CHECK(strcmp(name, wanted) == 0);
    spp_os_descriptor(spp_os_tid(), listening, name);
    snprintf(wanted, sizeof wanted, "socket, descriptor %d", listening);
    CHECK(strcmp(name, wanted) == 0);
    spp_os_descriptor(spp_os_tid(), 999, name);
    CHECK(name[0] == 0);
}

int main(void) {
    char file[] = "/tmp/spprof-waits-XXXXXX";
    struct sockaddr_un any = {.sun_family = AF_UNIX};
    CHECK(spp_os_memory_init() == 0 && pipe(pipe_a) == 0 && pipe(pipe_b) == 0);
    listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(listening, (struct sockaddr *)&any, sizeof any.sun_family) == 0 && listen(listening, 1) == 0);
    locked = mkstemp(file);
    locked_again = open(file, O_RDWR | O_CLOEXEC);
    CHECK(locked >= 0 && locked_again >= 0 && flock(locked, LOCK_EX) == 0);
    semaphore = semget(IPC_PRIVATE, 1, 0600);
    (void)pthread_mutex_lock(&mutex);
    child = fork();
    if (child == 0) {
        for (;;) (void)pause();
    }
    for (size_t i = 0; i < CASES; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, run, (void *)i) == 0 && pthread_detach(thread) == 0);
    }
    has_registers = !check_valgrind();
    if (is_emulated() && has_registers)
        test_no_wait_is_claimed();
    else
        test_each_wait_is_known();
    test_descriptors_have_names(file);
    (void)semctl(semaphore, 0, IPC_RMID);
    (void)kill(child, SIGKILL);
    (void)unlink(file);
    return check_done();
}
#else
int main(void) { return check_done(); }
#endif
