#include "core/unwind.h"

#include <string.h>

#include "base/hints.h"
#include "base/peek.h"
#include "os/os.h"

#define ON_X86 (SPP_REG_FP == 6)
#define RED_ZONE 128u /* x86_64: what lies below sp and is in use */

/* Where the walk is, in registers. */
typedef struct {
    uintptr_t pc, sp, fp;
    bool called;
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

/* CPython's trampolines, one for each Python function under -X perf, copied to memory of their own: endbr64 perhaps, sub $8,
 * %rsp; call *%rcx; add $8, %rsp; ret (3.12, 3.13), or push %rbp; mov %rsp, %rbp; call *%rcx; pop %rbp; ret (its
 * Python/asm_trampoline.S). `pc` is the last byte of the call. x86_64. */
static SPP_COLD uint32_t rule_of_trampoline(uintptr_t pc) {
    static const uint8_t moved[] = {0x48, 0x83, 0xec, 8, 0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3};
    static const uint8_t framed[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd1, 0x5d, 0xc3};
    uint8_t code[sizeof moved]; /* a copy: the address may be anything */
    if (!ON_X86 || spp_os_read(code, pc - 5, sizeof code) != 0) return 0;
    if (memcmp(code, moved, sizeof moved) == 0) return SPP_UNWIND_MOVED;
    return memcmp(code, framed, sizeof framed) == 0 ? SPP_UNWIND_FRAMED : 0;
}

static inline const spp_unwind_rule *rule_at(const spp_unwind_map *map, spp_unwind_cache *cache, uintptr_t pc) {
    uint64_t *slot = NULL;
    if (spp_usual(cache != NULL)) {
        slot = &cache->of_pc[(pc * 0x9E3779B97F4A7C15u) >> 54];
        if (spp_usual(*slot >> 16 == pc)) return &map->rules[*slot & 0xffff];
    }
    const spp_unwind_object *object = spp_unwind_object_of(map, pc);
    uint32_t number = spp_usual(object != NULL) ? spp_unwind_find(object, pc) : rule_of_trampoline(pc);
    if (slot != NULL) *slot = (uint64_t)pc << 16 | number;
    return &map->rules[number];
}

static inline bool peek(spp_unwind_walk *w, uintptr_t sp, uintptr_t at, uintptr_t *value) {
    if (spp_rare(at < sp - RED_ZONE || at > w->stack_end - sizeof *value || (at & (sizeof *value - 1)))) return false;
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

/* Whether a call may end where `back` points to: the instruction before it is one. x86_64. */
static bool behind_call(const spp_unwind_map *map, uintptr_t back) {
    if (rule_at(map, NULL, back - 1)->kind == SPP_CFA_NONE || !spp_os_readable(back - 8)) return false;
    const uint8_t *p = (const uint8_t *)back;
    return p[-5] == 0xe8 || p[-2] == 0xff || p[-3] == 0xff || p[-4] == 0xff || p[-6] == 0xff || p[-7] == 0xff;
}

/* Whether pc is in a trampoline of libffi: endbr64, then a load of r10 or r11 and a jump; the stack is as the caller left it.
 * Each begins at a multiple of 16 and may be 32 bytes long (libffi's src/x86/unix64.S and ffi64.c). x86_64. */
static bool in_trampoline(uintptr_t pc) {
    static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
    for (uintptr_t at = pc & ~(uintptr_t)15; at + 32 > pc; at -= 16) {
        const uint8_t *p = (const uint8_t *)at;
        if (!spp_os_readable(at)) return false;
        if (memcmp(p, endbr64, sizeof endbr64) == 0) return p[4] == 0x4c || p[4] == 0x49;
    }
    return false;
}

/* Without a rule: an interrupted function that made no frame yet (its return address is on top of the stack), else the frame
 * pointer. */
static SPP_COLD bool step_without(const spp_unwind_map *map, spp_unwind_walk *w, frame *f, uintptr_t *cfa) {
    uintptr_t back, fp;
    bool known = spp_unwind_object_of(map, f->pc) != NULL;
    if (!known && !w->guess && !(ON_X86 && !f->called && in_trampoline(f->pc))) return false;
    if (ON_X86 && !f->called && peek(w, f->sp, f->sp, &back) && behind_call(map, back)) {
        *cfa = f->sp + 8;
        f->pc = back;
        return true;
    }
    /* It may be any number: what lies between the stack and its end is not to be believed. */
    if (w->memory == SPP_UNWIND_OWN) w->memory = SPP_UNWIND_PROBED;
    w->guessed = true;
    if (f->fp < f->sp || !peek(w, f->sp, f->fp, &fp) || !peek(w, f->sp, f->fp + 8, &back)) return false;
    *cfa = f->fp + 16;
    f->pc = back;
    f->fp = fp;
    return true;
}

/* The kernel's frame of a signal; `at` is where it keeps sp. struct sigcontext in Linux's arch/x86/include/uapi/asm/sigcontext.h:
 * ... bp bx dx ax cx sp ip. */
static SPP_COLD bool step_signal(spp_unwind_walk *w, frame *f, uintptr_t at, uintptr_t *cfa) {
    uintptr_t sp, fp, pc;
    if (!peek(w, f->sp, at, &sp) || !peek(w, f->sp, at - 40, &fp) || !peek(w, f->sp, at + 8, &pc)) return false;
    *cfa = sp;
    f->fp = fp;
    f->pc = pc;
    return true;
}

/* One step by a rule. False: astray, or without a rule (*end tells). */
static inline bool step(const spp_unwind_map *map, spp_unwind_walk *w, const spp_unwind_rule *rule, frame *f, bool first,
                        uintptr_t *cfa, spp_unwind_end *end) {
    uintptr_t base = 0, back = 0, fp = f->fp;
    *end = SPP_UNWIND_NO_RULE;
    switch (rule->kind) {
    case SPP_CFA_REG:
        if (!register_of(w, f, rule->reg, first, &base)) return false;
        *cfa = base + (uintptr_t)(intptr_t)rule->off;
        break;
    case SPP_CFA_DEREF:
        if (!register_of(w, f, rule->reg, first, &base)) return false;
        if (!peek(w, f->sp, base + (uintptr_t)(intptr_t)rule->off, cfa)) return false;
        *cfa += rule->add;
        break;
    case SPP_CFA_PLT: *cfa = f->sp + ((f->pc & 15) >= rule->add ? 16 : 8); break;
    case SPP_CFA_SIGNAL:
        if (!step_signal(w, f, f->sp + (uintptr_t)(intptr_t)rule->off, cfa)) return false;
        f->called = false;
        goto check;
    default:
        if (!step_without(map, w, f, cfa)) return false;
        f->called = true;
        goto check;
    }
    if (spp_rare(rule->ra == SPP_UNWIND_END)) {
        *end = SPP_UNWIND_REACHED;
        return false;
    }
    if (spp_rare(rule->ra <= SPP_UNWIND_AT_FP)) {
        if (rule->ra != SPP_UNWIND_SAME || !first || w->registers == NULL || ON_X86) return false;
        back = w->registers[SPP_REG_RA % SPP_OS_REGISTERS];
    } else if (!peek(w, f->sp, *cfa + (uintptr_t)(intptr_t)rule->ra, &back)) {
        *end = SPP_UNWIND_ASTRAY;
        return false;
    }
    if (rule->fp > SPP_UNWIND_AT_FP) {
        if (!peek(w, f->sp, *cfa + (uintptr_t)(intptr_t)rule->fp, &fp)) return false;
    } else if (rule->fp == SPP_UNWIND_AT_FP) {
        if (!peek(w, f->sp, f->fp, &fp)) return false;
    } else if (rule->fp == SPP_UNWIND_LOST) {
        fp = 0;
    }
    f->pc = back;
    f->fp = fp;
    f->called = true;
check:
    *end = SPP_UNWIND_ASTRAY;
    return *cfa > f->sp && *cfa <= w->stack_end && (*cfa & 7) == 0;
}

SPP_HOT void spp_unwind(const spp_unwind_map *map, spp_unwind_walk *w) {
    frame f = {w->pc, w->sp, w->fp, w->called};
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
