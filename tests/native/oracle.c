/* Walks the interrupted stack twice at each signal, by csrc/core/native/unwind.c and by libunwind, and counts how they agree.
 * Loaded by tests/targets/oracle.py into the process that runs the workload. */
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>

#include "core/native/native.h"
#include "os/context.h"
#include "os/lock.h"
#include "os/memory.h"

enum { DEPTH = 1000, KEPT = 64 };

/* Of all samples: `equal` agree in every frame; `untold`: they agree up to a frame of which libunwind has no unwind information,
 * from where on it guesses or ends; `blind`: both ended at a frame of which neither has any; `early`: libunwind
 * ended before the entry point all the same; `ours`: we did. Any other has
 * other frames. `reached`: ours came to the thread's entry point.
 * `witnessed`: those of `untold` in which the callers of the frame without information, or of its caller, are a chain down to the
 * entry point that libunwind itself found in another sample. */
typedef struct {
    uint64_t samples, equal, untold, blind, early, ours, other, reached, witnessed;
} oracle_counts;
typedef struct {
    uintptr_t ours, theirs, leaf; /* where they part (0: ended), and the innermost frame */
    int32_t frame, error;         /* counted from the leaf; libunwind's word */
} oracle_difference;

oracle_counts counts;
oracle_difference differences[KEPT];
static uint32_t differences_n;
static spp_unwind_cache cache;
static uintptr_t own[DEPTH], cfas[DEPTH], others[DEPTH];
static pthread_t watched;

/* Chains of callers, each by a hash of its addresses from the entry point on: those that both unwinders found, and those of
 * samples in which libunwind lost its way. */
enum { CHAINS = 1 << 20, UNTOLD = 1 << 16, TRIED = 3 };
static uint64_t chains[CHAINS], untold[UNTOLD][TRIED], chain_of[DEPTH + 1];
static uint32_t untold_n;

static void hash_chains(const uintptr_t *pcs, uint32_t n) {
    chain_of[n] = 1;
    for (uint32_t i = n; i-- > 0;) {
        uint64_t x = (chain_of[i + 1] ^ pcs[i]) * 0x9E3779B97F4A7C15u;
        chain_of[i] = x ^ x >> 29;
    }
}

static bool known_chain(uint64_t chain, bool add) {
    for (uint64_t i = chain, tries = 0; tries < 64; i++, tries++) {
        uint64_t *slot = &chains[i % CHAINS];
        if (*slot == chain) return true;
        if (*slot == 0) {
            if (add) *slot = chain;
            return false;
        }
    }
    return false;
}
static uintptr_t stack_end;

static void handler(int signal, siginfo_t *info, void *raw) {
    (void)signal, (void)info;
    const ucontext_t *context = raw;
    const spp_native_view *view = atomic_load(&spp_native_now);
    if (view == NULL || !pthread_equal(pthread_self(), watched)) return;
    uintptr_t registers[SPP_OS_REGISTERS];
    const greg_t *machine = context->uc_mcontext.gregs;
    const spp_os_context interrupted = {.machine = raw, .pc = (uintptr_t)machine[REG_RIP], .sp = (uintptr_t)machine[REG_RSP]};
    spp_os_registers(&interrupted, registers);
    spp_unwind_walk w = {.pc = interrupted.pc,
                         .sp = interrupted.sp,
                         .fp = registers[SPP_REG_FP],
                         .registers = registers,
                         .stack_end = stack_end,
                         .memory = SPP_UNWIND_OWN,
                         .cache = &cache,
                         .pcs = own,
                         .cfas = cfas,
                         .max = DEPTH};
    spp_unwind(&view->map, &w);
    unw_cursor_t cursor;
    unw_word_t at;
    uint32_t n = 0, first_blind = DEPTH;
    int error = unw_init_local2(&cursor, (unw_context_t *)(uintptr_t)context, UNW_INIT_SIGNAL_FRAME);
    for (int more = 1; error >= 0 && more > 0 && n < DEPTH; more = error = unw_step(&cursor)) {
        unw_get_reg(&cursor, UNW_REG_IP, &at);
        if (at == 0) break;
        unw_proc_info_t about;
        if (first_blind == DEPTH && (unw_get_proc_info(&cursor, &about) != 0 || about.unwind_info == NULL)) first_blind = n;
        others[n] = n > 0 && unw_is_signal_frame(&cursor) <= 0 ? at - 1 : at; /* ours: in the instruction that calls */
        n++;
    }
    uint32_t alike = 0;
    while (alike < n && alike < w.depth && (own[alike] == others[alike] || own[alike] + 1 == others[alike])) alike++;
    counts.samples++;
    counts.reached += w.end == SPP_UNWIND_REACHED;
    if (alike == n && alike == w.depth && first_blind < n && w.end != SPP_UNWIND_REACHED) {
        counts.blind++;
        return;
    }
    if (alike == n && alike == w.depth) {
        counts.equal++;
        hash_chains(own, w.depth);
        for (uint32_t i = w.depth; i-- > 1;) (void)known_chain(chain_of[i], true); /* the leaf is nobody's caller */
        return;
    }
    if (alike > first_blind) {
        counts.untold++;
        hash_chains(own, w.depth);
        for (uint32_t i = 0; i < TRIED && untold_n < UNTOLD; i++) {
            untold[untold_n][i] = first_blind + 1 + i < w.depth ? chain_of[first_blind + 1 + i] : 0;
        }
        if (untold_n < UNTOLD) untold_n++;
    } else if (alike == n)
        counts.early++;
    else if (alike == w.depth)
        counts.ours++;
    else
        counts.other++;
    if (differences_n < KEPT) {
        differences[differences_n++] =
            (oracle_difference){alike < w.depth ? own[alike] : 0, alike < n ? others[alike] : 0, own[0], (int32_t)alike, error};
    }
}

int oracle_start(uintptr_t evaluator, unsigned interval_us);
int oracle_start(uintptr_t evaluator, unsigned interval_us) {
    pthread_attr_t attributes;
    void *low;
    size_t size;
    if (spp_os_memory_init() != 0 || spp_os_lock_init(NULL) != 0 || spp_native_start(evaluator, NULL) != 0) return -1;
    watched = pthread_self();
    if (pthread_getattr_np(watched, &attributes) != 0 || pthread_attr_getstack(&attributes, &low, &size) != 0) return -1;
    stack_end = (uintptr_t)low + size;
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct itimerval interval = {{0, (suseconds_t)interval_us}, {0, (suseconds_t)interval_us}};
    return sigaction(SIGPROF, &action, NULL) != 0 || setitimer(ITIMER_PROF, &interval, NULL) != 0 ? -1 : 0;
}

void oracle_stop(void);
void oracle_stop(void) {
    struct itimerval none = {{0, 0}, {0, 0}};
    setitimer(ITIMER_PROF, &none, NULL);
    signal(SIGPROF, SIG_IGN);
    for (uint32_t n = 0; n < untold_n; n++) {
        bool known = false;
        for (uint32_t i = 0; i < TRIED; i++) known = known || (untold[n][i] != 0 && known_chain(untold[n][i], false));
        counts.witnessed += known;
    }
}
