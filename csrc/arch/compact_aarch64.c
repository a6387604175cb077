/* Compact unwind information of aarch64. A function has a frame, whose frame pointer points to the caller's and the return
 * address, or none, and its return address stays in x30. Between its beginning and that state, and from there to its end, its
 * instructions are followed: those that move sp, and that save or take back x29 and x30 (Arm Architecture Reference Manual,
 * C6.2). */
#include <string.h>

#include "arch/arch.h"

enum { MODE = 0x0f000000, FRAMELESS = 0x02000000, DWARF = 0x03000000, FRAME = 0x04000000, FRAME_SIGNED = 0x05000000 };
enum { SP_BASE = 31 << 5, FP_AND_RA = 30 << 10 | 29 };

typedef struct {
    spp_compact_row *rows;
    uint32_t n;
} output;

static void add(output *to, uint32_t at, spp_compact_row row) {
    row.at = at;
    if (to->n > 0) {
        const spp_compact_row *last = &to->rows[to->n - 1];
        if (last->off == row.off && last->fp == row.fp && last->ra == row.ra && last->by_fp == row.by_fp) return;
        if (last->at == at) to->n--;
    }
    if (to->n < SPP_COMPACT_ROWS) to->rows[to->n++] = row;
}

static uint32_t instruction(const uint8_t *at) {
    uint32_t code;
    memcpy(&code, at, sizeof code); /* little-endian */
    return code;
}

/* An immediate of `bits`, signed, `shift` from the right. */
static int32_t immediate(uint32_t code, int shift, int bits) {
    int32_t value = (int32_t)(code >> shift & ((1u << bits) - 1));
    return value >> (bits - 1) ? value - (1 << bits) : value;
}

/* By how much an instruction moves sp down: sub and add sp, sp, #; stp and str with sp before, ldp and ldr behind; 0: it does
 * not. */
static int32_t pushed(uint32_t code) {
    int32_t n = (int32_t)(code >> 10 & 0xfff) << (code & 1u << 22 ? 12 : 0);
    if ((code & 0xff8003ff) == 0xd10003ff) return n;
    if ((code & 0xff8003ff) == 0x910003ff) return -n;
    uint32_t pair = code & 0xffc003e0;
    if (pair == (0xa9800000 | SP_BASE) || pair == (0x6d800000 | SP_BASE)) return -8 * immediate(code, 15, 7);
    if (pair == (0xa8c00000 | SP_BASE) || pair == (0x6cc00000 | SP_BASE)) return -8 * immediate(code, 15, 7);
    if (pair == (0xad800000 | SP_BASE) || pair == (0xacc00000 | SP_BASE)) return -16 * immediate(code, 15, 7);
    uint32_t one = code & 0xffe00fe0;
    if (one == (0xf8000c00 | SP_BASE) || one == (0xfc000c00 | SP_BASE)) return -immediate(code, 12, 9);
    if (one == (0xf8400400 | SP_BASE) || one == (0xfc400400 | SP_BASE)) return -immediate(code, 12, 9);
    return 0;
}

static bool is_pair(uint32_t code, uint32_t kind) { return (code & 0xffc07fff) == (kind | SP_BASE | FP_AND_RA); }

/* ret, retaa, retab; b, br. */
static bool leaves(uint32_t code) {
    return code == 0xd65f03c0 || code == 0xd65f0bff || code == 0xd65f0fff || (code & 0xfc000000) == 0x14000000 ||
           (code & 0xfffffc1f) == 0xd61f0000;
}

/* Where a branch goes that depends on something, or b: bytes from itself; 0: it is none. */
static int32_t target(uint32_t code) {
    if ((code & 0xff000010) == 0x54000000 || (code & 0x7e000000) == 0x34000000) return 4 * immediate(code, 5, 19);
    if ((code & 0x7e000000) == 0x36000000) return 4 * immediate(code, 5, 14);
    return (code & 0xfc000000) == 0x14000000 ? 4 * immediate(code, 0, 26) : 0;
}

/* Places that are branched to before there is a frame: what comes there has none. */
#define PLACES 16
typedef struct {
    spp_compact_row rows[PLACES]; /* `at`: the place */
    int n;
} places;

static void note(places *p, uint32_t at, uint32_t code, spp_compact_row now) {
    int32_t to = target(code);
    if (to <= 0 || p->n == PLACES) return;
    now.at = at + (uint32_t)to;
    p->rows[p->n++] = now;
}

static bool is_noted(const places *p, uint32_t at, spp_compact_row *now) {
    for (int i = 0; i < p->n; i++) {
        if (p->rows[i].at != at) continue;
        *now = p->rows[i];
        return true;
    }
    return false;
}

static const spp_compact_row at_entry = {.off = 0, .fp = SPP_COMPACT_SAME, .ra = SPP_COMPACT_SAME};
static const spp_compact_row framed = {.off = 16, .fp = -16, .ra = -8, .by_fp = true};

/* A function with a frame: before the frame is set up sp is followed, then the frame pointer, and
 * sp again once x29 and x30 are restored. */
static void follow_frame(const spp_compact_function *f, output *to) {
    spp_compact_row now = f->begins ? at_entry : framed;
    enum { BEFORE, IN, AFTER } where = f->begins ? BEFORE : IN;
    places bare = {.n = 0};
    bool made = false;
    add(to, 0, now);
    for (uint32_t at = 0; at + 4 <= f->n; at += 4) {
        uint32_t code = instruction(f->code + at);
        int32_t moved = pushed(code);
        if (where == BEFORE) {
            now.off += moved;
            note(&bare, at, code, now);
            if (is_pair(code, 0xa9800000)) { /* stp x29, x30, [sp, #-n]! */
                now.fp = (int16_t)-now.off;
                now.ra = (int16_t)(now.fp + 8);
            } else if (is_pair(code, 0xa9000000)) { /* stp x29, x30, [sp, #n] */
                now.fp = (int16_t)(8 * immediate(code, 15, 7) - now.off);
                now.ra = (int16_t)(now.fp + 8);
            } else if ((code & 0xffc003ff) == 0x910003fd) { /* add x29, sp, #n */
                now = framed;
                where = IN;
                made = true;
            }
        } else if (where == IN && (is_pair(code, 0xa9400000) || is_pair(code, 0xa8c00000))) {
            now = at_entry; /* ldp x29, x30, [sp, #n], or [sp], #n */
            now.off = 16 + (is_pair(code, 0xa9400000) ? 8 * immediate(code, 15, 7) : moved);
            where = AFTER;
        } else if (where == AFTER) {
            now.off += moved;
        }
        /* What comes behind is reached from elsewhere. */
        if (leaves(code) && (where == AFTER || made)) {
            now = framed;
            where = is_noted(&bare, at + 4, &now) ? BEFORE : IN;
        }
        add(to, at + 4, now);
    }
    if (f->begins && !made) { /* it makes its frame in another way */
        to->n = 0;
        add(to, 0, framed);
    }
}

/* Without one, but with `size` bytes of stack, perhaps. */
static void follow_stack(const spp_compact_function *f, int32_t size, output *to) {
    spp_compact_row now = at_entry, whole = at_entry;
    whole.off = size;
    bool made = !f->begins || size == 0;
    if (made) now = whole;
    add(to, 0, now);
    for (uint32_t at = 0; at + 4 <= f->n; at += 4) {
        uint32_t code = instruction(f->code + at);
        now.off += pushed(code);
        made |= now.off == size;
        if (made && now.off != size && leaves(code)) now = whole;
        add(to, at + 4, now);
    }
    if (!made) {
        to->n = 0;
        add(to, 0, whole);
    }
}

uint32_t spp_compact_rows_aarch64(const spp_compact_function *f, spp_compact_row rows[SPP_COMPACT_ROWS], uint32_t *entry) {
    output to = {rows, 0};
    switch (f->encoding & MODE) {
    case FRAME:
    case FRAME_SIGNED: follow_frame(f, &to); break;
    case FRAMELESS: follow_stack(f, (int32_t)(f->encoding >> 12 & 0xfff) * 16, &to); break;
    case DWARF: *entry = f->encoding & 0xffffff; return SPP_COMPACT_DWARF;
    default: break;
    }
    while (to.n > 0 && to.rows[to.n - 1].at >= f->n && to.n > 1) to.n--; /* behind its last instruction */
    return to.n;
}
