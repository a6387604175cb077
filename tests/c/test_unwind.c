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

#include "base/sample.h"
#include "check.h"
#include "core/native/native.h"
#include "core/native/symbols.h"
#include "os/context.h"
#include "os/lock.h"
#include "os/memory.h"
#include "os/objects.h"
#include "processes.h"

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
static _Atomic int samples, agreed, short_oracle, in_signals, ends[SPP_UNWIND_TOO_DEEP + 1];
static volatile bool in_signal;

static _Unwind_Reason_Code note(struct _Unwind_Context *context, void *unused) {
    (void)unused;
    int before = 0;
    uintptr_t pc = _Unwind_GetIPInfo(context, &before);
    if (oracle_n < MOST) oracle[oracle_n++] = pc - (before ? 0 : 1);
    return _URC_NO_REASON;
}

/* Walks from these registers. */
static spp_unwind_walk walk(uintptr_t pc, const uintptr_t *registers, uintptr_t *to_pcs, uintptr_t *to_cfas) {
    spp_unwind_walk w = {.pc = pc,
                         .sp = registers[SPP_REG_SP],
                         .fp = registers[SPP_REG_FP],
                         .registers = registers,
                         .stack_end = stack_end,
                         .guess = true,
                         .cache = &cache,
                         .pcs = to_pcs,
                         .cfas = to_cfas,
                         .max = MOST};
    spp_unwind(&atomic_load(&spp_native_now)->map, &w);
    return w;
}

static uintptr_t read_registers(void *machine, uintptr_t registers[SPP_OS_REGISTERS]) {
    spp_os_context context = {.machine = machine};
    const ucontext_t *uc = machine;
    spp_os_registers(&context, registers);
#if defined(__x86_64__)
    return (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
#else
    return (uintptr_t)uc->uc_mcontext.pc;
#endif
}

/* The last but one instruction of a function with a realigned stack, `lea -8(%r10),%rsp` behind its `leave`: gcc 12's table still
 * has the CFA at the frame pointer, which is the caller's again, and libgcc crashes there. */
static bool has_left(uintptr_t pc) {
#if defined(__x86_64__)
    return memcmp((const void *)pc, "\x49\x8d\x62\xf8", 4) == 0;
#else
    (void)pc;
    return false;
#endif
}

static void tick(int signum, siginfo_t *info, void *machine) {
    uintptr_t registers[SPP_OS_REGISTERS], pc = read_registers(machine, registers);
    int saved = errno;
    (void)signum, (void)info;
    if (spp_arch_code_at(pc) == SPP_CODE_SIGNAL) return; /* on its way out of a handler: aarch64's libgcc 12 crashes there */
    if (has_left(pc)) return;
    spp_unwind_walk w = walk(pc, registers, pcs, cfas);
    samples++;
    ends[w.end]++;
    oracle_n = 0;
    _Unwind_Backtrace(note, NULL);
    int from = 0;
    while (from < oracle_n && oracle[from] != pc) from++; /* ours and the signal's frame come first */
    int same = 0;
    while (same < (int)w.depth && from + same < oracle_n && oracle[from + same] == pcs[same]) same++;
    /* libgcc gives one frame more where the entry point has no caller: address 0, less one. */
    if (same == (int)w.depth && w.end == SPP_UNWIND_REACHED) {
        agreed++;
        in_signals += in_signal;
    } else if (from + same == oracle_n) {
        short_oracle++;
    }
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
    volatile char *space = alloca((size_t)(n % 7 + 1) * 100);
    space[n % 100] = (char)n;
    spin();
    sink += (uint64_t)space[n % 100];
}

/* A realigned stack: its CFA is *(frame pointer - 8). */
static __attribute__((noinline)) void with_wide_locals(int n) {
    _Alignas(64) volatile uint64_t wide[8] = {0};
    volatile char *space = alloca((size_t)(n % 5 + 1) * 64);
    space[0] = 1;
    wide[n % 8] = sink;
    spin();
    sink += wide[n % 8] + (uint64_t)space[0];
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

/* ---- code without unwind information */

/* It makes a frame of its own, not with its first instruction, so its code does not show its layout either; and calls. */
void spp_test_bare(void (*call)(void));
#if defined(__x86_64__)
__asm__(".text\n.globl spp_test_bare\n.type spp_test_bare, @function\nspp_test_bare:\n"
        "nop\npush %rbp\nmov %rsp, %rbp\nsub $32, %rsp\ncall *%rdi\nleave\nret\n.size spp_test_bare, . - spp_test_bare");
static const uint8_t stub[] = {0xf3, 0x0f, 0x1e, 0xfa, 0x4c, 0x8d, 0x1d, 0, 0, 0, 0, 0xff}; /* as libffi's, see arch/x86_64.c */
#else
__asm__(".text\n.globl spp_test_bare\n.type spp_test_bare, @function\nspp_test_bare:\n"
        "stp x29, x30, [sp, #-48]!\nmov x29, sp\nblr x0\nldp x29, x30, [sp], #48\nret\n.size spp_test_bare, . - spp_test_bare");
/* Of a procedure linkage table: adrp x16; ldr x17, [x16]; add x16, x16; br x17 */
static const uint32_t stub[] = {0xf00000f0, 0xf9400211, 0x91000210, 0xd61f0220, 0xf00000f0, 0xf9400611};
#endif

static uintptr_t caller_cfa, handler_fp; /* of calls_bare, and of its caller */
static bool crossed;

static const char *name_at(uintptr_t pc) {
    spp_native_place place;
    return spp_native_place_of(pc, &place) && place.function != NULL ? place.function : "";
}

/* Where calls_bare's caller goes on: as if it had just called `pc`, whose first instruction was not run yet. */
static bool same_from(uintptr_t pc, uint32_t at, const spp_unwind_walk *w) {
    uintptr_t registers[SPP_OS_REGISTERS] = {0}, to_pcs[MOST], to_cfas[MOST], sp = w->cfas[at - 1];
    registers[SPP_REG_SP] = sp - SPP_CALL_PUSHES;
    registers[SPP_REG_FP] = handler_fp;
    if (SPP_CALL_PUSHES == 0) registers[SPP_REG_RA % SPP_OS_REGISTERS] = w->pcs[at] + 1;
    spp_unwind_walk again = walk(pc, registers, to_pcs, to_cfas);
    if (again.end != SPP_UNWIND_REACHED || again.depth != w->depth - at + 1 || to_pcs[0] != pc || to_cfas[0] != sp) return false;
    return memcmp(to_pcs + 1, w->pcs + at, (again.depth - 1) * sizeof *to_pcs) == 0 &&
           memcmp(to_cfas + 1, w->cfas + at, (again.depth - 1) * sizeof *to_cfas) == 0;
}

static void cross(int signum, siginfo_t *info, void *machine) {
    uintptr_t registers[SPP_OS_REGISTERS], pc = read_registers(machine, registers);
    (void)signum, (void)info;
    spp_unwind_walk w = walk(pc, registers, pcs, cfas);
    uint32_t at = 0;
    while (at < w.depth && strcmp(name_at(pcs[at]), "spp_test_bare") != 0) at++;
    CHECK(w.end == SPP_UNWIND_REACHED && w.guessed && at > 0 && at + 2 < w.depth);
    CHECK(strcmp(name_at(pcs[at - 1]), "is_called") == 0 && strcmp(name_at(pcs[at + 1]), "calls_bare") == 0);
    CHECK(cfas[at + 1] == caller_cfa && strcmp(name_at(pcs[at + 2]), "calls_in_signal") == 0);
    uint32_t beyond = at + 3;
    while (beyond < w.depth && strcmp(name_at(pcs[beyond]), "run") != 0) beyond++;
    CHECK(beyond > at + 4 && beyond < w.depth); /* the kernel's frame, and raise, lie between */
    CHECK(same_from((uintptr_t)spp_test_bare, at + 2, &w));
    CHECK(same_from((uintptr_t)stub, at + 2, &w));
    crossed = true;
}

static __attribute__((noinline)) void is_called(void) {
    raise(SIGUSR2);
    sink++;
}

static __attribute__((noinline)) void calls_bare(void) {
    volatile char space[200];
    space[0] = 1;
    caller_cfa = (uintptr_t)__builtin_dwarf_cfa();
    spp_test_bare(is_called);
    sink += (uint64_t)space[0];
}

/* Handlers that are interrupted themselves: the frame of a signal lies between. */
static void calls_in_signal(int signum) {
    (void)signum;
    handler_fp = (uintptr_t)__builtin_frame_address(0);
    calls_bare();
    sink++; /* so that this is no jump */
}

static void on_signal(int signum) {
    (void)signum;
    in_signal = true;
    spin();
    in_signal = false;
}

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
    CHECK(sigaction(SIGPROF, &action, NULL) == 0 && signal(SIGUSR1, on_signal) != SIG_ERR);
    action.sa_sigaction = cross;
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
    setitimer(ITIMER_PROF, &every, NULL);
    for (depth_left = 0; samples < 400; depth_left++) {
        recurse(depth_left % 20);
        for (int i = 0; i < 20; i++) raise(SIGUSR1);
    }
    setitimer(ITIMER_PROF, &never, NULL);
    CHECK(signal(SIGUSR1, calls_in_signal) != SIG_ERR && raise(SIGUSR1) == 0 && crossed);
    return NULL;
}

static void test_agrees_with_libgcc(void) {
    pthread_t thread;
    sigset_t ticks; /* that thread's alone */
    sigemptyset(&ticks);
    sigaddset(&ticks, SIGPROF);
    pthread_sigmask(SIG_BLOCK, &ticks, NULL);
    CHECK(pthread_create(&thread, NULL, run, NULL) == 0 && pthread_join(thread, NULL) == 0);
    printf("%d samples: %d agree (%d in a signal's handler), libgcc stops early in %d; ends: reached %d, no rule %d, astray %d\n",
           samples, agreed, in_signals, short_oracle, ends[SPP_UNWIND_REACHED], ends[SPP_UNWIND_NO_RULE],
           ends[SPP_UNWIND_ASTRAY]);
    CHECK(agreed + short_oracle == samples && agreed > samples / 2 && (in_signals > 0 || check_valgrind()));
}

#endif

/* ---- machine code that shows its frame layout */

typedef struct {
    uint32_t at, is; /* which instruction, or byte */
} known_row;

static void test_code_that_shows_its_frame_layout(void) {
#if defined(__x86_64__)
    /* CPython's trampolines; the last byte of the call is asked for. */
    static const uint8_t code[] = {0x48, 0x83, 0xec, 8,    0xff, 0xd1, 0x48, 0x83, 0xc4, 8,    0xc3, 0xcc, 0xcc,
                                   0x55, 0x48, 0x89, 0xe5, 0xff, 0xd1, 0x5d, 0xc3, 0xcc, 0xcc, 0xcc, 0xcc};
    static const known_row known[] = {{5, SPP_CODE_MOVED}, {18, SPP_CODE_FRAMED}, {4, SPP_CODE_UNKNOWN}, {6, SPP_CODE_UNKNOWN}};
    static const uint8_t calls[] = {0xe8, 0, 0, 0, 0, 0xff, 0xd0, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90};
    CHECK(spp_arch_behind_call((uintptr_t)calls + 5) && spp_arch_behind_call((uintptr_t)calls + 7));
    CHECK(!spp_arch_behind_call((uintptr_t)calls + 15));
#else
    static const uint32_t code[] = {
        0xa9bf7bf0, 0xd00000f0, 0xf947fe11, 0x913fe210, 0xd61f0220, 0xd503201f, 0xd503201f, 0xd503201f, /* the first of a PLT */
        0xf00000f0, 0xf9400211, 0x91000210, 0xd61f0220,                                                 /* one that follows */
        0xd503245f, 0xf00000f0, 0xf9400611, 0x91002210, 0xd503219f, 0xd61f0220,             /* signed, with a landing pad */
        0xd503201f, 0xd2801168, 0xd4000001,                                                 /* return from a signal */
        0xd503233f, 0xa9bf7bfd, 0x910003fd, 0xd63f0060, 0xa8c17bfd, 0xd50323bf, 0xd65f03c0, /* CPython's trampoline */
        0x94000010, 0xd63f0100, 0xd73f0881, 0xd63f08ff, 0xd65f03c0, 0x14000010,             /* bl, blr, blraa, blraaz; ret, b */
        0xd503201f, 0xd503201f, 0xd503201f, 0xd503201f, 0xd503201f, 0xd503201f};
    static const known_row known[] = {
        {0, SPP_CODE_UNKNOWN},  {1, SPP_CODE_MOVED},   {4, SPP_CODE_MOVED},    {8, SPP_CODE_BARE},     {11, SPP_CODE_BARE},
        {12, SPP_CODE_BARE},    {17, SPP_CODE_BARE},   {18, SPP_CODE_UNKNOWN}, {19, SPP_CODE_SIGNAL},  {20, SPP_CODE_SIGNAL},
        {24, SPP_CODE_UNKNOWN}, {25, SPP_CODE_FRAMED}, {26, SPP_CODE_UNKNOWN}, {28, SPP_CODE_UNKNOWN}, {29, SPP_CODE_UNKNOWN}};
    for (uint32_t i = 28; i < 34; i++) CHECK_EQUAL(spp_arch_behind_call((uintptr_t)&code[i + 1]), i < 32);
    CHECK(!spp_arch_behind_call((uintptr_t)&code[29] + 1));
    CHECK_EQUAL(spp_arch_code_at((uintptr_t)&code[25] - 1), SPP_CODE_FRAMED); /* as a walk asks: within the call */
#endif
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        CHECK_EQUAL(spp_arch_code_at((uintptr_t)&code[known[i].at]), known[i].is);
    }
    CHECK_EQUAL(spp_arch_code_at(8), SPP_CODE_UNKNOWN); /* nothing is there */
    CHECK_EQUAL(spp_arch_code_at(UINTPTR_MAX), SPP_CODE_UNKNOWN);
}

/* The highest address that a program may have, in the word of a frame. */
static void test_words_hold_every_address(void) {
    const uintptr_t highest = ((uintptr_t)1 << SPP_ADDRESS_BITS) - 8;
    CHECK_EQUAL(spp_frame_code(spp_frame_make(highest, 5)), highest);
    CHECK_EQUAL(spp_frame_offset(spp_frame_make(highest, 5)), 10);
    CHECK_EQUAL(spp_frame_offset(spp_frame_make(highest, SPP_NO_OFFSET)), SPP_OFFSET_NONE);
    CHECK(!spp_frame_is_native(spp_frame_make(highest, SPP_NATIVE_BITS - 1)));
    for (uintptr_t pc = highest; pc < highest + 8; pc++) {
        CHECK(spp_frame_is_native(spp_frame_native(pc)) && spp_frame_is_native(spp_frame_native(pc) | SPP_NATIVE_EVALUATOR));
        CHECK_EQUAL(spp_frame_pc(spp_frame_native(pc) | SPP_NATIVE_EVALUATOR), pc);
    }
}

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

/* Where functions begin, from unwind information alone. */
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
    CHECK(spp_native_start((uintptr_t)recurse, NULL) == 0);
#if ORACLE
    test_agrees_with_libgcc();
#else
    recurse(3);
    printf("not compared with libgcc here\n");
#endif
    test_code_that_shows_its_frame_layout();
    test_words_hold_every_address();
    test_names_of_functions();
#ifdef __GLIBC__
    test_starts_of_functions();
#endif
    test_names_of_made_code();
    test_damaged_symbol_files();
    spp_native_stop();
    return check_done();
}
