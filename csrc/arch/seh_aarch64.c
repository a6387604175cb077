/* Windows' unwind information of arm64 ("ARM64 exception handling" of Microsoft's documentation, which names what is used here).
 *
 * A function's prologue and each of its epilogues are described instruction by instruction. What must
 * be undone at a place is what its prologue has done so far, or what is left of its epilogue. A
 * prologue of the usual form is packed into numbers of the table, from which its instructions follow. */
#include <string.h>

#include "arch/arch.h"

enum { FP = 29, RA = 30, INT_FIRST = 19, NOWHERE = -1, STEPS_MAX = 4 * 255, FAR = 30000 };

/* What undoing an instruction does: sp becomes the frame pointer's value less `above`; x29 and x30 are read from above it; it
 * moves up by `taken`. */
typedef struct {
    int32_t taken, fp, ra, above;
    bool framed;
    bool blind; /* it moved sp by what the processor alone knows (SVE) */
} step;

/* Steps in the order in which they are undone. */
typedef struct {
    step at[STEPS_MAX];
    unsigned n;
    unsigned own; /* the first ones of them are instructions of the function; the others another part of it has done */
} list;

typedef struct {
    void (*see)(void *arg, const spp_compact_row *row);
    void *arg;
    uint32_t length;   /* of the function, in instructions */
    uint32_t reported; /* rows up to here were reported */
} output;

static uint32_t word_at(const uint8_t *at) {
    uint32_t word;
    memcpy(&word, at, sizeof word); /* little-endian */
    return word;
}

static step moved(int32_t taken) { return (step){.taken = taken, .fp = NOWHERE, .ra = NOWHERE}; }

/* One or two registers from `reg` on are stored at sp + `place`, after it was moved down by `taken`. */
static step saved(unsigned reg, unsigned n, int32_t place, int32_t taken) {
    step s = moved(taken);
    if (reg == FP) s.fp = place;
    if (reg == RA) s.ra = place;
    if (reg + 1 == FP && n == 2) s.fp = place + 8;
    if (reg + 1 == RA && n == 2) s.ra = place + 8;
    return s;
}

static step framed(int32_t above) { return (step){.fp = NOWHERE, .ra = NOWHERE, .above = above, .framed = true}; }

/* Tells what holds from instruction `at` on, where all steps from `first` on are to be undone. False: it cannot be said. */
static bool report_row(output *to, uint32_t at, const list *l, unsigned first) {
    spp_compact_row row = {.at = 4 * at, .fp = SPP_COMPACT_SAME, .ra = SPP_COMPACT_SAME};
    int32_t off = 0, fp = NOWHERE, ra = NOWHERE;
    bool blind = false;
    for (unsigned i = first; i < l->n; i++) {
        const step *s = &l->at[i];
        if (s->framed) {
            if (fp != NOWHERE || ra != NOWHERE) return false;
            row.by_fp = true;
            off = -s->above;
            blind = false;
        }
        if (s->fp != NOWHERE) fp = off + s->fp;
        if (s->ra != NOWHERE) ra = off + s->ra;
        if (blind && (s->fp != NOWHERE || s->ra != NOWHERE)) return false;
        off += s->taken;
        blind |= s->blind;
        if (off > 1 << 30) return false;
    }
    if (blind || (fp != NOWHERE && off - fp > FAR) || (ra != NOWHERE && off - ra > FAR)) return false;
    row.off = off;
    if (fp != NOWHERE) row.fp = (int16_t)(fp - off);
    if (ra != NOWHERE) row.ra = (int16_t)(ra - off);
    if (at < to->length) to->see(to->arg, &row);
    to->reported = at;
    return true;
}

/* Instruction by instruction, and what comes behind. */
static bool report_prologue(output *to, const list *l) {
    for (unsigned i = 0; i <= l->own; i++) {
        if (!report_row(to, i, l, l->own - i)) return false;
    }
    return true;
}

/* The last of its instructions is the return. Behind it holds what the prologue has done. */
static bool report_epilogue(output *to, uint32_t at, const list *l, const list *prologue) {
    if (at < to->reported || at > to->length) return false;
    for (unsigned i = 0; i <= l->own; i++) {
        if (!report_row(to, at + i, l, i)) return false;
    }
    return report_row(to, at + l->own + 1, prologue, 0);
}

/* ---- packed */

static void push(list *l, step s) { l->at[l->n++] = s; }

static void push_alloc(list *l, int32_t bytes) {
    if (bytes > 4080) push(l, moved(4080));
    if (bytes > 0) push(l, moved(bytes > 4080 ? bytes - 4080 : bytes));
}

static void reverse(list *l) {
    for (unsigned i = 0; 2 * i + 1 < l->n; i++) {
        step s = l->at[i];
        l->at[i] = l->at[l->n - 1 - i];
        l->at[l->n - 1 - i] = s;
    }
    l->own = l->n;
}

/* The prologue's steps, or the epilogue's, which sets no frame pointer and stores no arguments. */
static bool unpack(list *l, uint32_t data, bool epilogue) {
    unsigned floats = data >> 13 & 7, ints = data >> 16 & 15, homes = data >> 20 & 1, kind = data >> 21 & 3;
    bool chained = kind >= 2, links = kind == 1;
    int32_t int_bytes = (int32_t)(8 * ints + 8 * links), float_bytes = (int32_t)(floats != 0 ? 8 * floats + 8 : 0);
    int32_t saves = (int_bytes + float_bytes + 64 * (int32_t)homes + 15) & ~15, locals = 16 * (int32_t)(data >> 23) - saves;
    int32_t first = saves; /* the first store allocates the stack for all */
    l->n = 0;
    if (ints > 10 || locals < (chained ? 16 : 0)) return false;
    if (kind == 2) push(l, moved(0)); /* pacibsp */
    for (unsigned i = 0; i < ints; i += 2, first = 0) {
        step s = moved(first);
        if (i + 1 == ints && links) s.ra = int_bytes - 8;
        push(l, s);
    }
    if (links && ints % 2 == 0) {
        push(l, saved(RA, 1, int_bytes - 8, first));
        first = 0;
    }
    for (int32_t at = 0; at < float_bytes; at += 16, first = 0) push(l, moved(first));
    for (unsigned i = 0; i < 4 * homes; i++, first = 0) {
        if (!epilogue || first != 0) push(l, moved(first));
    }
    if (!chained || locals > 512) push_alloc(l, locals);
    if (chained) push(l, saved(FP, 2, 0, locals <= 512 ? locals : 0));
    if (chained && !epilogue) push(l, framed(0));
    reverse(l);
    return true;
}

static bool report_packed(output *to, uint32_t data, list *prologue, list *epilogue) {
    to->length = data >> 2 & 0x7ff;
    if ((data & 3) == 3 || !unpack(prologue, data, false) || !unpack(epilogue, data, true)) return false;
    if ((data & 3) == 2) { /* a part of a function, with neither of them */
        prologue->own = 0;
        return report_prologue(to, prologue);
    }
    return to->length > epilogue->own && report_prologue(to, prologue) &&
           report_epilogue(to, to->length - epilogue->own - 1, epilogue, prologue);
}

/* ---- unwind codes */

/* The length of a code; 0: it is not understood, or not known how to be undone (frames of interrupts and exceptions). */
static unsigned length_of(uint8_t code) {
    if (code < 0xc0) return 1;
    if (code < 0xe0) return 2;
    if (code == 0xe0) return 4;                                  /* alloc_l */
    if (code == 0xe2) return 2;                                  /* add_fp */
    if (code == 0xe7) return 3;                                  /* save_any_reg */
    return code <= 0xe6 || code == 0xec || code == 0xfc ? 1 : 0; /* set_fp to save_next, clear_unwound_to_call, pac_sign_lr */
}

/* save_any_reg: a register or a pair of them, of any kind. */
static step any_saved(const uint8_t *p) {
    bool pair = p[1] & 0x40, moves = p[1] & 0x20;
    unsigned reg = p[1] & 31, kind = p[2] >> 6;
    int32_t n = p[2] & 63, bytes = moves ? 16 * (n + 1) : n * (pair || kind == 2 ? 16 : 8);
    if (kind == 3) return moved(0); /* z and p: below x29 and x30 */
    if (kind != 0) return moved(moves ? bytes : 0);
    return saved(reg, pair ? 2 : 1, moves ? 0 : bytes, moves ? bytes : 0);
}

/* The step of a code whose bytes are all there. */
static step step_of(const uint8_t *p) {
    uint8_t code = p[0];
    unsigned low = code < 0xc0 ? code & 31u : 0, wide = code >= 0xc0 && code < 0xe0 ? (code & 7u) << 8 | p[1] : 0;
    int32_t six = wide & 63;
    unsigned reg = INT_FIRST + (wide >> 6 & 15);
    if (code < 0x20) return moved((int32_t)low * 16);                                                /* alloc_s */
    if (code < 0x40) return moved((int32_t)low * 8);                                                 /* save_r19r20_x */
    if (code < 0x80) return saved(FP, 2, (code & 63) * 8, 0);                                        /* save_fplr */
    if (code < 0xc0) return saved(FP, 2, 0, (code & 63) * 8 + 8);                                    /* save_fplr_x */
    if (code < 0xc8) return moved((int32_t)wide * 16);                                               /* alloc_m */
    if (code < 0xcc) return saved(reg, 2, six * 8, 0);                                               /* save_regp */
    if (code < 0xd0) return saved(reg, 2, 0, six * 8 + 8);                                           /* save_regp_x */
    if (code < 0xd4) return saved(reg, 1, six * 8, 0);                                               /* save_reg */
    if (code < 0xd6) return saved(INT_FIRST + (wide >> 5 & 15), 1, 0, (int32_t)(wide & 31) * 8 + 8); /* save_reg_x */
    if (code < 0xd8) return saved(RA, 1, six * 8 + 8, 0);                                            /* save_lrpair */
    if (code < 0xda) return moved(0);                                                                /* save_fregp */
    if (code < 0xdc) return moved(six * 8 + 8);                                                      /* save_fregp_x */
    if (code < 0xde) return moved(0);                                                                /* save_freg */
    if (code == 0xde) return moved((p[1] & 31) * 8 + 8);                                             /* save_freg_x */
    if (code == 0xdf) return (step){.fp = NOWHERE, .ra = NOWHERE, .blind = true};                    /* alloc_z */
    if (code == 0xe0) return moved((p[1] << 16 | p[2] << 8 | p[3]) * 16);                            /* alloc_l */
    if (code == 0xe1) return framed(0);                                                              /* set_fp */
    if (code == 0xe2) return framed(p[1] * 8);                                                       /* add_fp */
    if (code == 0xe7) return any_saved(p);
    return moved(0); /* save_next, which saves neither x29 nor x30; nop, clear_unwound_to_call, pac_sign_lr */
}

/* The codes from `at` on, up to their end. */
static bool read_codes(list *l, const uint8_t *codes, uint32_t n, uint32_t at) {
    bool ended = false; /* what comes behind end_c another part of the function has done */
    l->n = l->own = 0;
    while (at < n && codes[at] != 0xe4) {
        unsigned length = length_of(codes[at]);
        if (length == 0 || length > n - at) return false;
        if (codes[at] == 0xe5)
            ended = true;
        else
            push(l, step_of(codes + at));
        if (!ended) l->own = l->n;
        at += length;
    }
    return true;
}

static bool report_record(output *to, const uint8_t *record, size_t n, list *prologue, list *epilogue) {
    if (n < 4) return false;
    uint32_t head = word_at(record), words = 1, scopes = head >> 22 & 31, code_words = head >> 27;
    bool single = head >> 21 & 1; /* one epilogue, at the end; `scopes` is where its codes begin */
    if ((head >> 18 & 3) != 0) return false;
    if (scopes == 0 && code_words == 0) {
        if (n < 8) return false;
        words = 2;
        scopes = word_at(record + 4) & 0xffff;
        code_words = word_at(record + 4) >> 16 & 0xff;
    }
    uint32_t listed = single ? 0 : scopes;
    if (n / 4 < (size_t)words + listed + code_words) return false;
    const uint8_t *scope = record + 4 * (size_t)words, *codes = scope + 4 * (size_t)listed;
    to->length = head & 0x3ffff;
    if (!read_codes(prologue, codes, 4 * code_words, 0) || !report_prologue(to, prologue)) return false;
    if (single) {
        if (!read_codes(epilogue, codes, 4 * code_words, scopes) || epilogue->own >= to->length) return false;
        return report_epilogue(to, to->length - epilogue->own - 1, epilogue, prologue);
    }
    for (uint32_t i = 0; i < listed; i++) {
        uint32_t where = word_at(scope + 4 * (size_t)i);
        if (!read_codes(epilogue, codes, 4 * code_words, where >> 22)) return false;
        if (!report_epilogue(to, where & 0x3ffff, epilogue, prologue)) return false;
    }
    return true;
}

uint32_t spp_seh_rows_aarch64(uint32_t data, const uint8_t *record, size_t n, void (*see)(void *arg, const spp_compact_row *row),
                              void *arg) {
    output to = {.see = see, .arg = arg};
    list prologue, epilogue;
    bool packed = (data & 3) != 0;
    bool reported = packed ? report_packed(&to, data, &prologue, &epilogue) : report_record(&to, record, n, &prologue, &epilogue);
    return reported ? 4 * to.length : 0;
}
