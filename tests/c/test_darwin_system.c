/* What os/darwin makes of memory, clocks, images and its own threads, against a kernel that is made up (fake_kernel.h). The truth
 * is Linux's: the memory is this process's. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#undef fcntl
#include "fake_kernel.h"
#include "os/clock.h"
#include "os/context.h"
#include "os/darwin/darwin.h"
#include "os/files.h"
#include "os/memory.h"
#include "os/objects.h"
#include "os/posix/posix.h"
#include "os/process.h"
#include "os/slots.h"
#include "os/suspend/suspend.h"
#include "os/threads.h"
#include "os/worker.h"
#include "processes.h"

/* ---- slots: not believed until they are proved; so this test comes first */

static void slots_are_proved(void) {
    uintptr_t value = 77;
    spp_os_subject subject = {.slots = (uintptr_t)&value - 8 * 300};
    fake_reset();
    CHECK_EQUAL(spp_os_slot_of(&subject, 300), 0);
    fake_fail(FAKE_thread_info, 0, KERN_FAILURE);
    spp_darwin_prove_slots();
    CHECK_EQUAL(spp_os_slot_of(&subject, 300), 0);
    fake_fail_no_more();
    uintptr_t first = fake_threads[0].slots[0]; /* not the thread's pthread_t */
    fake_threads[0].slots[0] = 5;
    spp_darwin_prove_slots();
    CHECK_EQUAL(spp_os_slot_of(&subject, 300), 0);
    fake_threads[0].slots[0] = first;
    fake_fail(FAKE_mach_vm_read_overwrite, 1, KERN_INVALID_ADDRESS);
    spp_darwin_prove_slots();
    CHECK_EQUAL(spp_os_slot_of(&subject, 300), 0);
    fake_fail_no_more();
    spp_darwin_prove_slots();
    CHECK_EQUAL(spp_os_slot_of(&subject, 300), 77);
    CHECK_EQUAL(fake_rights(), 0);
    CHECK_EQUAL(fake_misuses(), 0);
}

/* ---- memory */

static void memory(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint64_t word = 0, want = 0x1122334455667788;
    fake_reset();
    fake_fail(FAKE_mach_vm_read_overwrite, 1, KERN_INVALID_ADDRESS);
    CHECK_EQUAL(spp_os_memory_init(), -1); /* it cannot read what is there */
    fake_fail_no_more();
    CHECK_EQUAL(spp_os_memory_init(), 0);
    uint8_t *pages = spp_os_pages(3 * page);
    CHECK(pages != NULL);
    CHECK_EQUAL(pages[0] + pages[3 * page - 1], 0);
    munmap(pages + page, page); /* a hole */
    memcpy(pages + page - 8, &want, 8);
    CHECK_EQUAL(spp_os_read(&word, (uintptr_t)pages + page - 8, 8), 0);
    CHECK(word == want);
    CHECK_EQUAL(spp_os_read(&word, (uintptr_t)pages + page - 4, 8), -1);
    CHECK_EQUAL(spp_os_read(&word, (uintptr_t)pages + page, 1), -1);
    CHECK_EQUAL(spp_os_read(&word, UINTPTR_MAX - 3, 8), -1); /* beyond the end of memory */
    CHECK(spp_os_readable((uintptr_t)pages + page - 1) && !spp_os_readable((uintptr_t)pages + page));
    uintptr_t addrs[] = {(uintptr_t)pages + 100, (uintptr_t)pages + page + 5, (uintptr_t)pages + 2 * page + 1, UINTPTR_MAX - 64};
    uintptr_t lows[4], ends[4];
    CHECK_EQUAL(spp_os_regions(addrs, lows, ends, 4), 0);
    CHECK(lows[0] <= (uintptr_t)pages && ends[0] == (uintptr_t)pages + page);
    CHECK_EQUAL(lows[1], 0);
    CHECK_EQUAL(ends[1], 0);
    CHECK(lows[2] == (uintptr_t)pages + 2 * page && ends[2] >= (uintptr_t)pages + 3 * page);
    CHECK_EQUAL(ends[3], 0);
    CHECK_EQUAL(fake_rights(), 0); /* what the kernel gave with a region */
    spp_os_pages_free(pages, page);
    spp_os_pages_free(pages + 2 * page, page);
    spp_os_pages_free(NULL, page);
    CHECK(spp_os_pages((size_t)1 << 60) == NULL);
    CHECK_EQUAL(fake_misuses(), 0);
}

static void paths(void) {
    char path[1024] = "", small[4];
    fake_reset();
    char name[] = "/tmp/spprof-test-XXXXXX";
    int fd = mkstemp(name);
    CHECK(spp_os_path_of(fd, path, sizeof path));
    CHECK_EQUAL(strcmp(path, name), 0);
    unlink(name);
    close(fd);
    CHECK(!spp_os_path_of(fd, path, sizeof path));
    fd = open("/dev/null", O_RDONLY);
    CHECK(!spp_os_path_of(fd, small, sizeof small));
    close(fd);
}

/* A file's text is read whole or not at all. No inode is held, and no thread has descriptors of its own. */
static void files(void) {
    static const char text[] = "one\ntwo\n";
    size_t n = 0;
    char name[] = "/tmp/spprof-test-XXXXXX";
    int fd = mkstemp(name);
    CHECK_EQUAL(write(fd, text, sizeof text), sizeof text);
    char *read = spp_os_file_text(name, sizeof text, &n);
    CHECK(read != NULL && n == sizeof text && memcmp(read, text, n) == 0);
    spp_os_pages_free(read, n);
    CHECK(spp_os_file_text(name, sizeof text - 1, &n) == NULL);
    unlink(name);
    CHECK(spp_os_file_text(name, sizeof text, &n) == NULL);
    CHECK(spp_os_file_hold(fd) == NULL);
    spp_os_file_release(NULL);
    CHECK(!spp_os_own_files(fd));
    CHECK_EQUAL(lseek(fd, 0, SEEK_END), sizeof text); /* still open here */
    close(fd);
}

/* ---- clocks */

/* By the time base that the first test gave: 125/3, as on Apple's own processors, so now_ns counts 125 for 3 ticks. */
static void clocks(void) {
    fake_reset();
    fake_script_time(3000000003);
    CHECK_EQUAL(spp_os_now_ns(), 125000000125);
    fake_script_time(UINT64_C(3) << 55); /* no overflow within a century */
    CHECK(spp_os_now_ns() == UINT64_C(125) << 55);
    fake_script_time(3000);
    spp_os_sleep_until(125125);
    CHECK_EQUAL(fake_count(FAKE_mach_wait_until), 1);
    CHECK(spp_os_now_ns() >= 125125 && spp_os_now_ns() < 125125 + 2 * 42);
    spp_os_sleep_until(1000); /* long ago */
    CHECK_EQUAL(fake_count(FAKE_mach_wait_until), 1);
    /* It is interrupted twice. */
    fake_fail(FAKE_mach_wait_until, 1, KERN_ABORTED);
    spp_os_sleep_until(250000);
    CHECK_EQUAL(fake_count(FAKE_mach_wait_until), 3);
    CHECK(spp_os_now_ns() >= 250000);
    fake_reset();
    uint64_t all = spp_os_process_cpu_ns();
    uint64_t own = spp_os_own_cpu_ns();
    while (spp_os_own_cpu_ns() < own + 2000000) {}
    CHECK(spp_os_process_cpu_ns() >= all + 2000000);
    CHECK(spp_os_cycles() != 0);
}

/* What a child used, as wait4 gives it: both are the kernel's, in whole microseconds for each of user and system. */
static void childrens_time(void) {
    uint64_t before = spp_os_children_cpu_ns();
    pid_t child = fork();
    if (child == 0) {
        while (spp_os_process_cpu_ns() < 20000000) {}
        _exit(0);
    }
    struct rusage used;
    int status = -1;
    CHECK_EQUAL(wait4(child, &status, 0, &used), child);
    CHECK_EQUAL(status, 0);
    int64_t of_child = (int64_t)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000 +
                       (int64_t)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000;
    int64_t wrong = (int64_t)(spp_os_children_cpu_ns() - before) - of_child;
    CHECK(of_child > 10000000);
    CHECK(wrong >= -4000 && wrong <= 4000);
}

/* ---- our own threads */

static spp_os_bell bell;
static _Atomic int32_t worker_tid;
static _Atomic bool go_on;

static void body(void *arg) {
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    *(bool *)arg = sigismember(&now, SIGTERM) == 1;
    worker_tid = spp_os_tid();
    while (!go_on) {}
    spp_os_bell_ring(&bell);
}

static void workers(void) {
    bool blocked = false;
    fake_reset();
    fake_fail(FAKE_pthread_set_qos_class_self_np, 1, EPERM); /* it runs all the same */
    spp_os_worker *worker = spp_os_worker_start("spprof-test", true, body, &blocked);
    CHECK(worker != NULL);
    CHECK(spp_os_worker_tid(worker) != spp_os_tid());
    go_on = true;
    CHECK(spp_os_bell_wait(&bell, spp_os_now_ns() + 60000000000u));
    CHECK_EQUAL(spp_os_worker_tid(worker), worker_tid);
    spp_os_worker_join(worker);
    CHECK(blocked);
    CHECK_EQUAL(fake_count(FAKE_semaphore_create), 1);
    CHECK_EQUAL(fake_count(FAKE_pthread_set_qos_class_self_np), 1);
    worker = spp_os_worker_start("spprof-test", false, body, &blocked);
    spp_os_worker_join(worker);
    CHECK_EQUAL(fake_count(FAKE_pthread_set_qos_class_self_np), 1);
    (void)spp_os_bell_wait(&bell, 0);
    /* Rung twice before it is waited for; then by nobody. */
    int before = fake_count(FAKE_semaphore_signal);
    spp_os_bell_ring(&bell);
    spp_os_bell_ring(&bell);
    CHECK_EQUAL(fake_count(FAKE_semaphore_signal), before + 1);
    CHECK(spp_os_bell_wait(&bell, spp_os_now_ns() + 60000000000u));
    CHECK(!spp_os_bell_wait(&bell, spp_os_now_ns() + 1000000));
    CHECK(!spp_os_bell_wait(&bell, 0));
    /* A kernel that refuses to wait: it is slept instead. */
    fake_fail(FAKE_semaphore_timedwait, 0, KERN_INVALID_ARGUMENT);
    CHECK(!spp_os_bell_wait(&bell, spp_os_now_ns() + 3000000));
    fake_fail_no_more();
    fake_script_time(3000000);
    fake_fail(FAKE_semaphore_timedwait, 1, KERN_ABORTED); /* interrupted: it waits again */
    int waits = fake_count(FAKE_semaphore_timedwait);
    CHECK(!spp_os_bell_wait(&bell, spp_os_now_ns() + 2000000));
    CHECK_EQUAL(fake_count(FAKE_semaphore_timedwait), waits + 2);
    CHECK_EQUAL(fake_misuses(), 0);
}

/* A lock that another has, until it has not. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic bool taken, give;

static void *hold(void *unused) {
    pthread_mutex_lock(&mutex);
    taken = true;
    while (!give) {}
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void locks(void) {
    pthread_t other;
    fake_reset();
    CHECK_EQUAL(pthread_create(&other, NULL, hold, NULL), 0);
    while (!taken) {}
    CHECK(!spp_posix_lock_until(&mutex, 1));
    give = true;
    CHECK(spp_posix_lock_until(&mutex, UINT64_MAX));
    pthread_mutex_unlock(&mutex);
    pthread_join(other, NULL);
}

/* In a forked child there are no threads and no rights; nothing of the parent's is given back, and a listing begins again. */
static int scanned;

static void count(void *arg, int32_t tid) {
    (void)arg, (void)tid;
    scanned++;
}

static void forks(void) {
    fake_reset();
    fake_start(1);
    fake_start(2);
    CHECK_EQUAL(spp_os_threads(count, NULL), 0);
    CHECK_EQUAL(scanned, 3);
    int given_back = fake_count(FAKE_mach_port_deallocate);
    uint64_t ns;
    int32_t tid = (int32_t)(fake_threads[1].id & INT32_MAX);
    CHECK_EQUAL(spp_os_thread_cpu_ns(tid, &ns), 0);
    pid_t child = fork();
    if (child == 0) {
        bool right = spp_os_thread_cpu_ns(tid, &ns) == -1 && fake_count(FAKE_mach_port_deallocate) == given_back;
        spp_os_bell_wait(&bell, 0); /* makes a semaphore of the child's own */
        _exit(right && fake_count(FAKE_semaphore_create) == 1 ? 0 : 1);
    }
    int status = -1;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK_EQUAL(status, 0);
    CHECK_EQUAL(fake_count(FAKE_semaphore_create), 0);
    fake_reset();
    (void)spp_os_threads(count, NULL);
}

/* What macOS does not say, or does not need: each function says so, and changes nothing. */
static void not_known(void) {
    uint64_t ns = 5, times = 7;
    CHECK_EQUAL(spp_os_thread_ready(spp_os_tid(), &ns, &times), -1);
    CHECK_EQUAL(ns, 5);
    CHECK_EQUAL(times, 7);
    CHECK(spp_os_is_first_thread());
    CHECK_EQUAL(spp_os_own_place((uintptr_t)&ns), 0);
    char *pages = spp_os_pages(4096);
    pages[0] = 'x';
    CHECK(spp_os_pages_grow(pages, 4096, 4096) == NULL);
    CHECK_EQUAL(pages[0], 'x'); /* nothing has moved */
    spp_os_pages_free(pages, 4096);
}

static void *stack_of_it(void *arg) {
    *(spp_os_stack *)arg = spp_os_stack_limits();
    return arg;
}

/* A thread's stack is the memory that it was given; ours has our variables. */
static void stacks(void) {
    char here;
    spp_os_stack given = {0, 0};
    spp_os_stack own = spp_os_stack_limits();
    CHECK(own.low < (uintptr_t)&here && (uintptr_t)&here < own.end);
    pthread_attr_t attributes;
    pthread_t other;
    size_t size = 1 << 20;
    char *pages = spp_os_pages(size);
    pthread_attr_init(&attributes);
    CHECK_EQUAL(pthread_attr_setstack(&attributes, pages, size), 0);
    CHECK_EQUAL(pthread_create(&other, &attributes, stack_of_it, &given), 0);
    pthread_join(other, NULL);
    /* The C library may keep some of it for itself, at the end. */
    CHECK_EQUAL(given.low, (uintptr_t)pages);
    CHECK(given.end <= (uintptr_t)pages + size && given.end > (uintptr_t)pages + size / 2);
    pthread_attr_destroy(&attributes);
    spp_os_pages_free(pages, size);
}

/* What the tests above take for granted is refused, in a child that knows nothing yet: no time base is x86_64's, no id is none,
 * no region is known, and without a semaphore a bell is heard all the same. */
static void refused(void) {
    pid_t child = check_fork();
    if (child == 0) {
        uintptr_t addr = (uintptr_t)&bell, low = 1, end = 1;
        fake_reset();
        fake_script_time(5000);
        fake_fail(FAKE_mach_timebase_info, 0, KERN_FAILURE);
        fake_fail(FAKE_pthread_threadid_np, 0, KERN_INVALID_ARGUMENT);
        fake_fail(FAKE_mach_vm_region, 0, KERN_INVALID_ADDRESS);
        fake_fail(FAKE_semaphore_create, 0, KERN_RESOURCE_SHORTAGE);
        fake_fail(FAKE_mach_port_deallocate, 0, KERN_INVALID_NAME);
        CHECK_EQUAL(spp_os_now_ns(), 5000);
        CHECK_EQUAL(spp_os_tid(), -1);
        CHECK_EQUAL(spp_os_regions(&addr, &low, &end, 1), 0);
        CHECK_EQUAL(low | end, 0);
        CHECK(!spp_os_bell_wait(&bell, spp_os_now_ns() + 3000000));
        spp_os_bell_ring(&bell);
        CHECK_EQUAL(fake_count(FAKE_semaphore_signal), 0);
        CHECK(spp_os_bell_wait(&bell, spp_os_now_ns() + 3000000));
        CHECK_EQUAL(spp_os_threads(count, NULL), 0);
        CHECK_EQUAL(scanned, 1);
        /* One is made after all; nobody can signal it. */
        fake_fail_no_more();
        fake_fail(FAKE_semaphore_signal, 0, KERN_TERMINATED);
        CHECK(!spp_os_bell_wait(&bell, spp_os_now_ns() + 1000000));
        spp_os_bell_ring(&bell);
        CHECK_EQUAL(fake_count(FAKE_semaphore_signal), 1);
        CHECK(spp_os_bell_wait(&bell, spp_os_now_ns() + 3000000));
        exit(check_done());
    }
    int status = -1;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK_EQUAL(status, 0);
}

/* ---- images */

/* As a linker would write it: a program's header of one segment with code, its link data, and a UUID. */
enum { IMAGE_BYTES = 8192 };
static _Alignas(4096) uint8_t image[IMAGE_BYTES];
static size_t image_n;
static uint32_t commands_n;

static void put(uint64_t value, size_t bytes) {
    memcpy(image + image_n, &value, bytes);
    image_n += bytes;
}

static void put_name(const char *name) {
    strncpy((char *)image + image_n, name, 16);
    image_n += 16;
}

/* Its place in memory is `image`, wherever that is: the file counts from 0x4000, so the slide is the difference. */
#define FILE_BASE 0x4000u

static void put_segment(const char *name, uint64_t at, uint64_t n, uint64_t file_at, uint32_t protection, uint32_t sections) {
    put(0x19, 4);
    put(72 + 80 * sections, 4);
    put_name(name);
    put(FILE_BASE + at, 8);
    put(n, 8);
    put(file_at, 8);
    put(n, 8);
    put(7, 4);
    put(protection, 4);
    put(sections, 4);
    put(0, 4);
    commands_n++;
}

static void put_section(const char *name, const char *segment, uint64_t at, uint64_t n, uint32_t flags) {
    put_name(name);
    put_name(segment);
    put(FILE_BASE + at, 8);
    put(n, 8);
    put(0, 8);
    put(0, 8);
    put(flags, 4);
    put(0, 8);
    put(0, 4);
}

static void put_symbol(uint32_t name, uint8_t kind, uint8_t section, uint64_t at) {
    put(name, 4);
    put(kind, 1);
    put(section, 1);
    put(0, 2);
    put(at, 8);
}

enum { CODE_AT = 2048, UNWIND_AT = 3000, EH_AT = 3500, LINK_AT = 4096, LINK_FILE = 9000, SYMBOLS = 7 };

static void make_image(void) {
    static const char names[] = "\0_first\0_second\0no_underscore\0_data\0_debug\0_";
    memset(image, 0, sizeof image);
    image_n = 32;
    commands_n = 0;
    put_segment("__TEXT", 0, 4096, 0, 5, 3);
    put_section("__text", "__TEXT", CODE_AT, 256, 0x80000400);
    put_section("__unwind_info", "__TEXT", UNWIND_AT, 100, 0);
    put_section("__eh_frame", "__TEXT", EH_AT, 50, 0);
    put_segment("__DATA", 4096, 0, 4096, 3, 1);
    put_section("__data", "__DATA", 4000, 16, 0);
    put_segment("__LINKEDIT", LINK_AT, 4096, LINK_FILE, 1, 0);
    put(2, 4); /* LC_SYMTAB */
    put(24, 4);
    put(LINK_FILE + 64, 4);
    put(SYMBOLS, 4);
    put(LINK_FILE + 64 + SYMBOLS * 16, 4);
    put(sizeof names, 4);
    commands_n++;
    put(0x1b, 4); /* LC_UUID */
    put(24, 4);
    for (uint64_t i = 0; i < 16; i++) put(0xa0 + i, 1);
    commands_n++;
    size_t end = image_n;
    image_n = 0;
    put(0xfeedfacf, 4);
    put(0, 8);
    put(6, 4);
    put(commands_n, 4);
    put(end - 32, 4);
    put(0, 8);
    image_n = LINK_AT + 64;
    put_symbol(1, 0x0f, 1, FILE_BASE + CODE_AT);
    put_symbol(8, 0x0e, 1, FILE_BASE + CODE_AT + 16);
    put_symbol(16, 0x0e, 1, FILE_BASE + CODE_AT + 32);
    put_symbol(30, 0x0f, 4, FILE_BASE + 4000);        /* data */
    put_symbol(36, 0x24, 1, FILE_BASE + CODE_AT);     /* a debugger's */
    put_symbol(1000, 0x0e, 1, FILE_BASE + CODE_AT);   /* its name lies behind the end */
    put_symbol(43, 0x0e, 1, FILE_BASE + CODE_AT + 4); /* an empty one */
    memcpy(image + image_n, names, sizeof names);
    image_n = end;
}

static spp_os_object found[4];
static int found_n;

static void see_object(void *arg, const spp_os_object *o) {
    (void)arg;
    found[found_n++] = *o;
}

static void look(void) {
    found_n = 0;
    spp_os_objects(see_object, NULL);
}

static char symbols[8][32];
static uint64_t symbols_at[8];
static int symbols_n;

static void see_symbol(void *arg, uint64_t at, uint32_t size, const char *name) {
    (void)arg, (void)size;
    int i = symbols_n++ % 8; /* a damaged table may be longer */
    strncpy(symbols[i], name, sizeof *symbols - 1);
    symbols_at[i] = at;
}

static void images(void) {
    uintptr_t slide = (uintptr_t)image - FILE_BASE;
    fake_reset();
    make_image();
    uint64_t none = spp_os_objects_stamp();
    fake_image(image, (intptr_t)slide, "/lib/one.dylib");
    uint64_t one = spp_os_objects_stamp();
    CHECK(one != none && (uint32_t)one == (uint32_t)none);
    look();
    CHECK_EQUAL(found_n, 1);
    const spp_os_object *o = &found[0];
    CHECK_EQUAL(strcmp(o->path, "/lib/one.dylib"), 0);
    CHECK_EQUAL(o->base, slide);
    CHECK_EQUAL(o->low, (uintptr_t)image);
    CHECK_EQUAL(o->high, (uintptr_t)image + 4096);
    CHECK_EQUAL(o->index, 0);
    CHECK_EQUAL(o->compact, (uintptr_t)image + UNWIND_AT);
    CHECK_EQUAL(o->compact_end, (uintptr_t)image + UNWIND_AT + 100);
    CHECK_EQUAL(o->frames, (uintptr_t)image + EH_AT);
    CHECK_EQUAL(o->frames_end, (uintptr_t)image + EH_AT + 50);
    CHECK_EQUAL(o->build_id_n, 16);
    CHECK_EQUAL(o->build_id[15], 0xaf);
    symbols_n = 0;
    CHECK_EQUAL(spp_os_symbols(o, see_symbol, NULL), 0);
    CHECK_EQUAL(symbols_n, 3);
    CHECK_EQUAL(strcmp(symbols[0], "first"), 0);
    CHECK_EQUAL(strcmp(symbols[1], "second"), 0);
    CHECK_EQUAL(strcmp(symbols[2], "no_underscore"), 0);
    CHECK_EQUAL(symbols_at[1], FILE_BASE + CODE_AT + 16);
    size_t n = 5;
    CHECK(spp_os_symbol_file("/lib/one.dylib", &n) == NULL);
    CHECK_EQUAL(n, 0);
    fake_unload(0);
    CHECK((uint32_t)spp_os_objects_stamp() == (uint32_t)one + 1);
    look();
    CHECK_EQUAL(found_n, 0);
}

/* dyld's own image is in no list, and seen all the same, once; without it, the others are seen. */
static void the_loader(void) {
    static _Alignas(4096) uint8_t dyld[IMAGE_BYTES];
    fake_reset();
    make_image();
    memcpy(dyld, image, sizeof dyld);
    fake_image(image, (intptr_t)((uintptr_t)image - FILE_BASE), "/lib/one.dylib");
    fake_dyld(dyld, TASK_DYLD_ALL_IMAGE_INFO_64);
    look();
    CHECK_EQUAL(found_n, 2);
    CHECK_EQUAL(strcmp(found[0].path, "/lib/one.dylib"), 0);
    CHECK_EQUAL(strcmp(found[1].path, "/usr/lib/dyld"), 0);
    CHECK_EQUAL(found[1].base, (uintptr_t)dyld - FILE_BASE);
    CHECK_EQUAL(found[1].low, (uintptr_t)dyld);
    CHECK_EQUAL(found[1].compact, (uintptr_t)dyld + UNWIND_AT);
    spp_os_object one = found[0];
    symbols_n = 0;
    CHECK_EQUAL(spp_os_symbols(&found[1], see_symbol, NULL), 0);
    CHECK_EQUAL(symbols_n, 3);
    /* It is refused, is given in another form, is no image, or is gone when its place is read. */
    fake_fail(FAKE_task_info, 0, KERN_INVALID_ARGUMENT);
    look();
    CHECK_EQUAL(found_n, 1);
    fake_fail_no_more();
    fake_dyld(dyld, TASK_DYLD_ALL_IMAGE_INFO_64 - 1);
    look();
    CHECK_EQUAL(found_n, 1);
    fake_dyld((const void *)8, TASK_DYLD_ALL_IMAGE_INFO_64);
    look();
    CHECK_EQUAL(found_n, 1);
    fake_dyld(dyld, TASK_DYLD_ALL_IMAGE_INFO_64);
    fake_fail(FAKE_mach_vm_read_overwrite, 1, KERN_INVALID_ADDRESS);
    look();
    CHECK_EQUAL(found_n, 1);
    fake_fail_no_more();
    dyld[32 + 8] = 'x'; /* it has no __TEXT */
    look();
    CHECK_EQUAL(found_n, 1);
    CHECK(found[0].low == one.low && found[0].base == one.base && strcmp(found[0].path, one.path) == 0);
    /* One that lists it. */
    fake_dyld(image, TASK_DYLD_ALL_IMAGE_INFO_64);
    look();
    CHECK_EQUAL(found_n, 1);
    CHECK(found[0].low == one.low && found[0].base == one.base && strcmp(found[0].path, one.path) == 0);
    fake_dyld(NULL, 0);
    fake_unload(0);
    CHECK_EQUAL(fake_misuses(), 0);
}

/* Headers that are none, are damaged, or are no longer there: every byte of the header, with each of eight values. */
static void damaged_images(void) {
    uintptr_t slide = (uintptr_t)image - FILE_BASE;
    fake_reset();
    make_image();
    fake_image(image, (intptr_t)slide, (const char *)8 /* its name is gone */);
    look();
    CHECK_EQUAL(found_n, 1);
    CHECK_EQUAL(found[0].path[0], 0);
    size_t end = image_n;
    for (size_t i = 0; i < end; i++) {
        uint8_t good = image[i];
        for (unsigned k = 0; k < 8; k++) {
            static const uint8_t values[] = {0, 1, 7, 0x7f, 0x80, 0xff, 0x19, 0x48};
            image[i] = values[k];
            look();
            symbols_n = 0;
            spp_os_object whole = {.base = slide, .low = (uintptr_t)image};
            CHECK_EQUAL(spp_os_symbols(&whole, see_symbol, NULL), 0);
            CHECK(found_n <= 1);
        }
        image[i] = good;
    }
    look();
    CHECK_EQUAL(found_n, 1);
    /* Memory is read whole or not at all: at every read there may be nothing any more. */
    spp_os_object whole = found[0];
    for (int nth = 1; nth <= 8; nth++) {
        fake_fail(FAKE_mach_vm_read_overwrite, nth, KERN_INVALID_ADDRESS);
        look();
        fake_fail_no_more();
        fake_fail(FAKE_mach_vm_read_overwrite, nth, KERN_INVALID_ADDRESS);
        symbols_n = 0;
        CHECK_EQUAL(spp_os_symbols(&whole, see_symbol, NULL), 0);
        CHECK_EQUAL(symbols_n, nth <= 4 ? 0 : 3);
        fake_fail_no_more();
    }
    fake_unload(0);
    fake_image(NULL, 0, NULL);
    look();
    CHECK_EQUAL(found_n, 0);
    fake_unload(0);
}

static void the_machine(void) {
    char machine[64];
    spp_os_host_machine(machine, 4);
    CHECK_EQUAL(strlen(machine), 3);
}

int main(void) {
    refused();
    the_machine();
    fake_timebase(125, 3);
    (void)spp_os_now_ns();
    slots_are_proved();
    memory();
    paths();
    files();
    clocks();
    childrens_time();
    workers();
    locks();
    forks();
    not_known();
    stacks();
    images();
    the_loader();
    damaged_images();
    return check_done();
}
