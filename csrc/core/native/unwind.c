#include "core/native/unwind.h"

#include <string.h>

#include "base/hints.h"
#include "base/peek.h"
#include "os/context.h"
#include "os/memory.h"

/* Where the walk is, in registers. */
typedef struct {
    uintptr_t pc, sp, fp;
    uintptr_t ra; /* the return address, while it may be in its register alone; 0: not known, or there is no such register */
    bool called;
    bool sp_low; /* sp is not known: it lies at `sp` or above */
} frame;

const spp_unwind_object *spp_unwind_object_of(const spp_unwind_map *map, uintptr_t pc) {
    uint32_t low = 0, high = map->objects_n;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (map->objects[middle]->low <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 && pc < map->objects[low - 1]->high ? map->objects[low - 1] : NULL;
}

static inline const spp_unwind_rule *rule_at(const spp_unwind_map *map, spp_unwind_cache *cache, uintptr_t pc) {
    uint64_t *slot = NULL;
    if (spp_usual(cache != NULL)) {
        slot = &cache->of_pc[(pc * 0x9E3779B97F4A7C15u) >> 54];
        if (spp_usual(*slot >> 16 == pc)) return &map->rules[*slot & 0xffff];
    }
    const spp_unwind_object *object = spp_unwind_object_of(map, pc);
    uint32_t number = 0;
    if (spp_usual(object != NULL)) number = spp_unwind_find(object, pc);
    if (spp_rare(number == 0) && (SPP_CODE_IN_OBJECTS || object == NULL)) number = spp_arch_code_at(pc);
    if (slot != NULL) *slot = (uint64_t)pc << 16 | number;
    return &map->rules[number];
}

static inline bool peek(spp_unwind_walk *w, uintptr_t sp, uintptr_t at, uintptr_t *value) {
    if (spp_rare(at < sp - SPP_RED_ZONE || at > w->stack_end - sizeof *value || (at & (sizeof *value - 1)))) return false;
    if (spp_rare(w->memory == SPP_UNWIND_OTHER)) return spp_os_read(value, at, sizeof *value) == 0;
    if (spp_rare(w->memory == SPP_UNWIND_PROBED) && (at ^ w->probed) > 4095) {
        if (!spp_os_readable(at)) return false;
        w->probed = at & ~(uintptr_t)4095;
    }
    *value = spp_peek64(at);
    return true;
}

bool spp_unwind_peek(spp_unwind_walk *w, uintptr_t at, uintptr_t *value) { return peek(w, w->sp, at, value); }

static inline bool register_of(spp_unwind_walk *w, const frame *f, uint8_t reg, bool first, uintptr_t *value) {
    if (reg == SPP_REG_SP)
        *value = f->sp;
    else if (reg == SPP_REG_FP)
        *value = f->fp;
    else if (first && w->registers != NULL && reg < SPP_OS_REGISTERS)
        *value = w->registers[reg];
    else
        return false;
    return true;
}

/* Whether a call may end where `back` points to: the instruction before it is one. */
static bool behind_call(const spp_unwind_map *map, uintptr_t back) {
    if (rule_at(map, NULL, back - 1)->kind == SPP_CFA_NONE || !spp_os_readable(back - 8)) return false;
    return spp_arch_behind_call(back);
}

/* The return address of an interrupted function, if it made no frame yet: on top of the stack, or in its register (and not yet
 * where the frame pointer points to). */
static bool frameless(const spp_unwind_map *map, spp_unwind_walk *w, const frame *f, uintptr_t *back) {
    uintptr_t saved;
    if (SPP_CALL_PUSHES != 0) return peek(w, f->sp, f->sp, back) && behind_call(map, *back);
    *back = f->ra;
    if (f->ra == 0 || !behind_call(map, f->ra)) return false;
    return f->fp < f->sp || !peek(w, f->sp, f->fp + 8, &saved) || spp_arch_unsigned(saved) != f->ra;
}

/* Without a rule: an interrupted function that made no frame yet, else the frame pointer. Where a call pushes nothing, that lies
 * at the lower end of the caller's frame, and sp is not known then. */
static SPP_COLD bool step_without(const spp_unwind_map *map, spp_unwind_walk *w, frame *f, uintptr_t *cfa) {
    uintptr_t back, fp;
    bool known = spp_unwind_object_of(map, f->pc) != NULL;
    if (!known && !w->guess && !(!f->called && spp_arch_in_trampoline(f->pc))) return false;
    if (!f->called && frameless(map, w, f, &back)) {
        *cfa = f->sp + SPP_CALL_PUSHES;
        f->pc = back;
        f->ra = 0;
        return true;
    }
    /* It may be any number: what lies between the stack and its end is not to be believed. */
    if (w->memory == SPP_UNWIND_OWN) w->memory = SPP_UNWIND_PROBED;
    w->guessed = true;
    if (f->fp < f->sp || !peek(w, f->sp, f->fp, &fp) || !peek(w, f->sp, f->fp + 8, &back)) return false;
    *cfa = f->fp + 16;
    f->pc = spp_arch_unsigned(back);
    f->fp = fp;
    f->ra = 0;
    f->sp_low = SPP_CALL_PUSHES == 0;
    return true;
}

/* The kernel's frame of a signal; `at` is where it keeps sp. */
static SPP_COLD bool step_signal(spp_unwind_walk *w, frame *f, uintptr_t at, uintptr_t *cfa) {
    uintptr_t sp, fp, pc, ra = 0;
    if (!peek(w, f->sp, at, &sp) || !peek(w, f->sp, at + (uintptr_t)SPP_SIGNAL_FP, &fp) ||
        !peek(w, f->sp, at + (uintptr_t)SPP_SIGNAL_PC, &pc)) {
        return false;
    }
    if (SPP_SIGNAL_RA != 0 && !peek(w, f->sp, at + (uintptr_t)SPP_SIGNAL_RA, &ra)) return false;
    *cfa = sp;
    f->fp = fp;
    f->pc = pc;
    f->ra = spp_arch_unsigned(ra);
    f->called = f->sp_low = false;
    return true;
}

/* The CFA of a caller whose sp is not known, from its frame pointer, which points to where it saved its caller's. */
static inline bool cfa_by_fp(const spp_unwind_rule *rule, const frame *f, uintptr_t *cfa) {
    *cfa = f->fp - (uintptr_t)(intptr_t)rule->fp;
    return f->called && rule->fp > SPP_UNWIND_AT_FP;
}

/* By a rule that only guesses: accepted if a call precedes the return address. */
static SPP_COLD bool likely(const spp_unwind_map *map, spp_unwind_walk *w, const spp_unwind_rule *rule, const frame *f,
                            bool first, uintptr_t *cfa) {
    uintptr_t base, back;
    if (!register_of(w, f, rule->reg, first, &base)) return false;
    *cfa = base + (uintptr_t)(intptr_t)rule->off;
    return *cfa > f->sp && peek(w, f->sp, *cfa + (uintptr_t)(intptr_t)rule->ra, &back) && behind_call(map, back);
}

/* What a rule says of a step: nothing; the CFA; or all of the caller's frame, without the rule's further columns. */
enum outcome { NOTHING, CFA, FRAME };

static inline enum outcome without(const spp_unwind_map *map, spp_unwind_walk *w, frame *f, uintptr_t *cfa) {
    if (!step_without(map, w, f, cfa)) return NOTHING;
    f->called = true;
    return FRAME;
}

static inline enum outcome cfa_of(const spp_unwind_map *map, spp_unwind_walk *w, const spp_unwind_rule *rule, frame *f,
                                  bool first, uintptr_t *cfa) {
    uintptr_t base = 0;
    switch (rule->kind) {
    case SPP_CFA_REG:
        if (SPP_CALL_PUSHES == 0 && spp_rare(f->sp_low) && rule->reg == SPP_REG_SP)
            return cfa_by_fp(rule, f, cfa) ? CFA : NOTHING;
        if (!register_of(w, f, rule->reg, first, &base)) return NOTHING;
        *cfa = base + (uintptr_t)(intptr_t)rule->off;
        return CFA;
    case SPP_CFA_LIKELY:
        if (likely(map, w, rule, f, first, cfa)) return CFA;
        *cfa = f->sp;
        return without(map, w, f, cfa);
    case SPP_CFA_DEREF:
        if (!register_of(w, f, rule->reg, first, &base)) return NOTHING;
        if (!peek(w, f->sp, base + (uintptr_t)(intptr_t)rule->off, cfa)) return NOTHING;
        *cfa += rule->add;
        return CFA;
    case SPP_CFA_PLT: *cfa = f->sp + ((f->pc & 15) >= rule->add ? 16 : 8); return CFA;
    case SPP_CFA_SIGNAL:
        if (SPP_CALL_PUSHES == 0 && f->sp_low) return NOTHING;
        return step_signal(w, f, f->sp + (uintptr_t)(intptr_t)rule->off, cfa) ? FRAME : NOTHING;
    default: return without(map, w, f, cfa);
    }
}

/* The caller's registers, by the CFA and the rule's further columns. False: as step. */
static inline bool registers_by(spp_unwind_walk *w, const spp_unwind_rule *rule, frame *f, uintptr_t cfa, spp_unwind_end *end) {
    uintptr_t back = 0, fp = f->fp;
    if (spp_rare(rule->ra == SPP_UNWIND_END)) {
        *end = SPP_UNWIND_REACHED;
        return false;
    }
    if (spp_rare(rule->ra <= SPP_UNWIND_AT_FP)) {
        if (SPP_CALL_PUSHES != 0 || rule->ra != SPP_UNWIND_SAME || f->ra == 0) return false;
        back = f->ra;
    } else if (!peek(w, f->sp, cfa + (uintptr_t)(intptr_t)rule->ra, &back)) {
        *end = SPP_UNWIND_ASTRAY;
        return false;
    }
    if (rule->fp > SPP_UNWIND_AT_FP) {
        if (!peek(w, f->sp, cfa + (uintptr_t)(intptr_t)rule->fp, &fp)) return false;
    } else if (rule->fp == SPP_UNWIND_AT_FP) {
        if (!peek(w, f->sp, f->fp, &fp)) return false;
    } else if (rule->fp == SPP_UNWIND_LOST) {
        fp = 0;
    }
    f->pc = spp_arch_unsigned(back);
    f->fp = fp;
    f->ra = 0;
    f->called = true;
    f->sp_low = false;
    return true;
}

/* One step by a rule. False: the walk is lost, or there is no rule (*end says which). */
static inline bool step(const spp_unwind_map *map, spp_unwind_walk *w, const spp_unwind_rule *rule, frame *f, bool first,
                        uintptr_t *cfa, spp_unwind_end *end) {
    *end = SPP_UNWIND_NO_RULE;
    enum outcome known = cfa_of(map, w, rule, f, first, cfa);
    if (known == NOTHING || (known == CFA && !registers_by(w, rule, f, *cfa, end))) return false;
    *end = SPP_UNWIND_ASTRAY;
    /* Where a call pushes nothing an interrupted function may have an empty frame. */
    return (*cfa > f->sp || (SPP_CALL_PUSHES == 0 && *cfa == f->sp)) && *cfa <= w->stack_end && (*cfa & 7) == 0;
}

SPP_HOT void spp_unwind(const spp_unwind_map *map, spp_unwind_walk *w) {
    frame f = {w->pc, w->sp, w->fp, 0, w->called, false};
    if (SPP_CALL_PUSHES == 0 && w->depth == 0 && w->registers != NULL) f.ra = spp_arch_unsigned(w->registers[SPP_REG_RA]);
    spp_unwind_cache *cache = w->cache;
    if (cache != NULL && spp_rare(cache->serial != map->serial)) {
        memset(cache->of_pc, 0, sizeof cache->of_pc);
        cache->serial = map->serial;
    }
    uint32_t depth = w->depth;
    w->end = SPP_UNWIND_TOO_DEEP;
    while (depth < w->max) {
        uintptr_t look = f.pc - f.called, cfa = f.sp;
        spp_unwind_end end;
        bool went = step(map, w, rule_at(map, cache, look), &f, depth == 0, &cfa, &end);
        w->pcs[depth] = look;
        w->cfas[depth++] = went || end == SPP_UNWIND_REACHED ? cfa : f.sp;
        if (spp_rare(!went)) {
            w->end = end;
            break;
        }
        f.sp = cfa;
        if (spp_rare(f.pc == 0)) { /* where there are no rules that say so */
            w->end = SPP_UNWIND_REACHED;
            break;
        }
        if (spp_rare(w->stop != 0 && cfa > w->stop)) {
            w->end = SPP_UNWIND_STOPPED;
            break;
        }
    }
    w->pc = f.pc;
    w->sp = f.sp;
    w->fp = f.fp;
    w->called = f.called;
    w->depth = depth;
}
