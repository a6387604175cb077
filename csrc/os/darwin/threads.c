/* Lists threads: the kernel has them all, and pthread calls us when one begins or ends. A thread's
 * tid is what threading.get_native_id returns, the kernel's number, which is not reused until the
 * machine restarts; here its lower 31 bits. */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/heap.h"
#include "base/map.h"
#include "base/utf8.h"
#include "os/clock.h"
#include "os/context.h"
#include "os/darwin/darwin.h"
#include "os/files.h"
#include "os/memory.h"
#include "os/posix/posix.h"
#include "os/suspend/suspend.h"
#include "os/threads.h"

typedef struct {
    int32_t tid;
    mach_port_t port;
    uintptr_t slots;   /* of pthread_getspecific: slot k lies at 8 * k */
    uintptr_t pthread; /* its pthread_t; 0: could not be read */
    uint64_t cpu_ns, returned_ns,
        seen_ns; /* CPU clock: as the kernel last gave it, as we last returned it, and when (monotonic) */
    bool listed; /* by the listing that goes on */
} thread;

static pthread_mutex_t lock;
static thread *table; /* under the lock, as all of these */
static uint32_t table_n, table_capacity;
static uint64_t listed_changes; /* what `changes` was at the last listing */
static spp_map by_port, by_tid; /* key: the number and 0 */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- notices */

static _Atomic uint64_t changes = 1;
static _Atomic(pthread_introspection_hook_t) hook_before;

/* On any thread, at its beginning or end: no lock, and nothing that could fail. */
static void on_thread(unsigned int event, pthread_t about, void *addr, size_t size) {
    if (event == SPP_INTROSPECTION_START || event == SPP_INTROSPECTION_TERMINATE) {
        atomic_fetch_add_explicit(&changes, 1, memory_order_relaxed);
    }
    pthread_introspection_hook_t before = atomic_load_explicit(&hook_before, memory_order_acquire);
    if (before != NULL) before(event, about, addr, size);
}

static void make_lock(void) {
    pthread_mutexattr_t again;
    pthread_mutexattr_init(&again);
    pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &again);
    pthread_mutexattr_destroy(&again);
}

/* A forked child has neither the threads nor any right of its parent's: the names mean nothing, and are not given back. */
static void in_child(void) {
    make_lock();
    spp_map_free(&by_port);
    spp_map_free(&by_tid);
    table_n = 0;
}

static void begin(void) {
    make_lock();
    pthread_atfork(NULL, NULL, in_child);
    /* Never removed: another library's may be chained behind it. The one before it may miss a
     * thread that begins or ends just now. */
    atomic_store_explicit(&hook_before, pthread_introspection_hook_install(on_thread), memory_order_release);
}

void spp_darwin_table_lock(void) {
    pthread_once(&once, begin);
    pthread_mutex_lock(&lock);
}

void spp_darwin_table_unlock(void) { pthread_mutex_unlock(&lock); }

bool spp_os_is_first_thread(void) { return true; }

int spp_os_thread_ready(int32_t tid, uint64_t *ns, uint64_t *times) {
    (void)tid, (void)ns, (void)times;
    return -1;
}

uint64_t spp_os_children_cpu_ns(void) {
    struct rusage used;
    if (getrusage(RUSAGE_CHILDREN, &used) != 0) return 0;
    return (uint64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000u +
           (uint64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000u;
}

uint64_t spp_os_thread_count(void) {
    pthread_once(&once, begin);
    return atomic_load_explicit(&changes, memory_order_relaxed);
}

/* ---- the table */

/* Of a dead thread the right has become a dead name, which is given back in the same way. A name that is none (the program gave
 * back what it did not own) cannot be mended here. */
void spp_darwin_release(mach_port_t port) { (void)mach_port_deallocate(mach_task_self(), port); }

static int32_t tid_of_id(uint64_t id) { return (int32_t)(id & INT32_MAX); }

int32_t spp_os_tid(void) {
    uint64_t id = 0;
    return pthread_threadid_np(NULL, &id) == 0 ? tid_of_id(id) : -1;
}

static thread *find(int32_t tid) {
    uint32_t at = spp_map_get(&by_tid, (uint64_t)tid, 0);
    return at != SPP_MAP_NONE ? &table[at] : NULL;
}

/* Lock held. What the kernel says of a thread; false: it is gone. Of one that is being made the slots are not known yet. */
static bool identify(mach_port_t port, thread *t) {
    thread_identifier_info_data_t about;
    mach_msg_type_number_t count = THREAD_IDENTIFIER_INFO_COUNT;
    if (thread_info(port, THREAD_IDENTIFIER_INFO, (thread_info_t)&about, &count) != KERN_SUCCESS) return false;
    t->tid = tid_of_id(about.thread_id);
    t->slots = (uintptr_t)about.thread_handle;
    /* The first slot is the thread's pthread_t (libpthread, _PTHREAD_TSD_SLOT_PTHREAD_SELF). */
    if (t->slots == 0 || spp_os_read(&t->pthread, t->slots, sizeof t->pthread) != 0) t->pthread = 0;
    return true;
}

/* Lock held. Of a thread that is new to us; false: it is gone, or there is no memory. */
static bool add(mach_port_t port) {
    thread t = {.port = port, .listed = true};
    if (!identify(port, &t)) return false;
    if (table_n == table_capacity) {
        uint32_t capacity = table_capacity * 2 + 64;
        thread *more = spp_realloc(table, capacity * sizeof *more);
        if (more == NULL) return false;
        table = more;
        table_capacity = capacity;
    }
    if (find(t.tid) != NULL || spp_map_add(&by_port, port, 0, table_n) != 0) return false;
    if (spp_map_add(&by_tid, (uint64_t)t.tid, 0, table_n) != 0) {
        (void)spp_map_remove(&by_port, port, 0);
        return false;
    }
    table[table_n++] = t;
    return true;
}

/* Lock held. Forgets a thread; the last one takes its place. */
static void drop(uint32_t at) {
    (void)spp_map_remove(&by_port, table[at].port, 0);
    (void)spp_map_remove(&by_tid, (uint64_t)table[at].tid, 0);
    spp_darwin_release(table[at].port);
    if (at == --table_n) return;
    thread last = table[at] = table[table_n];
    (void)spp_map_remove(&by_port, last.port, 0);
    (void)spp_map_remove(&by_tid, (uint64_t)last.tid, 0);
    /* Places that were just given back: no memory is needed. */
    (void)spp_map_add(&by_port, last.port, 0, at);
    (void)spp_map_add(&by_tid, (uint64_t)last.tid, 0, at);
}

static uint64_t ns_of(time_value_t t) { return (uint64_t)t.seconds * 1000000000u + (uint64_t)t.microseconds * 1000u; }

/* Lock held. xnu adds a running thread's time to its clock when the thread enters the kernel
 * (osfmk/kern/recount.c), which one that computes rarely does. So while it runs and its clock is
 * unchanged, it is assumed to have run since the last look; the next change of the clock corrects
 * that. So its clock always advances while it runs, and never goes back. A thread that waits for a
 * processor counts as running too, so it gets no further ahead of the kernel than one time slice. */
#define AHEAD_NS 10000000u

static int read_cpu(thread *t, uint64_t *ns, uint64_t *exact) {
    thread_basic_info_data_t info;
    mach_msg_type_number_t count = THREAD_BASIC_INFO_COUNT;
    uint64_t now = spp_os_now_ns();
    if (thread_info(t->port, THREAD_BASIC_INFO, (thread_info_t)&info, &count) != KERN_SUCCESS) return -1;
    uint64_t cpu = ns_of(info.user_time) + ns_of(info.system_time), shown = cpu;
    bool runs = info.run_state == TH_STATE_RUNNING;
    if (runs && cpu == t->cpu_ns && t->seen_ns != 0) shown = t->returned_ns + (now - t->seen_ns);
    if (shown > cpu + AHEAD_NS) shown = cpu + AHEAD_NS;
    if (shown <= t->returned_ns) shown = t->returned_ns + runs;
    t->cpu_ns = *exact = cpu;
    t->returned_ns = *ns = shown;
    t->seen_ns = now;
    return 0;
}

/* Lock held. The kernel's list, each with a right that is ours to give back. */
static int list(void) {
    thread_act_array_t ports = NULL;
    mach_msg_type_number_t n = 0;
    uint64_t until = atomic_load_explicit(&changes, memory_order_relaxed);
    if (task_threads(mach_task_self(), &ports, &n) != KERN_SUCCESS) return -1;
    for (uint32_t i = 0; i < table_n; i++) table[i].listed = false;
    for (mach_msg_type_number_t i = 0; i < n; i++) {
        uint32_t at = spp_map_get(&by_port, ports[i], 0);
        if (at != SPP_MAP_NONE) table[at].listed = true;
        if (at != SPP_MAP_NONE && table[at].pthread == 0) (void)identify(ports[i], &table[at]);
        /* Known: one right is enough. Not to be known: it ended since it was listed. */
        if (at != SPP_MAP_NONE || !add(ports[i])) spp_darwin_release(ports[i]);
    }
    (void)vm_deallocate(mach_task_self(), (vm_address_t)ports, n * sizeof *ports);
    /* A thread that the list lacks is asked directly: if it were listed again later, the core would
     * take it for another thread. */
    for (uint32_t i = table_n; i-- > 0;) {
        uint64_t ns, exact;
        if (!table[i].listed && read_cpu(&table[i], &ns, &exact) != 0) drop(i);
    }
    listed_changes = until;
    return 0;
}

/* Lock held, and no thread suspended. A thread that began since the last listing causes another
 * one. */
static thread *find_again(int32_t tid) {
    thread *t = find(tid);
    if (t != NULL || listed_changes == atomic_load_explicit(&changes, memory_order_relaxed)) return t;
    return list() == 0 ? find(tid) : NULL;
}

bool spp_darwin_knows(int32_t tid) {
    spp_darwin_table_lock();
    bool known = find_again(tid) != NULL;
    spp_darwin_table_unlock();
    return known;
}

int spp_os_threads(void (*see)(void *arg, int32_t tid), void *arg) {
    spp_darwin_table_lock();
    int32_t *tids = NULL;
    uint32_t n = 0;
    int failed = list();
    if (failed == 0) tids = spp_alloc((table_n + 1) * sizeof *tids);
    if (tids != NULL) {
        for (uint32_t i = 0; i < table_n; i++) {
            if (!spp_suspend_is_sampler(table[i].tid)) tids[n++] = table[i].tid;
        }
    }
    spp_darwin_table_unlock();
    for (uint32_t i = 0; i < n; i++) see(arg, tids[i]); /* without the lock: it arms them */
    spp_free(tids);
    return tids != NULL ? 0 : -1;
}

mach_port_t spp_darwin_port_of(int32_t tid, uintptr_t *slots) {
    const thread *t = find(tid);
    if (t == NULL) return MACH_PORT_NULL;
    *slots = t->slots;
    return t->port;
}

int32_t spp_os_tid_of_pthread(uintptr_t pthread) {
    int32_t tid = -1;
    spp_darwin_table_lock();
    for (uint32_t i = 0; i < table_n && tid < 0; i++) {
        if (table[i].pthread == pthread && pthread != 0) tid = table[i].tid;
    }
    spp_darwin_table_unlock();
    return tid;
}

/* ---- what a thread does */

int spp_os_thread_cpu_ns(int32_t tid, uint64_t *ns) {
    uint64_t exact;
    spp_darwin_table_lock();
    thread *t = find_again(tid);
    int failed = t != NULL ? read_cpu(t, ns, &exact) : -1;
    spp_darwin_table_unlock();
    return failed;
}

void spp_darwin_exact_cpu(int32_t tid, uint64_t *ns) {
    uint64_t shown, exact;
    thread *t = find(tid);
    if (t != NULL && read_cpu(t, &shown, &exact) == 0) *ns = exact;
}

int spp_os_thread_name(int32_t tid, char *to, size_t size) {
    thread_extended_info_data_t info;
    mach_msg_type_number_t count = THREAD_EXTENDED_INFO_COUNT;
    spp_darwin_table_lock();
    const thread *t = find(tid);
    bool known = t != NULL && thread_info(t->port, THREAD_EXTENDED_INFO, (thread_info_t)&info, &count) == KERN_SUCCESS;
    spp_darwin_table_unlock();
    if (!known || info.pth_name[0] == 0 || size == 0) return -1;
    size_t n = strnlen(info.pth_name, sizeof info.pth_name);
    if (n >= size) n = size - 1;
    memcpy(to, info.pth_name, n);
    to[n] = 0;
    if (n >= sizeof info.pth_name - 1) spp_utf8_trim(to); /* it was cut, most likely */
    return 0;
}

bool spp_os_path_of(int fd, char *to, size_t size) {
    char path[1024]; /* MAXPATHLEN: the kernel knows no other size */
    if (fcntl(fd, F_GETPATH, path) != 0 || strlen(path) >= size) return false;
    memcpy(to, path, strlen(path) + 1);
    return true;
}

bool spp_os_own_files(int but) {
    (void)but;
    return false; /* descriptors are the process's */
}

void *spp_os_file_hold(int fd) {
    (void)fd;
    return NULL; /* APFS gives no number twice */
}

void spp_os_file_release(void *hold) { (void)hold; }

void *spp_os_file_text(const char *path, size_t most, size_t *n) { return spp_posix_file_text(path, most, n); }

/* A thread is suspended for that. */
int spp_os_thread_where(int32_t tid, uintptr_t *pc, uintptr_t *sp) {
    (void)tid, (void)pc, (void)sp;
    return -1;
}

spp_os_stack spp_os_stack_limits(void) {
    uintptr_t end = (uintptr_t)pthread_get_stackaddr_np(pthread_self());
    return (spp_os_stack){end - pthread_get_stacksize_np(pthread_self()), end};
}
