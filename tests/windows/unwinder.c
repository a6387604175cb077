/* Walks of native frames beside Windows' own unwinder: unwinder.exe SAMPLES
 *
 * A thread runs Python programs in python3XX.dll, made by another compiler than this; it is suspended at instants that are
 * nobody's choice, walked by spprof's tables, and unwound by RtlVirtualUnwind from the same registers. Fails if two walks differ,
 * of which Windows' own reached the thread's beginning, or if more than one in a hundred did not; or if ours did not in one of a
 * thousand. (Or if the thread's state is not found where that Python keeps it: in a slot; from 3.12 on, while the thread runs
 * Python, in a thread-local variable of Python's too, and from 3.15 on only there.) RtlVirtualUnwind alone is asked, with
 * functions found beforehand: what finds them for it takes a lock that the suspended thread may hold. */
#include "os/windows/windows.h"

#include <Python.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/capture/frames_native.h"
#include "core/run/run.h"
#include "os/clock.h"
#include "os/context.h"
#include "os/memory.h"
#include "os/objects.h"
#include "os/slots.h"
#include "os/suspend/suspend.h"

#define DEEP 512u
#define LOOKS 20u /* for the thread's state */

typedef struct {
    uintptr_t base, end;
    const RUNTIME_FUNCTION *functions;
    size_t n;
} image;
static image images[512];
static size_t images_n;

static void see(void *arg, const spp_os_object *o) {
    (void)arg;
    if (o->functions == 0 || images_n == 512) return;
    images[images_n++] = (image){o->base, o->end, (const RUNTIME_FUNCTION *)o->functions,
                                 (o->functions_end - o->functions) / sizeof(RUNTIME_FUNCTION)};
}

static RUNTIME_FUNCTION *function_of(uintptr_t pc, uintptr_t *base) {
    for (size_t i = 0; i < images_n; i++) {
        if (pc < images[i].base || pc >= images[i].end) continue;
        uint32_t at = (uint32_t)(pc - images[i].base);
        *base = images[i].base;
        for (size_t k = 0; k < images[i].n; k++) {
            const RUNTIME_FUNCTION *f = &images[i].functions[k];
            if (at >= f->BeginAddress && at < f->EndAddress) return (RUNTIME_FUNCTION *)(uintptr_t)f;
        }
        return NULL;
    }
    *base = 0;
    return NULL;
}

/* Whether a function begins there: a jump to it is made without a frame. */
static bool is_function(const uint8_t *at) {
    uintptr_t base;
    const RUNTIME_FUNCTION *f = function_of((uintptr_t)at, &base);
    bool continues = f != NULL && (*(const uint8_t *)(base + f->UnwindData) >> 3 & UNW_FLAG_CHAININFO);
    return f != NULL && !continues && base + f->BeginAddress == (uintptr_t)at;
}

/* In an epilogue, what the next instructions do: pops, then a return or a jump that leaves the caller's return address on top.
 * RtlVirtualUnwind looks for epilogues only behind the end of a prologue, and wine's knows not all jumps. */
static bool run_epilogue(CONTEXT *c) {
    const uint8_t *p = (const uint8_t *)c->Rip;
    uintptr_t sp = c->Rsp, now[16];
    memcpy(now, &c->Rax, sizeof now); /* in the order of their numbers */
    for (; (*p & 0xf8) == 0x58 || (p[0] == 0x41 && (p[1] & 0xf8) == 0x58); sp += 8) {
        unsigned high = *p == 0x41 ? 8 : 0;
        p += *p == 0x41;
        now[(*p++ & 7u) + high] = *(uintptr_t *)sp;
    }
    bool returns = *p == 0xc3 || (*p == 0xf3 && p[1] == 0xc3);
    bool marked = p[0] == 0x48 && p[1] == 0xff && (p[2] & 0xf8) == 0xe0; /* REX.W says that a jump by a register leaves */
    bool far_away = *p == 0xe9 && is_function(p + 5 + *(const int32_t *)(p + 1));
    if (!returns && !marked && !far_away && (sp == c->Rsp || (*p != 0xe9 && *p != 0xeb))) return false;
    memcpy(&c->Rax, now, sizeof now);
    c->Rip = *(uintptr_t *)sp;
    c->Rsp = sp + 8;
    return true;
}

/* What Windows says: the addresses of the instructions, leaf first. */
static uint32_t by_windows(CONTEXT c, uintptr_t *pcs, uintptr_t *sps, bool *reached) {
    uint32_t n = 0;
    while (n < DEEP && c.Rip != 0) {
        uintptr_t base;
        pcs[n] = c.Rip;
        sps[n++] = c.Rsp;
        if (n == 1 && run_epilogue(&c)) continue;
        RUNTIME_FUNCTION *f = function_of(c.Rip - (n > 1), &base);
        if (base == 0) break;
        if (f == NULL) {
            c.Rip = *(uintptr_t *)c.Rsp;
            c.Rsp += 8;
        } else {
            void *data;
            uintptr_t frame;
            RtlVirtualUnwind(UNW_FLAG_NHANDLER, base, c.Rip, f, &c, &data, &frame, NULL);
        }
    }
    *reached = c.Rip == 0;
    return n;
}

static volatile bool ready;
static PyThreadState *volatile state; /* the program's */

/* How many of a suspended thread's own words, of those with such numbers, name its state. */
static uint32_t naming(const spp_os_subject *subject, uint32_t from, uint32_t to) {
    uint32_t n = 0;
    for (uint32_t k = from; k < to; k++) n += spp_os_slot_of(subject, k) == (uintptr_t)state;
    return n;
}

static DWORD WINAPI program(void *unused) {
    bool forever = unused == NULL;
    Py_Initialize();
    state = PyThreadState_Get();
    ready = !forever;
    while (forever) {
        PyRun_SimpleString("import json, re, math, decimal\n"
                           "class C:\n"
                           "    def __lt__(self, other): return id(self) < id(other)\n"
                           "sorted([C() for _ in range(50)])\n"
                           "re.findall('(ab|a)*c', 'ab' * 50 + 'c')\n"
                           "json.loads(json.dumps({'a': [1.5, None, 'x' * 30] * 20}))\n"
                           "str(3 ** 500), '%r %s' % (1.1, [2]), float('1e100')\n"
                           "exec('def f(n): return n and f(n - 1)\\nf(40)')\n"
                           "[x for x in map(str, range(100))], {}.fromkeys('abc'), compile('a + b * c', '', 'eval')\n");
        ready = true; /* all modules are loaded */
    }
    return 0;
}

int main(int argc, char **argv) {
    const char *why;
    unsigned wanted = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 2000, walks = 0, differ = 0, frames = 0, stray = 0,
             early = 0;
    static spp_native_scratch scratch;
    static spp_suspend_registers registers;
    DWORD tid;
    HANDLE thread = CreateThread(NULL, 0, program, NULL, 0, &tid);
    while (!ready) Sleep(10);
    spp_suspend_handle target;
    if (thread == NULL || spp_run_native(spp_os_symbol("_PyEval_EvalFrameDefault"), &why) != 0) return 2;
    if (spp_suspend_open((int32_t)tid, &target) != SPP_SUSPEND_DONE) return 2;
    spp_os_objects(see, NULL);
    uint32_t slots = spp_os_slots(), words = spp_os_words(), in_slots = 0, in_variables = 0;
    srand(1);
    while (walks < wanted) {
        spp_os_context context = {0};
        spp_os_subject subject = {0};
        uintptr_t low, end, theirs[DEEP], their_sps[DEEP];
        spp_os_sleep_until(spp_os_now_ns() + 100000 + (uint64_t)rand() % 400000);
        if (spp_suspend_stop(target, &registers, &context, &subject) != SPP_SUSPEND_DONE) return 2;
        (void)spp_os_regions(&context.sp, &low, &end, 1);
        uintptr_t all[SPP_OS_REGISTERS];
        spp_os_registers(&context, all);
        spp_unwind_walk w = {.pc = context.pc,
                             .sp = context.sp,
                             .fp = all[SPP_REG_FP],
                             .registers = all,
                             .stack_end = end,
                             .memory = SPP_UNWIND_OWN,
                             .pcs = scratch.pcs,
                             .cfas = scratch.cfas,
                             .max = DEEP};
        spp_unwind(&atomic_load(&spp_native_now)->map, &w);
        bool reached;
        uint32_t n = by_windows(*(const CONTEXT *)context.machine, theirs, their_sps, &reached);
        if (walks < LOOKS) {
            in_slots += naming(&subject, 0, slots);
            in_variables += naming(&subject, slots, words);
        }
        spp_suspend_go(target);
        walks++;
        frames += n;
        uint32_t bad = UINT32_MAX;
        for (uint32_t i = 0; i < n && i < w.depth && bad == UINT32_MAX; i++) {
            if (scratch.pcs[i] + (i > 0) != theirs[i] || (i + 1 < n && scratch.cfas[i] != their_sps[i + 1])) bad = i;
        }
        if (bad == UINT32_MAX && n != w.depth) bad = n < w.depth ? n : w.depth;
        early += w.end != SPP_UNWIND_REACHED;
        stray += !reached;
        if (reached && bad != UINT32_MAX && differ++ < 8) {
            uintptr_t base = 0, at = bad > 0 ? theirs[bad - 1] : theirs[0];
            (void)function_of(at, &base);
            printf("walk %u: frame %u of %u (%u by us); above it image %p + %#llx:", walks, bad, n, w.depth, (void *)base,
                   (unsigned long long)(at - base));
            for (unsigned k = 0; k < 12; k++) printf(" %02x", ((const uint8_t *)at)[k]);
            printf("\n");
        }
    }
    printf("%u walks, %u frames: %u differ; ours ended early in %u, Windows' in %u\n", walks, frames, differ, early, stray);
    printf("its state: in %u slots and %u thread-local variables (of %u in all) at %u looks\n", in_slots, in_variables,
           words - slots, LOOKS);
    fflush(stdout);
    uint32_t slots_wanted = PY_VERSION_HEX < 0x030F0000 ? LOOKS : 0,
             variables_wanted = PY_VERSION_HEX < 0x030C0000 ? 0 : LOOKS / 2;
    bool found = in_slots == slots_wanted && in_variables >= variables_wanted;
    TerminateProcess(GetCurrentProcess(), found && differ == 0 && early * 1000 <= walks && stray * 100 <= walks ? 0 : 1);
    return 1;
}
