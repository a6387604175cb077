#include "core/capture/frames_native.h"

#include "base/hints.h"
#include "py/layout.h"

#define FRAMES_A_MS 5000u /* native frames of a walk for each millisecond between ticks: about a third of that time */
#define STACK_MOST ((uintptr_t)64 << 20) /* limit of a stack with an unknown end */

/* The distance from an entry frame to its evaluator's CFA: constant in a build. Learned from frames
 * with unwind information, to cross code without any (CPython's JIT). */
static _Atomic uintptr_t to_cfa;
/* And the distances from the CFA to the saved frame pointer of the evaluator's caller, and to its
 * return address. */
static _Atomic int32_t cfa_to_fp, cfa_to_ra;

uint32_t spp_native_most(uint64_t interval_ns) {
    uint64_t most = interval_ns * FRAMES_A_MS / 1000000;
    return most < 128 ? 128 : most > SPP_NATIVE_MAX ? SPP_NATIVE_MAX : (uint32_t)most;
}

/* Handler. Where there is no rule: continues at the evaluator whose C frame holds the next anchor. */
static bool cross(const spp_walk *python, spp_unwind_walk *w, uint32_t *next, const spp_native_view *view) {
    uintptr_t distance = atomic_load_explicit(&to_cfa, memory_order_acquire), pc, fp;
    while (*next < python->anchors_n && python->anchors[*next].at < w->sp) ++*next;
    if (*next == python->anchors_n || distance == 0 || w->depth == w->max) return false;
    uintptr_t cfa = python->anchors[(*next)++].at + distance;
    uintptr_t saved = cfa + (uintptr_t)(intptr_t)atomic_load_explicit(&cfa_to_fp, memory_order_relaxed);
    uintptr_t back = cfa + (uintptr_t)(intptr_t)atomic_load_explicit(&cfa_to_ra, memory_order_relaxed);
    if (cfa > w->stack_end || !spp_unwind_peek(w, back, &pc) || !spp_unwind_peek(w, saved, &fp)) return false;
    w->pcs[w->depth] = view->evaluator[0].low;
    w->cfas[w->depth++] = cfa;
    w->pc = spp_arch_unsigned(pc);
    w->sp = cfa;
    w->fp = fp;
    w->called = true;
    return true;
}

/* Handler. Walks all native frames; the result says what is missing. */
static uint32_t unwind_all(const spp_native_view *view, const spp_walk *python, spp_unwind_walk *w) {
    uint32_t next = 0, flags = 0;
    spp_unwind(&view->map, w);
    while (spp_rare(w->end == SPP_UNWIND_NO_RULE || w->end == SPP_UNWIND_ASTRAY)) {
        if (!cross(python, w, &next, view)) break;
        flags = SPP_SAMPLE_GAP;
        if (w->stop == 0 || w->sp <= w->stop)
            spp_unwind(&view->map, w);
        else
            w->end = SPP_UNWIND_STOPPED;
    }
    if (w->end == SPP_UNWIND_TOO_DEEP) return flags | SPP_SAMPLE_TRUNCATED;
    return (w->end == SPP_UNWIND_REACHED || w->end == SPP_UNWIND_STOPPED) && !w->guessed ? flags : SPP_SAMPLE_GAP;
}

static inline spp_frame native_frame(uintptr_t pc, bool evaluates) {
    return spp_frame_native(pc) | (evaluates ? SPP_NATIVE_EVALUATOR : 0);
}

#if SPP_L_CHAIN == 1

static bool is_evaluator(const spp_native_view *view, uintptr_t pc) {
    for (uint32_t i = 0; i < SPP_EVALUATOR_PARTS; i++) {
        if (pc >= view->evaluator[i].low && pc < view->evaluator[i].high) return true;
    }
    return false;
}

/* Handler. Expects one evaluator for each Python frame, and perhaps one more: the newest, without a
 * frame yet or any more. */
static bool merge(const spp_native_view *view, const spp_walk *python, const spp_unwind_walk *w, spp_native_mode mode,
                  spp_frame *out, uint32_t *depth) {
    uint32_t evaluators = 0, n = 0, p = 0;
    if (w->end != SPP_UNWIND_REACHED || (python->flags & SPP_SAMPLE_TRUNCATED)) return false;
    for (uint32_t i = 0; i < w->depth; i++) evaluators += is_evaluator(view, w->pcs[i]);
    if (evaluators != python->depth && evaluators != python->depth + 1) return false;
    uint32_t skip = evaluators - python->depth;
    for (uint32_t i = 0; i < w->depth; i++) {
        bool evaluates = is_evaluator(view, w->pcs[i]);
        if (evaluates) {
            if (skip > 0)
                skip--;
            else
                out[n++] = python->out[p++];
        }
        if (mode == SPP_NATIVE_ALL || p == 0) out[n++] = native_frame(w->pcs[i], evaluates);
    }
    while (mode == SPP_NATIVE_LEAF && p < python->depth) out[n++] = python->out[p++];
    *depth = n;
    return true;
}

#else

/* Handler. Each anchor lies in the C frame of its evaluator. */
static bool merge(const spp_native_view *view, const spp_walk *python, const spp_unwind_walk *w, spp_native_mode mode,
                  spp_frame *out, uint32_t *depth) {
    uint32_t n = 0, p = 0, k = 0;
    uintptr_t low = python->sp;
    bool cut = (python->flags & SPP_SAMPLE_TRUNCATED) != 0;
    (void)view;
    for (uint32_t i = 0; i < w->depth; low = w->cfas[i++]) {
        bool evaluates = k < python->anchors_n && python->anchors[k].at < w->cfas[i];
        if (evaluates) {
            if (python->anchors[k].at < low) return false;
            for (; p < python->anchors[k].depth && p < python->depth; p++) out[n++] = python->out[p];
            k++;
            if (mode == SPP_NATIVE_LEAF && p > 0) break;
        }
        out[n++] = native_frame(w->pcs[i], evaluates);
        if (spp_rare(cut && k == python->anchors_n)) break; /* the rest belongs to frames that were not walked */
    }
    bool too_deep = w->end == SPP_UNWIND_TOO_DEEP; /* the root part of both stacks is missing */
    while (!too_deep && (mode == SPP_NATIVE_LEAF || cut) && p < python->depth) out[n++] = python->out[p++];
    *depth = n;
    return too_deep ? n > 0 : p == python->depth;
}

/* Handler. Learns the distance from an evaluator's CFA to its anchor, the first time that both are
 * known. */
static void learn(const spp_native_view *view, const spp_walk *python, const spp_unwind_walk *w) {
    if (spp_usual(atomic_load_explicit(&to_cfa, memory_order_acquire) != 0) || python->anchors_n == 0) return;
    for (uint32_t i = 0; i < w->depth; i++) {
        if (python->anchors[0].at >= w->cfas[i]) continue;
        const spp_unwind_object *object = spp_unwind_object_of(&view->map, w->pcs[i]);
        if (object == NULL) return;
        const spp_unwind_rule *rule = &view->map.rules[spp_unwind_find(object, w->pcs[i])];
        if (rule->fp <= SPP_UNWIND_AT_FP || rule->ra <= SPP_UNWIND_AT_FP) return;
        atomic_store_explicit(&cfa_to_fp, rule->fp, memory_order_relaxed);
        atomic_store_explicit(&cfa_to_ra, rule->ra, memory_order_relaxed);
        atomic_store_explicit(&to_cfa, w->cfas[i] - python->anchors[0].at, memory_order_release);
        return;
    }
}

#endif

/* Handler. Removes our own frames: those of the wrappers by which the program calls the C library.
 * `leaf`: the function that has just returned into a wrapper, shown in its place; 0: none. */
static inline void hide_own(const spp_native_view *view, spp_unwind_walk *w, uintptr_t leaf) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->depth; i++) {
        bool own = w->pcs[i] >= view->own.low && w->pcs[i] < view->own.high;
        if (spp_rare(own) &&
            (leaf == 0 || (i + 1 < w->depth && w->pcs[i + 1] >= view->own.low && w->pcs[i + 1] < view->own.high)))
            continue;
        w->pcs[n] = own ? leaf : w->pcs[i];
        w->cfas[n++] = w->cfas[i];
        leaf = 0;
    }
    w->depth = n;
}

/* The walk's Python frames are in the scratch space; `w` is at the first native one. */
static inline void add_native(spp_native_scratch *scratch, spp_walk *walk, spp_unwind_walk *w, const spp_native_view *view,
                              spp_native_mode mode, spp_frame *out, uintptr_t leaf) {
    uint32_t merged;
    w->guess = atomic_load_explicit(&to_cfa, memory_order_acquire) == 0 || walk->anchors_n == 0;
    w->stop = mode == SPP_NATIVE_LEAF && walk->anchors_n > 0 ? walk->anchors[0].at : 0;
    w->pcs = scratch->pcs;
    w->cfas = scratch->cfas;
    w->max = scratch->most;
    uint32_t flags = unwind_all(view, walk, w);
    hide_own(view, w, leaf);
    if (spp_usual(merge(view, walk, w, mode, out, &merged))) {
#if SPP_L_CHAIN != 1
        if (flags == 0) learn(view, walk, w);
#endif
        walk->flags |= flags | (walk->flags & SPP_SAMPLE_TRUNCATED ? SPP_SAMPLE_GAP : 0);
        walk->depth = merged;
    } else {
        for (uint32_t i = 0; i < walk->depth; i++) out[i] = scratch->python[i];
        out[walk->depth++] = SPP_NATIVE_UNPAIRED;
        walk->flags |= SPP_SAMPLE_UNPAIRED;
    }
    walk->out = out;
}

SPP_HOT enum spp_loss spp_frames_native_own(spp_native_scratch *scratch, spp_walk *walk, const spp_os_context *context,
                                            spp_native_mode mode) {
    uintptr_t registers[SPP_OS_REGISTERS];
    const spp_native_view *view = atomic_load(&spp_native_now);
    spp_frame *out = walk->out;
    if (spp_rare(view == NULL)) return spp_frames_own(walk);
    walk->out = scratch->python;
    walk->anchors = scratch->anchors;
    walk->anchors_max = SPP_NATIVE_MAX;
    enum spp_loss loss = spp_frames_own_anchored(walk);
    if (spp_rare(loss != SPP_LOSS_NONE)) return loss;
    spp_os_registers(context, registers);
    bool bounded = walk->stack_end != 0;
    spp_unwind_walk w = {.pc = context->pc,
                         .sp = context->sp,
                         .fp = registers[SPP_REG_FP],
                         .registers = registers,
                         .stack_end = bounded ? walk->stack_end : context->sp + STACK_MOST,
                         .memory = bounded ? SPP_UNWIND_OWN : SPP_UNWIND_PROBED,
                         .cache = &scratch->cache};
    add_native(scratch, walk, &w, view, mode, out, context->called);
    return SPP_LOSS_NONE;
}

enum spp_loss spp_frames_native_other(spp_native_scratch *scratch, spp_walk *walk, uintptr_t pc, spp_native_mode mode) {
    const spp_native_view *view = atomic_load(&spp_native_now);
    spp_frame *out = walk->out;
    if (view == NULL) return spp_frames_other(walk);
    walk->out = scratch->python;
    walk->anchors = scratch->anchors;
    walk->anchors_max = SPP_NATIVE_MAX;
    enum spp_loss loss = spp_frames_other_anchored(walk);
    scratch->python_n = walk->depth;
    if (loss != SPP_LOSS_NONE) return loss;
    spp_unwind_walk w = {
        .pc = pc, .sp = walk->sp, .stack_end = walk->sp + STACK_MOST, .memory = SPP_UNWIND_OTHER, .cache = &scratch->cache};
    add_native(scratch, walk, &w, view, mode, out, 0);
    return SPP_LOSS_NONE;
}
