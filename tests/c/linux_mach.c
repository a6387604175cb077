/* Mach's calls over Linux's threads: thread_suspend sends a signal whose handler waits. So what macOS runs of spprof samples a
 * real CPython here (tools/matrix --mach), and the tests of stacks and threads check that it does so rightly. Nothing is said
 * of macOS itself by that: its kernel's time, its loader and its libraries are others.
 *
 * No lock: a program's thread may be suspended anywhere, here too. */
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "os/darwin/mach.h"
#include "os/darwin/machine.h"

#undef pthread_key_create
#undef pthread_key_delete
#undef pthread_getspecific
#undef pthread_setspecific
#undef pthread_setname_np

#define FIRST_KEY 256u /* as on macOS */
#define KEYS 64u       /* CPython's own is among the first */
#define LIST_BYTES ((size_t)65536)

enum { RUNS, ASKED, SUSPENDED };
typedef struct {
    _Atomic int32_t tid;    /* 0: free */
    _Atomic int32_t rights; /* to its port */
    _Atomic uint32_t state;
    const ucontext_t *at;
    uintptr_t slots[FIRST_KEY + KEYS + 512];
    uintptr_t block[2]; /* of thread-local variables: one is CPython's state of the thread */
} record;
#define BLOCK_KEY (FIRST_KEY + KEYS)
#define BLOCK_WORD 1
#define RECORDS 4096u
static record *records;

mach_port_t mach_task_self_ = 0x103;

static long call(long number, long a, long b, long c, long d) { return syscall(number, a, b, c, d, 0, 0); }
static int32_t own_tid(void) { return (int32_t)syscall(SYS_gettid); }
static int signal_number(void) { return SIGRTMAX - 3; }
static bool is_alive(int32_t tid) { return tid > 0 && call(SYS_tgkill, getpid(), tid, 0, 0) == 0; }

static mach_port_t port_of(const record *r) { return (mach_port_t)(r - records) * 16 + 7; }
static record *record_of(mach_port_t port) {
    return records != NULL && port % 16 == 7 && port / 16 < RECORDS ? &records[port / 16] : NULL;
}

static record *find(int32_t tid) {
    for (uint32_t i = 0; i < RECORDS; i++) {
        record *r = &records[((uint32_t)tid + i) % RECORDS];
        if (atomic_load(&r->tid) == tid) return r;
    }
    return NULL;
}

static void wait_while(_Atomic uint32_t *word, uint32_t value, long ns) {
    struct timespec most = {0, ns};
    if (atomic_load(word) == value) call(SYS_futex, (long)word, FUTEX_WAIT_PRIVATE, value, ns ? (long)&most : 0);
}

static void wake(_Atomic uint32_t *word) { call(SYS_futex, (long)word, FUTEX_WAKE_PRIVATE, 64, 0); }

static void *(*state_of_caller)(void);

static void fill(record *r) {
    r->slots[0] = (uintptr_t)pthread_self();
    for (uint32_t k = 0; k < KEYS; k++) r->slots[FIRST_KEY + k] = (uintptr_t)pthread_getspecific(k);
    r->block[BLOCK_WORD] = state_of_caller != NULL ? (uintptr_t)state_of_caller() : 0;
    r->slots[BLOCK_KEY] = (uintptr_t)r->block;
}

/* Stands until it is resumed. */
static void on_signal(int signum, siginfo_t *info, void *at) {
    int saved = errno;
    record *r = find(own_tid());
    (void)signum, (void)info;
    if (r != NULL && atomic_load(&r->state) == ASKED) {
        r->at = at;
        fill(r);
        atomic_store(&r->state, SUSPENDED);
        wake(&r->state);
        while (atomic_load(&r->state) == SUSPENDED) wait_while(&r->state, SUSPENDED, 0);
    }
    errno = saved;
}

static void begin(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(signal_number(), &action, NULL);
    void *pages =
        mmap(NULL, RECORDS * sizeof *records, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pages == MAP_FAILED) abort();
    records = pages;
    void *found = dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState");
    memcpy(&state_of_caller, &found, sizeof found);
}

static void in_child(void) {
    for (uint32_t i = 0; i < RECORDS; i++) records[i].tid = records[i].rights = 0;
}

static void begin_once(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    static _Atomic bool set;
    pthread_once(&once, begin);
    if (!atomic_exchange(&set, true)) pthread_atfork(NULL, NULL, in_child);
}

/* One right more to a thread's port, which is made if there is none. */
static record *with_right(int32_t tid) {
    record *r = find(tid);
    for (uint32_t i = 0; r == NULL && i < RECORDS; i++) {
        record *free_one = &records[((uint32_t)tid + i) % RECORDS];
        int32_t none = 0;
        if (!atomic_compare_exchange_strong(&free_one->tid, &none, tid)) continue;
        atomic_store(&free_one->state, RUNS);
        free_one->slots[0] = 0;
        r = free_one;
    }
    if (r == NULL) abort();
    atomic_fetch_add(&r->rights, 1);
    return r;
}

mach_port_t mach_thread_self(void) {
    begin_once();
    return port_of(with_right(own_tid()));
}

kern_return_t mach_port_deallocate(task_t task, mach_port_name_t name) {
    record *r = record_of(name);
    (void)task;
    if (r == NULL || atomic_load(&r->rights) == 0) return KERN_INVALID_NAME;
    if (atomic_fetch_sub(&r->rights, 1) == 1) atomic_store(&r->tid, 0);
    return KERN_SUCCESS;
}

kern_return_t mach_port_mod_refs(task_t task, mach_port_name_t name, mach_port_right_t right, mach_port_delta_t delta) {
    record *r = record_of(name);
    (void)task, (void)right;
    if (r == NULL || !is_alive(r->tid)) return KERN_INVALID_RIGHT;
    atomic_fetch_add(&r->rights, delta);
    return KERN_SUCCESS;
}

struct linux_dirent64 {
    uint64_t ino;
    int64_t off;
    uint16_t reclen;
    uint8_t type;
    char name[];
};

kern_return_t task_threads(task_t task, thread_act_array_t *list, mach_msg_type_number_t *n) {
    (void)task;
    begin_once();
    FILE *dir = fopen("/proc/self/task", "re");
    if (dir == NULL) return KERN_FAILURE;
    *list = malloc(LIST_BYTES);
    *n = 0;
    char entries[8192];
    long got;
    while (*list != NULL && (got = call(SYS_getdents64, fileno(dir), (long)entries, sizeof entries, 0)) > 0) {
        for (long at = 0; at < got;) {
            const struct linux_dirent64 *entry = (const void *)(entries + at);
            int32_t tid = (int32_t)strtol(entry->name, NULL, 10);
            if (tid > 0 && (*n + 1) * sizeof **list <= LIST_BYTES) (*list)[(*n)++] = port_of(with_right(tid));
            at += entry->reclen;
        }
    }
    fclose(dir);
    return *list != NULL ? KERN_SUCCESS : KERN_RESOURCE_SHORTAGE;
}

kern_return_t vm_deallocate(vm_map_t task, vm_address_t at, vm_size_t n) {
    (void)task, (void)n;
    free((void *)at);
    return KERN_SUCCESS;
}

/* A thread that blocks the signal, or ends with it, is given up after a second. */
kern_return_t thread_suspend(thread_act_t port) {
    record *r = record_of(port);
    int32_t tid = r != NULL ? atomic_load(&r->tid) : 0;
    if (!is_alive(tid)) return KERN_TERMINATED;
    atomic_store(&r->state, ASKED);
    if (call(SYS_tgkill, getpid(), tid, signal_number(), 0) != 0) return KERN_TERMINATED;
    for (int i = 0; i < 100; i++) {
        wait_while(&r->state, ASKED, 10000000);
        if (atomic_load(&r->state) == SUSPENDED) return KERN_SUCCESS;
        if (!is_alive(tid)) break;
    }
    uint32_t asked = ASKED;
    if (!atomic_compare_exchange_strong(&r->state, &asked, RUNS)) return KERN_SUCCESS;
    return is_alive(tid) ? KERN_ABORTED : KERN_TERMINATED;
}

kern_return_t thread_resume(thread_act_t port) {
    record *r = record_of(port);
    uint32_t held = SUSPENDED;
    if (r == NULL) return KERN_INVALID_ARGUMENT;
    if (!atomic_compare_exchange_strong(&r->state, &held, RUNS)) return KERN_FAILURE;
    wake(&r->state);
    return KERN_SUCCESS;
}

/* xnu suspends a thread that runs, for as long as it reads (osfmk/kern/thread_act.c). */
kern_return_t thread_get_state(thread_act_t port, thread_state_flavor_t flavor, thread_state_t to, mach_msg_type_number_t *n) {
    const record *r = record_of(port);
    thread_state state;
    if (r == NULL || flavor != STATE_FLAVOR || *n < STATE_WORDS) return KERN_INVALID_ARGUMENT;
    bool runs_on = atomic_load(&r->state) != SUSPENDED;
    kern_return_t failed = runs_on ? thread_suspend(port) : KERN_SUCCESS;
    if (failed != KERN_SUCCESS) return failed;
    memset(&state, 0, sizeof state);
#ifdef __x86_64__
    const greg_t *from = r->at->uc_mcontext.gregs;
    state.__rip = (uint64_t)from[REG_RIP];
    state.__rsp = (uint64_t)from[REG_RSP];
    state.__rbp = (uint64_t)from[REG_RBP];
    state.__rbx = (uint64_t)from[REG_RBX];
#else
    state.__pc = r->at->uc_mcontext.pc;
    state.__sp = r->at->uc_mcontext.sp;
    state.__fp = r->at->uc_mcontext.regs[29];
    state.__lr = r->at->uc_mcontext.regs[30];
#endif
    memcpy(to, &state, sizeof state);
    if (runs_on) (void)thread_resume(port);
    return KERN_SUCCESS;
}

/* What /proc says of its state: the letter behind its name, which may have parentheses. */
static bool runs(int32_t tid) {
    char path[48], text[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
    FILE *file = fopen(path, "re");
    size_t n = file != NULL ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file != NULL) fclose(file);
    text[n] = 0;
    const char *end = strrchr(text, ')');
    return end != NULL && end[1] != 0 && end[2] == 'R';
}

/* Called while a thread is suspended too, so then nothing is opened: it does not run. */
static kern_return_t basic(const record *r, thread_info_t to) {
    struct timespec t;
    thread_basic_info_data_t info;
    int32_t tid = atomic_load(&r->tid);
    memset(&info, 0, sizeof info);
    if (clock_gettime((clockid_t)((~(uint32_t)tid << 3) | 6u), &t) != 0) return KERN_TERMINATED;
    info.user_time.seconds = (integer_t)t.tv_sec;
    info.user_time.microseconds = (integer_t)(t.tv_nsec / 1000);
    info.run_state = atomic_load(&r->state) == RUNS && runs(tid) ? TH_STATE_RUNNING : TH_STATE_WAITING;
    memcpy(to, &info, sizeof info);
    return KERN_SUCCESS;
}

/* As spprof's own threads do. */
static bool blocks_signals(int32_t tid) {
    char path[48], line[256];
    uint64_t mask = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "SigBlk:", 7) == 0) mask = strtoull(line + 7, NULL, 16);
    }
    if (file != NULL) fclose(file);
    return mask >> (signal_number() - 1) & 1;
}

kern_return_t thread_info(thread_act_t port, thread_flavor_t flavor, thread_info_t to, mach_msg_type_number_t *n) {
    record *r = record_of(port);
    int32_t tid = r != NULL ? atomic_load(&r->tid) : 0;
    (void)n;
    if (!is_alive(tid)) return KERN_TERMINATED;
    if (flavor == THREAD_BASIC_INFO) return basic(r, to);
    if (flavor == THREAD_IDENTIFIER_INFO) {
        thread_identifier_info_data_t info = {(uint64_t)tid, (uint64_t)(uintptr_t)r->slots, 0};
        if (tid == own_tid()) {
            fill(r);
        } else if (r->slots[0] == 0 && !blocks_signals(tid) &&
                   thread_suspend(port) == KERN_SUCCESS) { /* it gives its pthread_t itself */
            (void)thread_resume(port);
        }
        memcpy(to, &info, sizeof info);
        return KERN_SUCCESS;
    }
    thread_extended_info_data_t info;
    char path[48];
    memset(&info, 0, sizeof info);
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", tid);
    FILE *file = fopen(path, "re");
    if (file != NULL && fgets(info.pth_name, sizeof info.pth_name, file) != NULL) info.pth_name[strcspn(info.pth_name, "\n")] = 0;
    if (file != NULL) fclose(file);
    memcpy(to, &info, sizeof info);
    return KERN_SUCCESS;
}

int fake_threadid(const void *thread, uint64_t *id) {
    (void)thread;
    *id = (uint64_t)own_tid();
    return 0;
}

int fake_setname(const char *name) { return pthread_setname_np(pthread_self(), name); }
int pthread_set_qos_class_self_np(qos_class_t class, int relative) {
    return class == QOS_CLASS_USER_INTERACTIVE ? relative : EINVAL;
}

int fake_key_create(pthread_key_t *key, void (*end)(void *)) {
    int failed = pthread_key_create(key, end);
    *key += FIRST_KEY;
    return failed;
}

int fake_key_delete(pthread_key_t key) { return pthread_key_delete(key - FIRST_KEY); }

void *fake_getspecific(pthread_key_t key) {
    if (key >= FIRST_KEY && key < BLOCK_KEY) return pthread_getspecific(key - FIRST_KEY);
    if (key != BLOCK_KEY) return NULL;
    begin_once();
    record *r = find(own_tid());
    if (r == NULL) r = with_right(own_tid()); /* it stays */
    fill(r);
    return r->block;
}

int fake_setspecific(pthread_key_t key, const void *value) {
    record *r = find(own_tid());
    if (r != NULL) r->slots[key] = (uintptr_t)value;
    return pthread_setspecific(key - FIRST_KEY, value);
}

static _Atomic(pthread_introspection_hook_t) hook;

pthread_introspection_hook_t pthread_introspection_hook_install(pthread_introspection_hook_t to) {
    atomic_store(&hook, to);
    return NULL;
}

/* Linux does not report when threads begin and end, but how many there are; read by the thread that sleeps for the next tick. */
static void notice(void) {
    static _Atomic uint64_t before;
    struct stat st;
    pthread_introspection_hook_t set = atomic_load(&hook);
    uint64_t n = stat("/proc/self/task", &st) == 0 ? (uint64_t)st.st_nlink : 0;
    if (set != NULL && atomic_exchange(&before, n) != n) set(SPP_INTROSPECTION_START, pthread_self(), NULL, 0);
}

kern_return_t mach_vm_read_overwrite(vm_map_t task, mach_vm_address_t from, mach_vm_size_t n, mach_vm_address_t to,
                                     mach_vm_size_t *got) {
    struct iovec local = {(void *)(uintptr_t)to, (size_t)n}, remote = {(void *)(uintptr_t)from, (size_t)n};
    (void)task;
    *got = n;
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)n ? KERN_SUCCESS : KERN_INVALID_ADDRESS;
}

kern_return_t mach_vm_region(vm_map_t task, mach_vm_address_t *at, mach_vm_size_t *n, vm_region_flavor_t flavor,
                             vm_region_info_t info, mach_msg_type_number_t *info_n, mach_port_t *object) {
    kern_return_t failed = KERN_INVALID_ADDRESS;
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "re");
    (void)task, (void)flavor, (void)info, (void)info_n;
    *object = MACH_PORT_NULL;
    while (failed != KERN_SUCCESS && maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        char *dash;
        uintptr_t low = strtoull(line, &dash, 16), end = strtoull(dash + 1, NULL, 16);
        if (end <= *at) continue;
        *at = low;
        *n = end - low;
        failed = KERN_SUCCESS;
    }
    if (maps != NULL) fclose(maps);
    return failed;
}

int fake_getpath(int fd, char *to) {
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, to, 1023);
    if (n > 0) to[n] = 0;
    return n > 0 ? 0 : -1;
}

uint64_t mach_absolute_time(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

kern_return_t mach_timebase_info(mach_timebase_info_data_t *info) {
    info->numer = info->denom = 1;
    return KERN_SUCCESS;
}

kern_return_t mach_wait_until(uint64_t deadline) {
    struct timespec t = {(time_t)(deadline / 1000000000u), (long)(deadline % 1000000000u)};
    notice();
    return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == 0 ? KERN_SUCCESS : KERN_ABORTED;
}

static _Atomic uint32_t signals;

kern_return_t semaphore_create(task_t task, semaphore_t *semaphore, int policy, int value) {
    (void)task, (void)policy, (void)value;
    *semaphore = 0x55;
    return KERN_SUCCESS;
}

kern_return_t semaphore_signal(semaphore_t semaphore) {
    (void)semaphore;
    atomic_fetch_add(&signals, 1);
    wake(&signals);
    return KERN_SUCCESS;
}

kern_return_t semaphore_timedwait(semaphore_t semaphore, mach_timespec_t t) {
    (void)semaphore;
    uint64_t until = mach_absolute_time() + (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    for (;;) {
        uint32_t n = atomic_load(&signals);
        if (n > 0 && atomic_compare_exchange_strong(&signals, &n, n - 1)) return KERN_SUCCESS;
        uint64_t now = mach_absolute_time();
        if (now >= until) return KERN_OPERATION_TIMED_OUT;
        if (n == 0) wait_while(&signals, 0, until - now < 100000000 ? (long)(until - now) : 100000000);
    }
}

/* No images: native frames are not shown. */
kern_return_t task_info(task_t task, task_flavor_t flavor, task_info_t to, mach_msg_type_number_t *n) {
    (void)task, (void)flavor, (void)to, (void)n;
    return KERN_INVALID_ARGUMENT;
}
uint32_t _dyld_image_count(void) { return 0; }
const struct mach_header *_dyld_get_image_header(uint32_t i) { return i > 0 ? NULL : NULL; }
intptr_t _dyld_get_image_vmaddr_slide(uint32_t i) { return (intptr_t)(i & 0); }
const char *_dyld_get_image_name(uint32_t i) { return i > 0 ? NULL : NULL; }
void _dyld_register_func_for_add_image(void (*see)(const struct mach_header *, intptr_t)) { (void)see; }
void _dyld_register_func_for_remove_image(void (*see)(const struct mach_header *, intptr_t)) { (void)see; }
