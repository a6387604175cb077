#include "core/native/unwind_table.h"
#include "base/heap.h"
#include "core/native/unwind_bytes.h"

#include <string.h>

#define RULE_SLOTS 131072u /* a power of two, twice SPP_UNWIND_RULES at least */
#define REMEMBERED 8       /* depth of remember_state */
#define CODE_ROWS 256u     /* of a function, read from its code */

/* ---- rows */

/* For code that shows its own frame layout (arch.h). */
static const spp_unwind_rule code_rules[SPP_CODES] = {
    [SPP_CODE_MOVED] = {.kind = SPP_CFA_REG, .reg = SPP_REG_SP, .off = 16, .ra = -8, .fp = SPP_UNWIND_SAME},
    [SPP_CODE_FRAMED] = {.kind = SPP_CFA_REG, .reg = SPP_REG_FP, .off = 16, .ra = -8, .fp = -16},
    [SPP_CODE_BARE] = {.kind = SPP_CFA_REG, .reg = SPP_REG_SP, .ra = SPP_UNWIND_SAME, .fp = SPP_UNWIND_SAME},
    [SPP_CODE_SIGNAL] = {.kind = SPP_CFA_SIGNAL, .reg = SPP_REG_SP, .off = SPP_SIGNAL_SP},
};

static uint32_t number_of(spp_unwind_rules *rules, const spp_unwind_rule *rule) {
    uint64_t words[2] = {0, 0};
    memcpy(words, rule, sizeof *rule);
    uint64_t hash = (words[0] * 0x9E3779B97F4A7C15u) ^ (words[1] * 0xC2B2AE3D27D4EB4Fu);
    for (uint32_t at = (uint32_t)(hash >> 32) & (RULE_SLOTS - 1);; at = (at + 1) & (RULE_SLOTS - 1)) {
        uint32_t known = rules->slots[at];
        if (known != 0 && memcmp(&rules->at[known - 1], rule, sizeof *rule) == 0) return known - 1;
        if (known != 0) continue;
        if (rules->n == SPP_UNWIND_RULES) return 0;
        rules->at[rules->n] = *rule;
        rules->slots[at] = ++rules->n;
        return rules->n - 1;
    }
}

typedef struct {
    spp_unwind_object *object;
    spp_unwind_rules *rules;
    const spp_unwind_gaps *gaps;
} output;

void spp_unwind_add(spp_unwind_object *o, spp_unwind_rules *rules, uint64_t place, const spp_unwind_rule *rule) {
    uint16_t number = (uint16_t)number_of(rules, rule);
    if (o->n > 0 && o->places[o->n - 1] == place) o->n--; /* nothing lay between */
    if (o->n > 0 && o->rule_of[o->n - 1] == number) return;
    if (o->n == o->capacity) {
        uint32_t capacity = o->capacity * 2 + 1024;
        uint32_t *places = spp_realloc(o->places, capacity * sizeof *places);
        if (places != NULL) o->places = places;
        uint16_t *rule_of = spp_realloc(o->rule_of, capacity * sizeof *rule_of);
        if (rule_of != NULL) o->rule_of = rule_of;
        if (places == NULL || rule_of == NULL) {
            o->out_of_memory = true;
            return;
        }
        o->capacity = capacity;
    }
    o->places[o->n] = (uint32_t)place;
    o->rule_of[o->n++] = number;
}

static void add_row(output *to, uint64_t place, const spp_unwind_rule *rule) {
    spp_unwind_add(to->object, to->rules, place, rule);
}

/* Between functions: no rule, except where the code itself shows one. */
static void add_gap(output *to, uint64_t place, uint64_t end) {
    static const spp_unwind_rule none = {0};
    spp_unwind_object *o = to->object;
    spp_unwind_section code;
    add_row(to, place, &none);
    while (to->gaps != NULL && to->gaps->next(to->gaps->arg, o->low + place, o->low + end, &code)) {
        spp_code_row rows[CODE_ROWS];
        uint64_t at = code.address - o->low;
        if (code.n == 0 || at < place || code.n > end - at) break;
        size_t n = spp_arch_code_rows(code.at, code.n, rows, CODE_ROWS);
        for (size_t i = 0; i < n; i++) {
            int16_t fp = rows[i].fp != 0 ? rows[i].fp : SPP_UNWIND_SAME;
            spp_unwind_rule rule = {.kind = SPP_CFA_LIKELY, .reg = rows[i].reg, .off = rows[i].off, .fp = fp, .ra = -8};
            add_row(to, at + rows[i].at, &rule);
        }
        place = at + code.n;
        if (n > 0) add_row(to, place, &none);
    }
}

/* ---- call frame instructions */

/* A common information entry: what its functions share. */
typedef struct {
    const uint8_t *at; /* NULL: none read yet */
    uint64_t code_step;
    int64_t data_step;
    uint8_t encoding;
    bool augmented, signal;
    spp_unwind_rule initial;
    uint8_t cfa_reg; /* of `initial`, also while its kind is another */
} cie;

typedef struct {
    spp_unwind_rule rule;
    uint64_t cfa_reg;
} state;

static int64_t scaled(uint64_t factored, const cie *c) { return (int64_t)(factored * (uint64_t)c->data_step); }

static int16_t saved_at(int64_t offset) { return offset > -30000 && offset < 30000 ? (int16_t)offset : SPP_UNWIND_LOST; }

static void set_cfa(state *s, uint64_t reg, int64_t off, input *in) {
    if (reg > 255 || off < INT32_MIN || off > INT32_MAX) in->bad = true;
    s->cfa_reg = reg;
    s->rule.kind = SPP_CFA_REG;
    s->rule.reg = (uint8_t)reg;
    s->rule.off = (int32_t)off;
    s->rule.add = 0;
}

/* DW_CFA_def_cfa_expression: the few forms that compilers, linkers and C libraries write. */
static void set_cfa_expression(state *s, input expression) {
    static const uint8_t plt[] = {0x77, 8, 0x80, 0, 0x3f, 0x1a, 0, 0x2a, 0x33, 0x24, 0x22};
    const uint8_t *at = expression.at;
    size_t n = (size_t)(expression.end - at);
    s->rule.kind = SPP_CFA_NONE;
    s->rule.off = s->rule.add = 0;
    s->rule.reg = 0;
    if (n == sizeof plt && memcmp(at, plt, 6) == 0 && memcmp(at + 7, plt + 7, 4) == 0 && at[6] >= 0x30 && at[6] < 0x40) {
        s->rule.kind = SPP_CFA_PLT; /* sp + 8 + 8 * ((pc & 15) >= add) */
        s->rule.add = (uint16_t)(at[6] - 0x30);
        return;
    }
    if (n == 0 || at[0] < 0x70 || at[0] > 0x8f) return; /* DW_OP_breg0 .. 31 */
    uint8_t reg = (uint8_t)(get(&expression, 1) - 0x70);
    int64_t off = get_sleb(&expression);
    uint64_t add = 0;
    bool deref = expression.at < expression.end && *expression.at == 0x06;
    if (deref) {
        skip(&expression, 1);
        if (expression.at < expression.end && *expression.at == 0x23) { /* DW_OP_plus_uconst */
            skip(&expression, 1);
            add = get_uleb(&expression);
        }
    }
    if (expression.bad || expression.at != expression.end || off < INT32_MIN || off > INT32_MAX || add > UINT16_MAX) return;
    s->rule.kind = deref ? SPP_CFA_DEREF : SPP_CFA_REG;
    s->rule.reg = reg;
    s->rule.off = (int32_t)off;
    s->rule.add = (uint16_t)add;
}

/* DW_CFA_expression for one register: saved where the frame pointer points to, or somewhere that is not understood. */
static int16_t saved_by(input expression) {
    if (get(&expression, 1) != 0x70 + SPP_REG_FP || get_sleb(&expression) != 0) return SPP_UNWIND_LOST;
    return expression.bad || expression.at != expression.end ? SPP_UNWIND_LOST : SPP_UNWIND_AT_FP;
}

static input get_expression(input *in) {
    uint64_t n = get_uleb(in);
    input expression = *in;
    skip(in, n);
    expression.end = in->at;
    return expression;
}

static void save(state *s, uint64_t reg, int16_t where) {
    if (reg == SPP_REG_FP) s->rule.fp = where;
    if (reg == SPP_REG_RA) s->rule.ra = where;
}

/* As the functions of `c` begin. */
static int16_t restored(const cie *c, uint64_t reg) { return reg == SPP_REG_FP ? c->initial.fp : c->initial.ra; }

/* The instructions that move on, by `step`. False: this is another one. */
static bool moves(uint8_t op, input *in, uint64_t *step) {
    *step = op & 63;
    if (op >> 6 == 1) return true; /* advance_loc */
    if (op < 0x02 || op > 0x04) return false;
    *step = get(in, (size_t)1 << (op - 0x02)); /* advance_loc1, 2, 4 */
    return true;
}

/* The instructions that define the CFA. */
static void define_cfa(uint8_t op, state *s, const cie *c, input *in) {
    uint64_t reg = s->cfa_reg;
    if (op == 0x0c || op == 0x0d || op == 0x12) reg = get_uleb(in);
    switch (op) {
    case 0x0c:                                                       /* def_cfa */
    case 0x0e: set_cfa(s, reg, (int64_t)get_uleb(in), in); break;    /* def_cfa_offset */
    case 0x0d: set_cfa(s, reg, s->rule.off, in); break;              /* def_cfa_register */
    case 0x0f: set_cfa_expression(s, get_expression(in)); break;     /* def_cfa_expression */
    default: set_cfa(s, reg, scaled((uint64_t)get_sleb(in), c), in); /* def_cfa_sf, def_cfa_offset_sf */
    }
}

/* The instructions that say where a register is saved, which name it first. Of an unknown one the input is bad. */
static int16_t saved_where(uint8_t op, uint64_t reg, const cie *c, input *in) {
    switch (op) {
    case 0x05: return saved_at(scaled(get_uleb(in), c)); /* offset_extended */
    case 0x06: return restored(c, reg);                  /* restore_extended */
    case 0x07:
        return reg == SPP_REG_RA ? SPP_UNWIND_END : SPP_UNWIND_LOST; /* undefined: of the return address, the end of the stack */
    case 0x08: return SPP_UNWIND_SAME;                               /* same_value */
    case 0x10: return saved_by(get_expression(in));                  /* expression */
    case 0x11: return saved_at(scaled((uint64_t)get_sleb(in), c));   /* offset_extended_sf */
    case 0x09:                                                       /* register */
    case 0x14: (void)get_uleb(in); break;                            /* val_offset */
    case 0x15: (void)get_sleb(in); break;                            /* val_offset_sf */
    case 0x16: (void)get_expression(in); break;                      /* val_expression */
    default: in->bad = true;                                         /* also set_loc, which nobody writes */
    }
    return SPP_UNWIND_LOST;
}

/* Runs instructions from `in`; with `to`, appends a row where the state changes place. False: not understood. */
static bool run(output *to, const cie *c, state *s, input in, uint64_t place) {
    state kept[REMEMBERED];
    int kept_n = 0;
    while (in.at < in.end && !in.bad) {
        uint8_t op = (uint8_t)get(&in, 1);
        uint64_t reg = op & 63, step;
        if (moves(op, &in, &step)) {
            if (to != NULL) add_row(to, place, &s->rule);
            place += step * c->code_step;
            continue;
        }
        switch (op < 64 ? op : op & 192) {
        case 0x80: save(s, reg, saved_at(scaled(get_uleb(&in), c))); break; /* offset */
        case 0xc0: save(s, reg, restored(c, reg)); break;                   /* restore */
        case 0x0c:
        case 0x0d:
        case 0x0e:
        case 0x0f:
        case 0x12:
        case 0x13: define_cfa(op, s, c, &in); break;
        case 0x0a: /* remember_state */
            if (kept_n == REMEMBERED) return false;
            kept[kept_n++] = *s;
            break;
        case 0x0b: /* restore_state */
            if (kept_n == 0) return false;
            *s = kept[--kept_n];
            break;
        case 0x00: break; /* nop */
        case 0x2c:
        case 0x2d: break; /* AARCH64_negate_ra_state(_with_pc): the walker takes the signature off any return address */
        case 0x2e: (void)get_uleb(&in); break; /* GNU_args_size */
        default: reg = get_uleb(&in); save(s, reg, saved_where(op, reg, c, &in));
        }
    }
    if (to != NULL && !in.bad) add_row(to, place, &s->rule);
    return !in.bad;
}

/* The entry of which `at` is the beginning; its length, 0 if it is none. */
static input entry_at(const uint8_t *at, const uint8_t *end) {
    input in = {at, end, false};
    uint64_t n = get(&in, 4);
    if (n == 0 || n == 0xffffffff || n > (uint64_t)(in.end - in.at)) return (input){at, at, true}; /* 64-bit ones: nobody's */
    in.end = in.at + n;
    return in;
}

static bool read_cie(cie *c, const uint8_t *at, const uint8_t *end) {
    if (c->at == at) return true;
    memset(c, 0, sizeof *c);
    input in = entry_at(at, end);
    if (get(&in, 4) != 0) in.bad = true;
    uint64_t version = get(&in, 1);
    const char *letters = (const char *)in.at;
    const uint8_t *zero = memchr(in.at, 0, (size_t)(in.end - in.at));
    if (in.bad || zero == NULL || (version != 1 && version != 3)) return false;
    in.at = zero + 1;
    c->code_step = get_uleb(&in);
    c->data_step = get_sleb(&in);
    if ((version == 1 ? get(&in, 1) : get_uleb(&in)) != SPP_REG_RA) return false;
    if (*letters == 'z') {
        uint64_t n = get_uleb(&in);
        input data = in;
        skip(&in, n);
        data.end = in.at;
        c->augmented = true;
        while (*++letters != 0) {
            if (*letters == 'R')
                c->encoding = (uint8_t)get(&data, 1);
            else if (*letters == 'P')
                (void)get_encoded(&data, (uint8_t)(get(&data, 1) & 15), 0);
            else if (*letters == 'L')
                skip(&data, 1);
            else if (*letters == 'S')
                c->signal = true;
            else if (*letters != 'B' || !SPP_TWO_RETURN_KEYS)
                return false;
        }
        if (data.bad) return false;
    } else if (*letters != 0) {
        return false;
    }
    state s = {.rule = {.kind = SPP_CFA_NONE, .fp = SPP_UNWIND_SAME, .ra = SPP_UNWIND_SAME}};
    c->initial = s.rule;
    if (in.bad || !run(NULL, c, &s, in, 0)) return false;
    c->initial = s.rule;
    c->cfa_reg = (uint8_t)s.cfa_reg;
    c->at = at;
    return true;
}

/* Of the frame that a kernel pushed for a signal, glibc and musl say where each register lies by an expression from sp; the CFA
 * is the interrupted stack pointer, which lies among them (struct ucontext). */
static void as_signal_frame(spp_unwind_rule *rule) {
    if (SPP_SIGNAL_SP != 0)
        *rule = code_rules[SPP_CODE_SIGNAL];
    else if (rule->kind == SPP_CFA_DEREF && rule->reg == SPP_REG_SP)
        rule->kind = SPP_CFA_SIGNAL;
}

/* One function. `at`: its frame description entry. */
static bool add_function(output *to, cie *c, const uint8_t *at, spp_unwind_section frames, uint64_t *end_place) {
    spp_unwind_object *o = to->object;
    const uint8_t *end = frames.at + frames.n;
    input in = entry_at(at, end);
    const uint8_t *back_from = in.at;
    uint64_t back = get(&in, 4);
    if (in.bad || back == 0 || back > (uint64_t)(back_from - frames.at) || !read_cie(c, back_from - back, end)) return false;
    uint64_t low = get_encoded(&in, c->encoding, frames.address + (uintptr_t)(in.at - frames.at));
    uint64_t n = get_encoded(&in, c->encoding & 15, 0);
    if (c->augmented) skip(&in, get_uleb(&in));
    if (in.bad || low < o->low || low >= o->high || n > o->high - low || o->high - o->low > UINT32_MAX) return false;
    if (n == 0) return true;
    uint64_t place = low - o->low;
    if (place < *end_place) return false; /* functions overlap: the index is not sorted */
    const uint32_t function[] = {(uint32_t)place, (uint32_t)(place + n)};
    if (spp_bytes_append(&o->functions, function, sizeof function) != 0) o->out_of_memory = true;
    spp_unwind_rule none = {0};
    if (place > *end_place) add_gap(to, *end_place, place);
    state s = {.rule = c->initial, .cfa_reg = c->cfa_reg};
    uint32_t before = o->n;
    bool understood = run(to, c, &s, in, place);
    if (!understood) {
        o->n = before;
        add_row(to, place, &none);
    }
    if (c->signal) {
        for (uint32_t i = before; i < o->n; i++) {
            spp_unwind_rule rule = to->rules->at[o->rule_of[i]];
            as_signal_frame(&rule);
            o->rule_of[i] = (uint16_t)number_of(to->rules, &rule);
        }
    }
    *end_place = place + n;
    return understood;
}

int spp_unwind_rules_make(spp_unwind_rules *rules) {
    rules->n = 0;
    rules->at = spp_alloc_zeroed(SPP_UNWIND_RULES, sizeof *rules->at);
    rules->slots = spp_alloc_zeroed(RULE_SLOTS, sizeof *rules->slots);
    if (rules->at == NULL || rules->slots == NULL) return -1;
    for (uint32_t i = 0; i < SPP_CODES; i++) {
        if (number_of(rules, &code_rules[i]) != i) return -1;
    }
    return 0;
}

void spp_unwind_rules_free(spp_unwind_rules *rules) {
    spp_free(rules->at);
    spp_free(rules->slots);
    memset(rules, 0, sizeof *rules);
}

/* The index (.eh_frame_hdr, LSB): version 1, encodings of three numbers, where the frames begin, how many there are, then a
 * sorted table of (function, entry) as 32-bit distances from the index's own address. Linkers write no other. */
void spp_unwind_read(spp_unwind_object *o, spp_unwind_rules *rules, spp_unwind_section index, spp_unwind_section frames,
                     const spp_unwind_gaps *gaps) {
    input in = {index.at, index.at + index.n, false};
    output to = {o, rules, gaps};
    cie c = {0};
    o->n = 0;
    uint64_t version = get(&in, 1), frames_encoding = get(&in, 1), count_encoding = get(&in, 1), entry_encoding = get(&in, 1);
    (void)get_encoded(&in, (uint8_t)frames_encoding, index.address + 4);
    uint64_t count = get_encoded(&in, (uint8_t)count_encoding, 0), end_place = 0;
    if (in.bad || version != 1 || entry_encoding != 0x3b) {
        o->refused++;
        return;
    }
    for (uint64_t i = 0; i < count && !o->out_of_memory; i++) {
        (void)get(&in, 4);
        int64_t from_index = (int32_t)get(&in, 4);
        uintptr_t at = index.address + (uintptr_t)from_index;
        if (in.bad) break;
        if (at < frames.address || at - frames.address >= frames.n ||
            !add_function(&to, &c, frames.at + (at - frames.address), frames, &end_place)) {
            o->refused++;
        }
    }
    if (o->n > 0 && o->high - o->low <= UINT32_MAX) add_gap(&to, end_place, o->high - o->low);
}

bool spp_unwind_add_entry(spp_unwind_object *o, spp_unwind_rules *rules, spp_unwind_section frames, uint32_t entry,
                          uint64_t place, uint64_t end) {
    output to = {o, rules, NULL};
    cie c = {0};
    uint64_t end_place = place;
    spp_bytes functions = o->functions;
    uint32_t before = o->n;
    o->functions = (spp_bytes){0}; /* the caller has the function already */
    bool read = entry < frames.n && add_function(&to, &c, frames.at + entry, frames, &end_place) && end_place == end;
    spp_bytes_free(&o->functions);
    o->functions = functions;
    if (!read) o->n = before < o->n ? before : o->n;
    return read;
}

void spp_unwind_object_free(spp_unwind_object *o) {
    spp_free(o->places);
    spp_free(o->rule_of);
    spp_bytes_free(&o->functions);
    memset(o, 0, sizeof *o);
}

/* How many functions begin at pc or before. */
static size_t functions_until(const spp_unwind_object *o, uintptr_t pc) {
    const uint32_t(*functions)[2] = (const uint32_t(*)[2])(const void *)o->functions.at;
    size_t low = 0, high = o->functions.n / sizeof *functions;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (functions[middle][0] <= pc - o->low)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uintptr_t spp_unwind_function_of(const spp_unwind_object *o, uintptr_t pc) {
    const uint32_t(*functions)[2] = (const uint32_t(*)[2])(const void *)o->functions.at;
    size_t n = functions_until(o, pc);
    return n > 0 && pc - o->low < functions[n - 1][1] ? o->low + functions[n - 1][0] : pc;
}

uintptr_t spp_unwind_end_of(const spp_unwind_object *o, uintptr_t pc) {
    const uint32_t(*functions)[2] = (const uint32_t(*)[2])(const void *)o->functions.at;
    size_t n = functions_until(o, pc);
    if (n > 0 && pc - o->low < functions[n - 1][1]) return o->low + functions[n - 1][1];
    return n < o->functions.n / sizeof *functions ? o->low + functions[n][0] : o->high;
}

uint32_t spp_unwind_find(const spp_unwind_object *o, uintptr_t pc) {
    const uint32_t *low = o->places;
    uint32_t n = o->n, place = (uint32_t)(pc - o->low);
    if (n == 0 || place < low[0]) return 0;
    while (n > 1) { /* without branches that a processor would have to guess */
        uint32_t half = n / 2;
        low = low[half] <= place ? low + half : low;
        n -= half;
    }
    return o->rule_of[low - o->places];
}
