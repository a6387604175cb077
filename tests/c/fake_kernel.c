#include "fake_kernel.h"
#undef fcntl
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#undef pthread_key_create
#undef pthread_key_delete
#undef pthread_getspecific
#undef pthread_setspecific

const char *const fake_call_names[FAKE_CALLS_COUNT] = {
#define X(name) #name,
    FAKE_CALLS(X)
#undef X
};

mach_port_t mach_task_self_ = 0x103;
fake_thread fake_threads[FAKE_THREADS_MAX];
int fake_threads_n;
void (*fake_before)(fake_call call, fake_thread *thread);
void (*fake_after)(fake_call call, fake_thread *thread);

static pthread_mutex_t kernel = PTHREAD_MUTEX_INITIALIZER;
static int counts[FAKE_CALLS_COUNT], fail_nth[FAKE_CALLS_COUNT];
static kern_return_t fail_code[FAKE_CALLS_COUNT];
static bool fails[FAKE_CALLS_COUNT];
static long arrays, other_rights;
static int misuses;
static pthread_t suspender; /* that stopped a thread last */
static uint32_t next_port;
static uint64_t next_id = 6000000000u; /* beyond 32 bits: as after months; never that of a real thread, below */
static uint64_t scripted;              /* 0: the time is the real one */
static mach_timebase_info_data_t base = {1, 1};
static pthread_introspection_hook_t hook;

static void misuse(const char *what, fake_call call) {
    if (misuses++ < 20) printf("misuse: %s, in %s\n", what, fake_call_names[call]);
}

static fake_thread *thread_of(mach_port_t port) {
    for (int i = 0; i < fake_threads_n; i++) {
        if (fake_threads[i].port == port) return &fake_threads[i];
    }
    return NULL;
}

static int suspended_now(void) {
    int n = 0;
    for (int i = 0; i < fake_threads_n; i++) n += fake_threads[i].alive && fake_threads[i].suspended > 0;
    return n;
}

/* What may be called while a thread is suspended: whatever cannot wait for it. */
static bool is_allowed(fake_call call) {
    return call == FAKE_thread_get_state || call == FAKE_thread_info || call == FAKE_mach_vm_read_overwrite ||
           call == FAKE_thread_resume || call == FAKE_mach_port_mod_refs || call == FAKE_semaphore_signal;
}

/* Begins a call: true, with the kernel's lock, if it is not to fail. */
static bool enter(fake_call call, mach_port_t port, kern_return_t *failed) {
    if (fake_before != NULL) fake_before(call, thread_of(port)); /* one thread only, then */
    pthread_mutex_lock(&kernel);
    int n = ++counts[call];
    if (suspended_now() > 0 && pthread_equal(suspender, pthread_self()) && !is_allowed(call))
        misuse("a thread is suspended", call);
    if (!fails[call] || (fail_nth[call] != 0 && fail_nth[call] != n)) return true;
    *failed = fail_code[call];
    return false;
}

static kern_return_t leave(fake_call call, mach_port_t port, kern_return_t result) {
    pthread_mutex_unlock(&kernel);
    if (fake_after != NULL) fake_after(call, thread_of(port));
    return result;
}

/* The living thread with this port, to which we have a right; else why not. */
static fake_thread *target(fake_call call, mach_port_t port, kern_return_t *failed) {
    fake_thread *t = thread_of(port);
    if (t == NULL || t->rights == 0) {
        misuse("a name without a right", call);
        *failed = MACH_SEND_INVALID_DEST;
        return NULL;
    }
    if (!t->alive) *failed = KERN_TERMINATED;
    return t->alive ? t : NULL;
}

/* ---- the script */

static fake_thread *make(bool self) {
    fake_thread *t = &fake_threads[fake_threads_n];
    memset(t, 0, sizeof *t);
    t->port = next_port += 0x100;
    t->id = self ? (uint64_t)syscall(SYS_gettid) + 5000000000u : (next_id += 7);
    t->alive = true;
    t->self = self;
    t->run_state = self ? TH_STATE_RUNNING : TH_STATE_WAITING;
    t->slots[0] = self ? (uintptr_t)pthread_self() : (uintptr_t)t;
    fake_threads_n++;
    return t;
}

static fake_thread *self(void) { return &fake_threads[0]; }

void fake_reset(void) {
    /* Rights that the table of threads.c holds stay: the threads die, and the next listing gives them back. */
    fake_before = fake_after = NULL;
    fake_fail_no_more();
    pthread_mutex_lock(&kernel);
    if (fake_threads_n == 0) (void)make(true);
    int kept = 1;
    for (int i = 1; i < fake_threads_n; i++) {
        if (fake_threads[i].rights == 0) continue;
        fake_threads[kept] = fake_threads[i];
        fake_threads[kept].alive = false;
        fake_threads[kept++].suspended = 0;
    }
    fake_threads_n = kept;
    memset(counts, 0, sizeof counts);
    misuses = 0;
    scripted = 0;
    pthread_mutex_unlock(&kernel);
}

fake_thread *fake_start(uint64_t cpu_us) {
    pthread_mutex_lock(&kernel);
    fake_thread *t = make(false);
    t->cpu_us = cpu_us;
    snprintf(t->name, sizeof t->name, "thread %llu", (unsigned long long)t->id);
    pthread_mutex_unlock(&kernel);
    if (hook != NULL) hook(SPP_INTROSPECTION_CREATE, pthread_self(), NULL, 0);
    if (hook != NULL) hook(SPP_INTROSPECTION_START, pthread_self(), NULL, 0);
    return t;
}

void fake_die(fake_thread *t) {
    pthread_mutex_lock(&kernel);
    t->alive = false;
    t->suspended = 0;
    pthread_mutex_unlock(&kernel);
    if (hook != NULL) hook(SPP_INTROSPECTION_TERMINATE, pthread_self(), NULL, 0);
    if (hook != NULL) hook(SPP_INTROSPECTION_DESTROY, pthread_self(), NULL, 0);
}

void fake_fail(fake_call call, int nth, kern_return_t code) {
    pthread_mutex_lock(&kernel);
    fails[call] = true;
    fail_nth[call] = nth == 0 ? 0 : counts[call] + nth;
    fail_code[call] = code;
    pthread_mutex_unlock(&kernel);
}

void fake_fail_no_more(void) {
    pthread_mutex_lock(&kernel);
    memset(fails, 0, sizeof fails);
    pthread_mutex_unlock(&kernel);
}

static long read_long(const long *from) {
    pthread_mutex_lock(&kernel);
    long value = *from;
    pthread_mutex_unlock(&kernel);
    return value;
}

int fake_count(fake_call call) {
    pthread_mutex_lock(&kernel);
    int n = counts[call];
    pthread_mutex_unlock(&kernel);
    return n;
}

long fake_rights(void) {
    long n = read_long(&other_rights);
    for (int i = 0; i < fake_threads_n; i++) n += fake_threads[i].rights;
    return n;
}

long fake_arrays(void) { return read_long(&arrays); }
int fake_suspended(void) {
    pthread_mutex_lock(&kernel);
    int n = suspended_now();
    pthread_mutex_unlock(&kernel);
    return n;
}
int fake_misuses(void) { return misuses; }

/* ---- ports */

mach_port_t mach_thread_self(void) {
    kern_return_t failed;
    mach_port_t port = MACH_PORT_NULL;
    if (enter(FAKE_mach_thread_self, MACH_PORT_NULL, &failed)) {
        port = self()->port;
        self()->rights++;
    }
    leave(FAKE_mach_thread_self, MACH_PORT_NULL, KERN_SUCCESS);
    return port;
}

kern_return_t mach_port_deallocate(task_t task, mach_port_name_t name) {
    kern_return_t failed = KERN_SUCCESS;
    if (enter(FAKE_mach_port_deallocate, name, &failed)) {
        fake_thread *t = thread_of(name);
        if (task != mach_task_self_) misuse("another task", FAKE_mach_port_deallocate);
        if (t != NULL && t->rights > 0) {
            t->rights--;
        } else if (name == 0x99 && other_rights > 0) {
            other_rights--;
        } else if (name != MACH_PORT_NULL) {
            misuse("a right that is not ours is given back", FAKE_mach_port_deallocate);
            failed = KERN_INVALID_NAME;
        }
    }
    return leave(FAKE_mach_port_deallocate, name, failed);
}

kern_return_t mach_port_mod_refs(task_t task, mach_port_name_t name, mach_port_right_t right, mach_port_delta_t delta) {
    kern_return_t failed = KERN_SUCCESS;
    if (enter(FAKE_mach_port_mod_refs, name, &failed)) {
        fake_thread *t = thread_of(name);
        if (task != mach_task_self_ || right != MACH_PORT_RIGHT_SEND || delta != 1) misuse("not meant", FAKE_mach_port_mod_refs);
        if (t == NULL || t->rights == 0) {
            misuse("a name without a right", FAKE_mach_port_mod_refs);
            failed = KERN_INVALID_NAME;
        } else if (!t->alive) {
            failed = KERN_INVALID_RIGHT;
        } else {
            t->rights++;
        }
    }
    return leave(FAKE_mach_port_mod_refs, name, failed);
}

/* ---- threads */

kern_return_t task_threads(task_t task, thread_act_array_t *list, mach_msg_type_number_t *n) {
    kern_return_t failed = KERN_SUCCESS;
    if (enter(FAKE_task_threads, MACH_PORT_NULL, &failed)) {
        if (task != mach_task_self_) misuse("another task", FAKE_task_threads);
        *list = calloc(FAKE_THREADS_MAX, sizeof **list);
        *n = 0;
        arrays++;
        for (int i = 0; i < fake_threads_n; i++) {
            if (!fake_threads[i].alive) continue;
            fake_threads[i].rights++;
            (*list)[(*n)++] = fake_threads[i].port;
        }
    }
    return leave(FAKE_task_threads, MACH_PORT_NULL, failed);
}

kern_return_t thread_suspend(thread_act_t port) {
    kern_return_t failed = KERN_SUCCESS;
    if (enter(FAKE_thread_suspend, port, &failed)) {
        fake_thread *t = target(FAKE_thread_suspend, port, &failed);
        if (t != NULL && t->self) misuse("the caller suspends itself", FAKE_thread_suspend);
        if (t != NULL) t->suspended++;
        if (t != NULL) suspender = pthread_self();
    }
    return leave(FAKE_thread_suspend, port, failed);
}

kern_return_t thread_resume(thread_act_t port) {
    kern_return_t failed = KERN_SUCCESS;
    if (enter(FAKE_thread_resume, port, &failed)) {
        fake_thread *t = target(FAKE_thread_resume, port, &failed);
        if (t != NULL && t->suspended == 0) failed = KERN_FAILURE;
        if (t != NULL && t->suspended > 0) t->suspended--;
    }
    return leave(FAKE_thread_resume, port, failed);
}

kern_return_t thread_get_state(thread_act_t port, thread_state_flavor_t flavor, thread_state_t to, mach_msg_type_number_t *n) {
    kern_return_t failed = KERN_SUCCESS;
    if (enter(FAKE_thread_get_state, port, &failed)) {
        fake_thread *t = target(FAKE_thread_get_state, port, &failed);
        if (t != NULL && (flavor != STATE_FLAVOR || *n < STATE_WORDS)) failed = KERN_INVALID_ARGUMENT;
        if (failed == KERN_SUCCESS) {
            memcpy(to, &t->registers, sizeof t->registers);
            *n = STATE_WORDS;
        }
    }
    return leave(FAKE_thread_get_state, port, failed);
}

kern_return_t thread_info(thread_act_t port, thread_flavor_t flavor, thread_info_t to, mach_msg_type_number_t *n) {
    kern_return_t failed = KERN_SUCCESS;
    if (!enter(FAKE_thread_info, port, &failed)) return leave(FAKE_thread_info, port, failed);
    fake_thread *t = target(FAKE_thread_info, port, &failed);
    if (t != NULL && flavor == THREAD_BASIC_INFO && *n == THREAD_BASIC_INFO_COUNT) {
        thread_basic_info_data_t info;
        memset(&info, 0, sizeof info);
        info.user_time.seconds = (integer_t)(t->cpu_us / 2 / 1000000);
        info.user_time.microseconds = (integer_t)(t->cpu_us / 2 % 1000000);
        uint64_t system = t->cpu_us - t->cpu_us / 2;
        info.system_time.seconds = (integer_t)(system / 1000000);
        info.system_time.microseconds = (integer_t)(system % 1000000);
        info.run_state = t->run_state;
        memcpy(to, &info, sizeof info);
    } else if (t != NULL && flavor == THREAD_IDENTIFIER_INFO && *n == THREAD_IDENTIFIER_INFO_COUNT) {
        thread_identifier_info_data_t info = {t->id, (uint64_t)(uintptr_t)t->slots, 0};
        memcpy(to, &info, sizeof info);
    } else if (t != NULL && flavor == THREAD_EXTENDED_INFO && *n == THREAD_EXTENDED_INFO_COUNT) {
        thread_extended_info_data_t info;
        memset(&info, 0, sizeof info);
        memcpy(info.pth_name, t->name, sizeof info.pth_name);
        memcpy(to, &info, sizeof info);
    } else if (t != NULL) {
        misuse("a flavor or a count", FAKE_thread_info);
        failed = KERN_INVALID_ARGUMENT;
    }
    return leave(FAKE_thread_info, port, failed);
}

int fake_threadid(const void *thread, uint64_t *id) {
    kern_return_t failed = 0;
    (void)thread;
    if (enter(FAKE_pthread_threadid_np, MACH_PORT_NULL, &failed)) *id = (uint64_t)syscall(SYS_gettid) + 5000000000u;
    return leave(FAKE_pthread_threadid_np, MACH_PORT_NULL, failed);
}

#define FIRST_KEY 256u

int fake_key_create(pthread_key_t *key, void (*end)(void *)) {
    int failed = pthread_key_create(key, end);
    *key += FIRST_KEY;
    return failed;
}

int fake_key_delete(pthread_key_t key) { return pthread_key_delete(key - FIRST_KEY); }
void *fake_getspecific(pthread_key_t key) { return key >= FIRST_KEY ? pthread_getspecific(key - FIRST_KEY) : NULL; }

/* Where thread_info says that the slots lie, too. */
int fake_setspecific(pthread_key_t key, const void *value) {
    self()->slots[key] = (uintptr_t)value;
    return pthread_setspecific(key - FIRST_KEY, value);
}

int fake_setname(const char *name) {
    (void)name;
    return 0;
}

int pthread_set_qos_class_self_np(qos_class_t class, int relative) {
    kern_return_t failed = 0;
    if (enter(FAKE_pthread_set_qos_class_self_np, MACH_PORT_NULL, &failed) &&
        (class != QOS_CLASS_USER_INTERACTIVE || relative != 0)) {
        misuse("not meant", FAKE_pthread_set_qos_class_self_np);
    }
    return leave(FAKE_pthread_set_qos_class_self_np, MACH_PORT_NULL, failed);
}

pthread_introspection_hook_t pthread_introspection_hook_install(pthread_introspection_hook_t new) {
    pthread_introspection_hook_t before = hook;
    hook = new;
    return before;
}

/* ---- memory: this process's, by a read that cannot fault */

/* Through a pipe: the system answers where a plain read would fault, and qemu does so too. Past AddressSanitizer, for what is
 * read may lie beyond the end of an object. */
static bool copy(void *to, const void *from, size_t n) {
    static int ends[2] = {-1, -1};
    if (ends[0] < 0 && pipe(ends) != 0) return false;
    for (size_t done = 0, part; done < n; done += part) {
        part = n - done < 4096 ? n - done : 4096;
        if (syscall(SYS_write, ends[1], (const char *)from + done, part) != (long)part) { /* what came of it is not left there */
            int flags = fcntl(ends[0], F_GETFL);
            char rest[4096];
            fcntl(ends[0], F_SETFL, flags | O_NONBLOCK);
            while (read(ends[0], rest, sizeof rest) > 0) {}
            fcntl(ends[0], F_SETFL, flags);
            return false;
        }
        if (syscall(SYS_read, ends[0], (char *)to + done, part) != (long)part) return false;
    }
    return true;
}

kern_return_t mach_vm_read_overwrite(vm_map_t task, mach_vm_address_t from, mach_vm_size_t n, mach_vm_address_t to,
                                     mach_vm_size_t *got) {
    kern_return_t failed = KERN_SUCCESS;
    if (enter(FAKE_mach_vm_read_overwrite, MACH_PORT_NULL, &failed)) {
        if (task != mach_task_self_) misuse("another task", FAKE_mach_vm_read_overwrite);
        *got = n;
        if (!copy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, (size_t)n)) failed = KERN_INVALID_ADDRESS;
    }
    return leave(FAKE_mach_vm_read_overwrite, MACH_PORT_NULL, failed);
}

kern_return_t vm_deallocate(vm_map_t task, vm_address_t at, vm_size_t n) {
    kern_return_t failed = KERN_SUCCESS;
    if (enter(FAKE_vm_deallocate, MACH_PORT_NULL, &failed)) {
        if (task != mach_task_self_ || n % sizeof(mach_port_t) != 0) misuse("not meant", FAKE_vm_deallocate);
        free((void *)at);
        arrays--;
    }
    return leave(FAKE_vm_deallocate, MACH_PORT_NULL, failed);
}

/* A line of a file, without allocating: that might fill the hole that is asked for. */
static bool next_line(int fd, char *line, size_t size) {
    size_t n = 0;
    for (char c; read(fd, &c, 1) == 1 && c != '\n';) {
        if (n + 1 < size) line[n++] = c;
    }
    line[n] = 0;
    return n > 0;
}

/* Its answer is /proc/self/maps: the region that holds *at, or the next one. */
kern_return_t mach_vm_region(vm_map_t task, mach_vm_address_t *at, mach_vm_size_t *n, vm_region_flavor_t flavor,
                             vm_region_info_t info, mach_msg_type_number_t *info_n, mach_port_t *object) {
    kern_return_t failed = KERN_INVALID_ADDRESS;
    if (!enter(FAKE_mach_vm_region, MACH_PORT_NULL, &failed)) return leave(FAKE_mach_vm_region, MACH_PORT_NULL, failed);
    char line[512];
    int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (task != mach_task_self_ || flavor != VM_REGION_BASIC_INFO_64 || *info_n < VM_REGION_BASIC_INFO_COUNT_64) {
        misuse("a flavor or a count", FAKE_mach_vm_region);
    }
    memset(info, 0, VM_REGION_BASIC_INFO_COUNT_64 * sizeof *info);
    while (failed != KERN_SUCCESS && next_line(maps, line, sizeof line)) {
        char *dash;
        uintptr_t low = strtoull(line, &dash, 16), end = strtoull(dash + 1, NULL, 16);
        if (end <= *at) continue;
        *at = low;
        *n = end - low;
        *object = 0x99; /* a right, as old kernels gave */
        other_rights++;
        failed = KERN_SUCCESS;
    }
    close(maps);
    return leave(FAKE_mach_vm_region, MACH_PORT_NULL, failed);
}

int fake_getpath(int fd, char *to) {
    kern_return_t failed = -1;
    char link[40];
    if (enter(FAKE_fcntl, MACH_PORT_NULL, &failed)) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, to, 1023);
        failed = n > 0 ? 0 : -1;
        if (n > 0) to[n] = 0;
    }
    return leave(FAKE_fcntl, MACH_PORT_NULL, failed);
}

/* ---- time */

void fake_script_time(uint64_t ticks) {
    pthread_mutex_lock(&kernel);
    scripted = ticks;
    pthread_mutex_unlock(&kernel);
}

void fake_timebase(uint32_t numer, uint32_t denom) { base = (mach_timebase_info_data_t){numer, denom}; }

static uint64_t real_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t mach_absolute_time(void) {
    pthread_mutex_lock(&kernel);
    uint64_t now = scripted != 0 ? scripted : real_ns() * base.denom / base.numer;
    pthread_mutex_unlock(&kernel);
    return now;
}

kern_return_t mach_timebase_info(mach_timebase_info_data_t *info) {
    kern_return_t failed = KERN_SUCCESS;
    if (enter(FAKE_mach_timebase_info, MACH_PORT_NULL, &failed)) *info = base;
    return leave(FAKE_mach_timebase_info, MACH_PORT_NULL, failed);
}

static void wait_ns(uint64_t ns) {
    struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    nanosleep(&t, NULL);
}

kern_return_t mach_wait_until(uint64_t deadline) {
    kern_return_t failed = KERN_SUCCESS;
    if (!enter(FAKE_mach_wait_until, MACH_PORT_NULL, &failed)) return leave(FAKE_mach_wait_until, MACH_PORT_NULL, failed);
    uint64_t now = scripted;
    if (now != 0 && scripted < deadline) scripted = deadline;
    (void)leave(FAKE_mach_wait_until, MACH_PORT_NULL, KERN_SUCCESS);
    if (now == 0) {
        now = mach_absolute_time();
        if (deadline > now) wait_ns((deadline - now) * base.numer / base.denom);
    }
    return KERN_SUCCESS;
}

static _Atomic int signals;
static _Atomic bool made;

kern_return_t semaphore_create(task_t task, semaphore_t *semaphore, int policy, int value) {
    kern_return_t failed = KERN_SUCCESS;
    if (enter(FAKE_semaphore_create, MACH_PORT_NULL, &failed)) {
        if (task != mach_task_self_ || policy != SYNC_POLICY_FIFO) misuse("not meant", FAKE_semaphore_create);
        *semaphore = 0x55;
        atomic_store(&signals, value);
        atomic_store(&made, true);
    }
    return leave(FAKE_semaphore_create, MACH_PORT_NULL, failed);
}

kern_return_t semaphore_signal(semaphore_t semaphore) {
    kern_return_t failed = KERN_SUCCESS;
    if (enter(FAKE_semaphore_signal, MACH_PORT_NULL, &failed)) {
        if (semaphore != 0x55 || !atomic_load(&made)) misuse("no semaphore", FAKE_semaphore_signal);
        atomic_fetch_add(&signals, 1);
    }
    return leave(FAKE_semaphore_signal, MACH_PORT_NULL, failed);
}

kern_return_t semaphore_timedwait(semaphore_t semaphore, mach_timespec_t t) {
    kern_return_t failed = KERN_OPERATION_TIMED_OUT;
    if (!enter(FAKE_semaphore_timedwait, MACH_PORT_NULL, &failed)) return leave(FAKE_semaphore_timedwait, MACH_PORT_NULL, failed);
    if (semaphore != 0x55 || !atomic_load(&made)) misuse("no semaphore", FAKE_semaphore_timedwait);
    uint64_t until = real_ns() + (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    if (scripted != 0) scripted += ((uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec) * base.denom / base.numer;
    bool wait = scripted == 0;
    (void)leave(FAKE_semaphore_timedwait, MACH_PORT_NULL, KERN_SUCCESS);
    do {
        int n = atomic_load(&signals);
        if (n > 0 && atomic_compare_exchange_strong(&signals, &n, n - 1)) return KERN_SUCCESS;
        if (wait) wait_ns(20000);
    } while (wait && real_ns() < until);
    return KERN_OPERATION_TIMED_OUT;
}

/* ---- images */

#define IMAGES_MAX 16
static struct {
    const void *header;
    intptr_t slide;
    const char *name;
} images[IMAGES_MAX];
static uint32_t images_n;
static void (*image_added)(const struct mach_header *, intptr_t), (*image_removed)(const struct mach_header *, intptr_t);

void fake_image(const void *header, intptr_t slide, const char *name) {
    images[images_n].header = header;
    images[images_n].slide = slide;
    images[images_n++].name = name;
    if (image_added != NULL) image_added(header, slide);
}

void fake_unload(int image) {
    const void *header = images[image].header;
    intptr_t slide = images[image].slide;
    images[image] = images[--images_n];
    if (image_removed != NULL) image_removed(header, slide);
}

static struct dyld_all_image_infos infos = {.version = 17};
static integer_t infos_format;

void fake_dyld(const void *header, integer_t format) {
    infos.dyldImageLoadAddress = header;
    infos_format = format;
}

kern_return_t task_info(task_t task, task_flavor_t flavor, task_info_t to, mach_msg_type_number_t *n) {
    kern_return_t failed = KERN_SUCCESS;
    if (enter(FAKE_task_info, MACH_PORT_NULL, &failed)) {
        if (task != mach_task_self_ || flavor != TASK_DYLD_INFO || *n != TASK_DYLD_INFO_COUNT) {
            misuse("a flavor or a count", FAKE_task_info);
        }
        task_dyld_info_data_t info = {(uint64_t)(uintptr_t)&infos, sizeof infos, infos_format};
        memcpy(to, &info, sizeof info);
    }
    return leave(FAKE_task_info, MACH_PORT_NULL, failed);
}

uint32_t _dyld_image_count(void) { return images_n; }
/* One that is gone by now is NULL, as dyld's. */
const struct mach_header *_dyld_get_image_header(uint32_t i) { return i < images_n ? images[i].header : NULL; }
intptr_t _dyld_get_image_vmaddr_slide(uint32_t i) { return i < images_n ? images[i].slide : 0; }
const char *_dyld_get_image_name(uint32_t i) { return i < images_n ? images[i].name : NULL; }

void _dyld_register_func_for_add_image(void (*see)(const struct mach_header *, intptr_t)) {
    image_added = see;
    for (uint32_t i = 0; i < images_n; i++) see(images[i].header, images[i].slide);
}

void _dyld_register_func_for_remove_image(void (*see)(const struct mach_header *, intptr_t)) { image_removed = see; }
