/* The unwinder against libgcc's, frame by frame, at random instants in functions of every kind; symbols against the addresses of
 * functions; damaged tables and symbol files. */
#include <alloca.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unwind.h>

#include "check.h"
#include "core/native.h"
#include "core/symbols.h"
#include "os/os.h"

/* ThreadSanitizer holds signals back and shows a handler other registers; with musl, glibc's libgcc_eh cannot be linked. */
#if defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define ORACLE 0
#else
#define ORACLE 1
#endif

#if ORACLE
#define MOST 256
static spp_unwind_cache cache;
static uintptr_t stack_end, pcs[MOST], cfas[MOST], oracle[MOST];
static int oracle_n;
static _Atomic int samples, agreed, short_oracle, ends[SPP_UNWIND_TOO_DEEP + 1];

static _Unwind_Reason_Code note(struct _Unwind_Context *context, void *unused) {
    (void)unused;
    int before = 0;
    uintptr_t pc = _Unwind_GetIPInfo(context, &before);
    if (oracle_n < MOST) oracle[oracle_n++] = pc - (before ? 0 : 1);
    return _URC_NO_REASON;
}

static void tick(int signum, siginfo_t *info, void *machine) {
    spp_os_context context = {.machine = machine};
    uintptr_t registers[SPP_OS_REGISTERS];
    int saved = errno;
    (void)signum, (void)info;
    spp_os_registers(&context, registers);
    ucontext_t *uc = machine;
#if defined(__x86_64__)
    uintptr_t pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP], sp = registers[7];
#else
    uintptr_t pc = (uintptr_t)uc->uc_mcontext.pc, sp = registers[31];
#endif
    spp_unwind_walk w = {.pc = pc,
                         .sp = sp,
                         .fp = registers[SPP_REG_FP],
                         .registers = registers,
                         .stack_end = stack_end,
                         .guess = true,
                         .cache = &cache,
                         .pcs = pcs,
                         .cfas = cfas,
                         .max = MOST};
    spp_unwind(&atomic_load(&spp_native_now)->map, &w);
    samples++;
    ends[w.end]++;
    oracle_n = 0;
    _Unwind_Backtrace(note, NULL);
    int from = 0;
    while (from < oracle_n && oracle[from] != pc) from++; /* ours and the signal's frame come first */
    int same = 0;
    while (same < (int)w.depth && from + same < oracle_n && oracle[from + same] == pcs[same]) same++;
    /* libgcc gives one frame more where the entry point has no caller: address 0, less one. */
    if (same == (int)w.depth && w.end == SPP_UNWIND_REACHED)
        agreed++;
    else if (from + same == oracle_n)
        short_oracle++;
    errno = saved;
}

#endif

/* ---- functions of every kind */

static volatile uint64_t sink;
static int depth_left;

static __attribute__((noinline)) void spin(void) {
    for (int i = 0; i < 400; i++) sink += (uint64_t)i * sink;
}

static __attribute__((noinline)) void with_alloca(int n) {
    volatile char *room = alloca((size_t)(n % 7 + 1) * 100);
    room[n % 100] = (char)n;
    spin();
    sink += (uint64_t)room[n % 100];
}

/* A realigned stack: its CFA is *(frame pointer - 8). */
static __attribute__((noinline)) void with_wide_locals(int n) {
    _Alignas(64) volatile uint64_t wide[8] = {0};
    volatile char *room = alloca((size_t)(n % 5 + 1) * 64);
    room[0] = 1;
    wide[n % 8] = sink;
    spin();
    sink += wide[n % 8] + (uint64_t)room[0];
}

static int compare(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    if ((x ^ y) % 11 == 0) with_alloca(x);
    if ((x ^ y) % 13 == 0) with_wide_locals(y);
    return (x > y) - (x < y);
}

static __attribute__((noinline)) void recurse(int n) {
    int numbers[64];
    for (int i = 0; i < 64; i++) numbers[i] = (i * 7919 + n) % 101;
    if (n > 0) {
        recurse(n - 1);
    } else {
        qsort(numbers, 64, sizeof *numbers, compare); /* through the C library */
        free(malloc(100 + (size_t)depth_left % 1000));
    }
    sink += (uint64_t)numbers[n % 64];
}

#if ORACLE
static void *run(void *unused) {
    pthread_attr_t attr;
    void *low = NULL;
    size_t size = 0;
    struct sigaction action = {.sa_sigaction = tick, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct itimerval every = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    (void)unused;
    CHECK(pthread_getattr_np(pthread_self(), &attr) == 0 && pthread_attr_getstack(&attr, &low, &size) == 0);
    pthread_attr_destroy(&attr);
    stack_end = (uintptr_t)low + size;
    sigset_t ticks;
    sigemptyset(&ticks);
    sigaddset(&ticks, SIGPROF);
    pthread_sigmask(SIG_UNBLOCK, &ticks, NULL);
    oracle_n = 0;
    _Unwind_Backtrace(note, NULL); /* it allocates the first time */
    CHECK(sigaction(SIGPROF, &action, NULL) == 0);
    setitimer(ITIMER_PROF, &every, NULL);
    for (depth_left = 0; samples < 400; depth_left++) recurse(depth_left % 20);
    setitimer(ITIMER_PROF, &never, NULL);
    return NULL;
}

static void test_agrees_with_libgcc(void) {
    pthread_t thread;
    sigset_t ticks; /* that thread's alone */
    sigemptyset(&ticks);
    sigaddset(&ticks, SIGPROF);
    pthread_sigmask(SIG_BLOCK, &ticks, NULL);
    CHECK(pthread_create(&thread, NULL, run, NULL) == 0 && pthread_join(thread, NULL) == 0);
    printf("%d samples: %d agree, libgcc stops early in %d; ends: reached %d, no rule %d, astray %d\n", samples, agreed,
           short_oracle, ends[SPP_UNWIND_REACHED], ends[SPP_UNWIND_NO_RULE], ends[SPP_UNWIND_ASTRAY]);
    CHECK(agreed + short_oracle == samples && agreed > samples / 2);
}

#endif

/* ---- symbols */

static void test_names_of_functions(void) {
    const struct {
        uintptr_t at;
        const char *name;
    } known[] = {
        {(uintptr_t)recurse + 3, "recurse"},
        {(uintptr_t)compare, "compare"},
        {(uintptr_t)dlsym(RTLD_DEFAULT, "qsort_r") + 1, "qsort_r"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        spp_native_place place;
        CHECK(spp_native_place_of(known[i].at, &place));
        CHECK(place.function != NULL && strcmp(place.function, known[i].name) == 0);
        CHECK(place.at >= place.start);
    }
    spp_native_place nowhere;
    int local;
    CHECK(!spp_native_place_of((uintptr_t)&local, &nowhere));
}

/* Where functions begin, told by unwind information alone. */
#ifdef __GLIBC__ /* musl-gcc has the linker write no index of it */
static void test_starts_of_functions(void) {
    const spp_native_view *view = atomic_load(&spp_native_now);
    const uintptr_t known[] = {(uintptr_t)recurse, (uintptr_t)compare, (uintptr_t)dlsym(RTLD_DEFAULT, "qsort_r")};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const spp_unwind_object *object = spp_unwind_object_of(&view->map, known[i]);
        CHECK(object != NULL);
        for (uintptr_t in = 0; in < 3; in++) CHECK(spp_unwind_function_of(object, known[i] + in) == known[i]);
        CHECK(spp_unwind_function_of(object, known[i] - 1) < known[i]);
    }
}
#endif

/* What JIT compilers write in a perf-PID.map. */
static void test_names_of_made_code(void) {
    static const char text[] = "7f0000001000 10 old\n7f0000002000 20 b c :1\n7f0000001000 10 new\n\nzz 1 bad\n7f0000003000 8\n"
                               "7f0000004000 0 empty\n7F0000005000 8 UPPER\n12345678901234567 1 long\n7f0000006000 8 cut";
    spp_symbols symbols = {0};
    CHECK(spp_symbols_read_map(&symbols, text, sizeof text - 1) == 0);
    CHECK(symbols.n == 3);
    const struct {
        uint64_t at;
        const char *name;
    } known[] = {{0x7f0000001000, "new"}, {0x7f000000100f, "new"}, {0x7f0000001010, NULL},    {0x7f000000201f, "b c :1"},
                 {0x7f0000002020, NULL},  {0x7f0000004000, NULL},  {0x7f0000005007, "UPPER"}, {0x7f0000006000, NULL}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const spp_symbol *found = spp_symbols_find(&symbols, known[i].at);
        CHECK((found == NULL) == (known[i].name == NULL));
        CHECK(found == NULL || strcmp(spp_symbols_name(&symbols, found), known[i].name) == 0);
    }
    spp_symbols_free(&symbols);
}

static void test_damaged_symbol_files(void) {
    size_t n;
    uint8_t *file = spp_os_symbol_file("/proc/self/exe", &n);
    CHECK(file != NULL);
    uint64_t random = 88172645463325252u;
    for (int round = 0; round < 300; round++) {
        uint8_t *copy = malloc(n);
        memcpy(copy, file, n);
        size_t keep = n;
        for (int i = 0; i < 1 + round % 40; i++) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            /* its headers are at both ends */
            size_t at = round % 3 == 0 ? random % 64 : round % 3 == 1 ? n - 1 - random % 4096 % n : random % n;
            copy[at] = (uint8_t)(random >> 32);
            if (round % 7 == 0) keep = random % n;
        }
        uint8_t *exact = malloc(keep ? keep : 1); /* so that a sanitizer sees the end */
        memcpy(exact, copy, keep);
        spp_symbols symbols = {0};
        (void)spp_symbols_read(&symbols, exact, keep);
        for (size_t i = 1; i < symbols.n; i++) CHECK(symbols.list[i - 1].at < symbols.list[i].at);
        (void)spp_symbols_find(&symbols, random);
        spp_symbols_free(&symbols);
        free(exact);
        free(copy);
    }
    spp_os_pages_free(file, n);
}

int main(void) {
    CHECK(spp_os_memory_init() == 0 && spp_os_lock_init(NULL) == 0);
    CHECK(spp_native_start((uintptr_t)recurse) == 0);
#if ORACLE
    test_agrees_with_libgcc();
#else
    recurse(3);
    printf("not compared with libgcc here\n");
#endif
    test_names_of_functions();
#ifdef __GLIBC__
    test_starts_of_functions();
#endif
    test_names_of_made_code();
    test_damaged_symbol_files();
    spp_native_stop();
    return check_done();
}
