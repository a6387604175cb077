/* Rows from the tables of Windows' objects. Those of x64: RUNTIME_FUNCTION and UNWIND_INFO ("x64 exception handling" of
 * Microsoft's documentation, which names what is used here). Those of arm64: arch/seh_aarch64.c.
 *
 * The codes of a prologue say from which instruction on the stack has changed, and how; they are run
 * in the order of the instructions, the reverse of their order in the table. Epilogues have no codes.
 * They are recognized by their instructions, which may only release the stack, pop each pushed
 * register, and return or jump. So each such sequence in the code gets rows of its own. Code that is
 * in no function is a leaf, which changes nothing. */
#include <string.h>

#include "core/native/unwind_seh.h"

enum { FUNCTION_BYTES = 12, FUNCTION_BYTES_ARM64 = 8, HANDLER_FLAGS = 3, CHAINED = 4 };
enum { PUSH, ALLOC_LARGE, ALLOC_SMALL, SET_FRAME, SAVE, SAVE_FAR, EPILOGUE, SPARE, SAVE_XMM, SAVE_XMM_FAR, MACHINE_FRAME };
enum { RBP = 5, DEEP_MAX = 8, SLOTS_MAX = 255 };

typedef struct {
    uint32_t begin, end, info; /* from the image's base */
} function;

typedef struct {
    const spp_unwind_image *image;
    spp_unwind_object *object;
    spp_unwind_rules *rules;
} reader;

/* n bytes of the image at an address relative to its base; NULL: they are not all there. */
static const uint8_t *bytes_at(const spp_unwind_image *image, uint64_t at, size_t n) {
    return at <= image->n && n <= image->n - at ? image->at + at : NULL;
}

static uint32_t number(const uint8_t *at, size_t n) {
    uint32_t value = 0;
    memcpy(&value, at, n); /* little-endian, as x86_64 is */
    return value;
}

static bool function_at(const spp_unwind_image *image, uint64_t at, function *to) {
    const uint8_t *p = bytes_at(image, at, FUNCTION_BYTES);
    if (p == NULL) return false;
    *to = (function){number(p, 4), number(p + 4, 4), number(p + 8, 4)};
    return true;
}

static void add(const reader *r, uint64_t at, const spp_unwind_rule *rule) {
    spp_unwind_add(r->object, r->rules, r->image->base + at - r->object->low, rule);
}

/* ---- prologues */

/* What has been done to the stack so far. */
typedef struct {
    uint32_t pushed; /* bytes from the CFA down to rsp */
    bool framed;
    uint32_t frame_pushed;        /* `pushed` when the frame register was set: gcc pushes and allocates after that */
    uint8_t frame_reg;            /* its DWARF number */
    uint32_t frame_above;         /* bytes from rsp up to where it points */
    int32_t rbp_below;            /* bytes from the CFA down to where rbp is saved; 0: it is not */
    uint8_t pushes[16], pushes_n; /* which registers, by Windows' numbers */
} state;

/* Windows numbers registers as instructions do. */
static uint8_t dwarf_of(unsigned reg) {
    static const uint8_t dwarf[16] = {0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15};
    return dwarf[reg & 15];
}

static spp_unwind_rule rule_of(const state *s) {
    spp_unwind_rule rule = {.kind = SPP_CFA_REG, .reg = SPP_REG_SP, .ra = -8, .fp = SPP_UNWIND_SAME};
    rule.off = (int32_t)s->pushed;
    if (s->framed) {
        rule.reg = s->frame_reg;
        rule.off = (int32_t)s->frame_pushed - (int32_t)s->frame_above;
    }
    if (s->rbp_below != 0) rule.fp = s->rbp_below > -30000 && s->rbp_below < 30000 ? (int16_t)-s->rbp_below : SPP_UNWIND_LOST;
    return rule;
}

/* Slots of two bytes that a code takes; 0: not understood. */
static unsigned slots_of(unsigned op, unsigned info) {
    switch (op) {
    case PUSH:
    case ALLOC_SMALL:
    case SET_FRAME:
    case EPILOGUE:
    case MACHINE_FRAME: return 1;
    case ALLOC_LARGE: return info == 0 ? 2 : info == 1 ? 3 : 0;
    case SAVE:
    case SAVE_XMM:
    case SPARE: return 2;
    case SAVE_FAR:
    case SAVE_XMM_FAR: return 3;
    default: return 0;
    }
}

/* What a code, whose slots begin at p, takes from the stack. */
static uint32_t taken_by(const uint8_t *p) {
    unsigned info = p[1] >> 4;
    switch (p[1] & 15) {
    case PUSH: return 8;
    case ALLOC_SMALL: return info * 8 + 8;
    case ALLOC_LARGE: return info == 0 ? number(p + 2, 2) * 8 : number(p + 2, 4);
    default: return 0;
    }
}

/* One code. `all`: what is pushed where saves by a move are counted from. False: not understood. */
static bool do_code(state *s, const uint8_t *p, const uint8_t *head, uint32_t all) {
    unsigned op = p[1] & 15, info = p[1] >> 4;
    s->pushed += taken_by(p);
    switch (op) {
    case PUSH:
        if (s->pushes_n == 16) return false;
        s->pushes[s->pushes_n++] = (uint8_t)info;
        if (info == RBP) s->rbp_below = (int32_t)s->pushed;
        break;
    case SET_FRAME:
        s->framed = true;
        s->frame_pushed = s->pushed;
        s->frame_reg = dwarf_of(head[3] & 15);
        s->frame_above = (head[3] >> 4) * 16u;
        break;
    case SAVE:
    case SAVE_FAR:
        if (info == RBP) s->rbp_below = (int32_t)(all - (op == SAVE ? number(p + 2, 2) * 8 : number(p + 2, 4)));
        break;
    case MACHINE_FRAME: return false; /* of interrupts: nobody's but the kernel's */
    default: break;                   /* other registers are not followed */
    }
    return s->pushed < 1u << 30 && all < 1u << 30;
}

/* A function's states, from which of its places on. */
typedef struct {
    uint64_t at[SLOTS_MAX + 2];
    state is[SLOTS_MAX + 2];
    unsigned n;
} story;

static void add_state(story *states, uint64_t at, const state *s) {
    if (states->n > 0 && states->at[states->n - 1] == at) states->n--;
    states->at[states->n] = at;
    states->is[states->n++] = *s;
}

/* The codes of one UNWIND_INFO, in the order of the instructions; `depth` NULL: the function continues another one. */
static bool run_info(const reader *r, uint32_t info, state *s, const function *f, story *states, unsigned deep) {
    const uint8_t *head = bytes_at(r->image, info, 4);
    if (head == NULL || deep == DEEP_MAX || ((head[0] & 7) != 1 && (head[0] & 7) != 2)) return false;
    unsigned flags = head[0] >> 3, count = head[2], starts[SLOTS_MAX], n = 0;
    const uint8_t *codes = bytes_at(r->image, (uint64_t)info + 4, count * 2u);
    if (codes == NULL) return false;
    if (flags & CHAINED) { /* what another function's prologue did comes before */
        function parent;
        if (!function_at(r->image, (uint64_t)info + 4 + (count + 1u) / 2 * 4, &parent)) return false;
        if (!run_info(r, parent.info, s, NULL, NULL, deep + 1)) return false;
    }
    uint32_t all = s->pushed, after_frame = 0; /* after_frame: of these, what comes after the frame register is set */
    bool sets_frame = false;
    if (states != NULL) add_state(states, f->begin, s);
    for (unsigned i = 0; i < count;) {
        unsigned slots = slots_of(codes[2 * i + 1] & 15, codes[2 * i + 1] >> 4);
        if (slots == 0 || slots > count - i) return false;
        if ((codes[2 * i + 1] & 15) == SET_FRAME && !sets_frame) { /* the last instruction comes first */
            sets_frame = true;
            after_frame = all - s->pushed;
        }
        all += taken_by(codes + 2 * (size_t)i);
        starts[n++] = i;
        i += slots;
    }
    /* Saves are counted from rsp as the prologue leaves it, or from where it was when the frame register was set. */
    all = sets_frame ? all - after_frame : s->framed ? s->frame_pushed : all;
    while (n-- > 0) {
        const uint8_t *p = codes + 2 * (size_t)starts[n];
        if ((p[1] & 15) == EPILOGUE) continue; /* version 2: recognized by its instructions, as all others */
        if (!do_code(s, p, head, all)) return false;
        if (states != NULL && f->begin + (uint64_t)p[0] < f->end) add_state(states, f->begin + (uint64_t)p[0], s);
    }
    return true;
}

/* ---- epilogues */

/* The length of a pop at p, before end; 0: it is none. *reg: Windows' number of its register. */
static size_t pop_at(const uint8_t *p, const uint8_t *end, unsigned *reg) {
    bool wide = end - p >= 2 && p[0] == 0x41;
    const uint8_t *op = p + wide;
    if (op >= end || (*op & 0xf8) != 0x58) return 0;
    *reg = (*op & 7u) + (wide ? 8u : 0u);
    return 1u + wide;
}

/* The length of what gives the stack back at p: add rsp, `taken`; or, if there is a frame register, lea rsp, n[register]. 0:
 * none. */
static size_t give_back_at(const uint8_t *p, const uint8_t *end, uint32_t taken, bool framed) {
    size_t n = (size_t)(end - p);
    if (n >= 4 && p[0] == 0x48 && p[1] == 0x83 && p[2] == 0xc4) return (uint32_t)(int8_t)p[3] == taken ? 4 : 0;
    if (n >= 7 && p[0] == 0x48 && p[1] == 0x81 && p[2] == 0xc4) return number(p + 3, 4) == taken ? 7 : 0;
    if (framed && n >= 4 && (p[0] & 0xfe) == 0x48 && p[1] == 0x8d && (p[2] & 0x38) == 0x20 && (p[2] & 7) != 4) {
        if ((p[2] & 0xc0) == 0x40) return 4;
        if ((p[2] & 0xc0) == 0x80 && n >= 7) return 7;
    }
    return 0;
}

/* Whether the function is left at p, by a return or a jump. Its length. */
static size_t leaves_at(const uint8_t *p, const uint8_t *begin, const uint8_t *end) {
    size_t n = (size_t)(end - p);
    ptrdiff_t to = 0;
    if (n >= 1 && p[0] == 0xc3) return 1;
    if (n >= 2 && p[0] == 0xf3 && p[1] == 0xc3) return 2; /* rep ret */
    if (n >= 3 && p[0] == 0xc2) return 3;
    if (n >= 6 && p[0] == 0xff && p[1] == 0x25) return 6;
    if (n >= 3 && p[0] == 0x48 && p[1] == 0xff && (p[2] & 0xf8) == 0xe0) return 3;
    if (n >= 5 && p[0] == 0xe9) to = 5 + (ptrdiff_t)(int32_t)number(p + 1, 4);
    if (n >= 2 && p[0] == 0xeb) to = 2 + (ptrdiff_t)(int8_t)p[1];
    if (to == 0 || (to >= begin - p && to < end - p)) return 0;
    return p[0] == 0xe9 ? 5 : 2;
}

/* Adds rows for the epilogue that begins at `at`, if one does. The place behind it, or `at`. */
static uint64_t epilogue(const reader *r, const uint8_t *code, uint64_t at, const function *f, const state *done) {
    const uint8_t *whole = code, *begin = code + (at - f->begin), *end = code + (f->end - f->begin), *p = begin;
    uint64_t pops[17];
    unsigned n = 0, rbp_pop = 16, reg;
    size_t given = give_back_at(p, end, done->pushed - 8 - 8u * done->pushes_n, done->framed), length;
    for (p += given; n < done->pushes_n && (length = pop_at(p, end, &reg)) != 0; p += length) {
        if (reg != done->pushes[done->pushes_n - 1 - n]) return at;
        if (reg == RBP) rbp_pop = n;
        pops[n++] = at + (uint64_t)(p - begin);
    }
    size_t leave = n == done->pushes_n && (given != 0 || n > 0) ? leaves_at(p, whole, end) : 0;
    if (leave == 0) return at;
    pops[n] = at + (uint64_t)(p - begin);
    for (unsigned i = 0; i <= n; i++) { /* the instruction that releases the stack has the usual rule */
        uint32_t left = 8 * (n - i);
        spp_unwind_rule rule = {
            .kind = SPP_CFA_REG, .reg = SPP_REG_SP, .off = (int32_t)left + 8, .ra = -8, .fp = SPP_UNWIND_SAME};
        if (rbp_pop < 16 && i <= rbp_pop) rule.fp = (int16_t) - (int32_t)(8 * (n - rbp_pop) + 8);
        add(r, pops[i], &rule);
    }
    return pops[n] + leave;
}

/* The rows of a function, place by place: those of its states, and of the epilogues between. */
static void add_rows(const reader *r, const function *f, const story *states) {
    const uint8_t *code = bytes_at(r->image, f->begin, f->end - f->begin);
    unsigned k = 0;
    for (uint64_t at = f->begin; at < f->end;) {
        while (k + 1 < states->n && states->at[k + 1] <= at) k++;
        spp_unwind_rule rule = rule_of(&states->is[k]);
        add(r, at, &rule); /* the same as before, mostly */
        uint64_t behind = code != NULL ? epilogue(r, code, at, f, &states->is[k]) : f->end;
        at = behind != at ? behind : at + 1;
    }
}

/* ---- functions */

static void add_function(const reader *r, const function *f) {
    static const spp_unwind_rule leaf = {.kind = SPP_CFA_REG, .reg = SPP_REG_SP, .off = 8, .ra = -8, .fp = SPP_UNWIND_SAME};
    static const spp_unwind_rule none = {0};
    story states = {.n = 0};
    state s = {.pushed = 8};
    if (run_info(r, f->info, &s, f, &states, 0)) {
        add_rows(r, f, &states);
    } else {
        r->object->refused++;
        add(r, f->begin, &none);
    }
    add(r, f->end, &leaf);
}

/* What an entry says is behind the end of those before it, and in the object. */
static bool is_inside(const reader *r, const function *f, uint64_t end_place) {
    return f->begin >= end_place && f->end > f->begin && r->image->base + f->end <= r->object->high;
}

/* `part`: of the function before it, if it goes on right behind that, which then ends where the part does: Microsoft's compilers
 * cut large ones, CPython's evaluator say, into parts. Else it is nobody's. */
static void add_bounds(const reader *r, const function *f, bool part) {
    spp_bytes *all = &r->object->functions;
    uint64_t low = r->object->low - r->image->base;
    const uint32_t bounds[] = {(uint32_t)(f->begin - low), (uint32_t)(f->end - low)};
    uint32_t *last = all->n != 0 ? (uint32_t *)(void *)(all->at + all->n) - 2 : NULL;
    if (part && last != NULL && last[1] == bounds[0])
        last[1] = bounds[1];
    else if (!part && spp_bytes_append(all, bounds, sizeof bounds) != 0)
        r->object->out_of_memory = true;
}

static void read_x64(const reader *r) {
    const spp_unwind_image *image = r->image;
    spp_unwind_object *o = r->object;
    uint64_t end_place = o->low - image->base;
    function f;
    for (uint64_t at = image->functions; at < image->functions_end && !o->out_of_memory; at += FUNCTION_BYTES) {
        if (!function_at(image, at, &f)) break;
        if (!is_inside(r, &f, end_place)) { /* not sorted, or the zeros at the end of a section */
            o->refused += f.begin != 0;
            continue;
        }
        const uint8_t *head = bytes_at(image, f.info, 4);
        add_bounds(r, &f, head != NULL && (head[0] >> 3 & CHAINED));
        add_function(r, &f);
        end_place = f.end;
    }
}

/* ---- arm64 */

typedef struct {
    const reader *r;
    uint32_t begin;
} place;

static void add_row(void *arg, const spp_compact_row *row) {
    const place *p = arg;
    spp_unwind_rule rule = {.kind = SPP_CFA_REG, .off = row->off};
    rule.reg = row->by_fp ? SPP_REG_FP : SPP_REG_SP;
    rule.fp = row->fp == SPP_COMPACT_SAME ? SPP_UNWIND_SAME : row->fp;
    rule.ra = row->ra == SPP_COMPACT_SAME ? SPP_UNWIND_SAME : row->ra;
    add(p->r, p->begin + (uint64_t)row->at, &rule);
}

/* Nothing, to see first whether all is understood, and how long it is. */
static void skip_row(void *arg, const spp_compact_row *row) { (void)arg, (void)row; }

/* What is in no function is a leaf, which leaves its return address in its register. */
static void read_arm64(const reader *r) {
    static const spp_unwind_rule leaf = {.kind = SPP_CFA_REG, .reg = SPP_REG_SP, .ra = SPP_UNWIND_SAME, .fp = SPP_UNWIND_SAME};
    static const spp_unwind_rule none = {0};
    const spp_unwind_image *image = r->image;
    spp_unwind_object *o = r->object;
    uint64_t end_place = o->low - image->base;
    const uint8_t *p;
    for (uint64_t at = image->functions; at < image->functions_end && !o->out_of_memory; at += FUNCTION_BYTES_ARM64) {
        if ((p = bytes_at(image, at, FUNCTION_BYTES_ARM64)) == NULL) break;
        uint32_t data = number(p + 4, 4);
        const uint8_t *record = (data & 3) == 0 ? bytes_at(image, data, 4) : NULL;
        size_t record_n = record != NULL ? (size_t)(image->n - data) : 0;
        uint32_t begin = number(p, 4), length = spp_seh_rows_aarch64(data, record, record_n, skip_row, NULL);
        function f = {.begin = begin, .end = begin + (length != 0 ? length : 4)};
        if (!is_inside(r, &f, end_place) || length == 0) o->refused += begin != 0;
        if (!is_inside(r, &f, end_place)) continue;
        end_place = f.end;
        if (length == 0) {
            add(r, f.begin, &none);
            continue;
        }
        add_bounds(r, &f, (data & 3) == 2);
        (void)spp_seh_rows_aarch64(data, record, record_n, add_row, &(place){r, begin});
        add(r, f.end, &leaf);
    }
}

void spp_unwind_read_seh(spp_unwind_object *o, spp_unwind_rules *rules, const spp_unwind_image *image) {
    reader r = {image, o, rules};
    o->n = 0;
    if (image->words == FUNCTION_BYTES / 4)
        read_x64(&r);
    else
        read_arm64(&r);
}
