/* Compact unwind information of x86_64. A function has a frame pointer or a stack of known size.
 * Its first instructions, which push registers and then allocate the stack, are followed; of its
 * last ones only the return of a function with a frame pointer. */
#include <string.h>

#include "arch/arch.h"

enum { MODE = 0x0f000000, RBP_FRAME = 0x01000000, STACK_IMMD = 0x02000000, STACK_IND = 0x03000000, DWARF = 0x04000000 };
enum { RBP = 6 }; /* the number that permutations have for it */

typedef struct {
    spp_compact_row *rows;
    uint32_t n;
} output;

static void add(output *to, uint32_t at, spp_compact_row row) {
    row.at = at;
    if (to->n > 0 && to->rows[to->n - 1].at == at) to->n--;
    if (to->n < SPP_COMPACT_ROWS) to->rows[to->n++] = row;
}

static const spp_compact_row at_entry = {.off = 8, .fp = SPP_COMPACT_SAME, .ra = -8};
static const spp_compact_row framed = {.off = 16, .fp = -16, .ra = -8, .by_fp = true};

/* A jump or a return behind pop %rbp. What looks like one within another instruction does no harm: no pc points there. */
static bool leaves(uint8_t code) { return code == 0xc3 || code == 0xe9 || code == 0xeb || code == 0xff; }

static void follow_frame(const spp_compact_function *f, output *to) {
    static const uint8_t move[] = {0x48, 0x89, 0xe5}; /* mov %rsp, %rbp */
    uint32_t at = 0;
    if (f->begins && f->n >= 4 && f->code[0] == 0x55 && memcmp(f->code + 1, move, sizeof move) == 0) {
        add(to, 0, at_entry);
        add(to, 1, (spp_compact_row){.off = 16, .fp = -16, .ra = -8});
        at = 4;
    }
    add(to, at, framed);
    for (; at + 1 < f->n; at++) {
        if (f->code[at] != 0x5d || !leaves(f->code[at + 1])) continue; /* pop %rbp */
        add(to, at + 1, at_entry);
        add(to, at + 2, framed);
    }
}

/* Where a permutation of the saved registers has rbp: its place among them, from the lowest address; -1: nowhere. It is a number
 * of mixed base, each digit a choice among the registers that are left. */
static int place_of_rbp(uint32_t count, uint32_t permutation) {
    uint32_t left[6] = {1, 2, 3, 4, 5, 6}, n = 6;
    uint32_t digits[6] = {0}, base = 6 - count + 1; /* of the last digit; the one before has one choice more */
    if (count == 0 || count > 6) return -1;
    for (uint32_t i = count; i-- > 0; base++) {
        digits[i] = permutation % base;
        permutation /= base;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (digits[i] >= n) return -1;
        if (left[digits[i]] == RBP) return (int)i;
        memmove(&left[digits[i]], &left[digits[i] + 1], (--n - digits[i]) * sizeof *left);
    }
    return -1;
}

/* The length of a push of a register, or 0. */
static uint32_t push_at(const spp_compact_function *f, uint32_t at) {
    if (at < f->n && f->code[at] >= 0x50 && f->code[at] <= 0x57) return 1;
    return at + 1 < f->n && f->code[at] == 0x41 && f->code[at + 1] >= 0x50 && f->code[at + 1] <= 0x57 ? 2 : 0;
}

/* sub $n, %rsp: the number, or 0. */
static int32_t stack_size_at(const spp_compact_function *f, uint32_t at, uint32_t *length) {
    uint32_t n = 0;
    if (at + 4 <= f->n && f->code[at] == 0x48 && f->code[at + 1] == 0x83 && f->code[at + 2] == 0xec) {
        *length = 4;
        return (int8_t)f->code[at + 3] > 0 ? f->code[at + 3] : 0;
    }
    if (at + 7 <= f->n && f->code[at] == 0x48 && f->code[at + 1] == 0x81 && f->code[at + 2] == 0xec) {
        *length = 7;
        memcpy(&n, f->code + at + 3, 4);
    }
    return n < 1u << 30 ? (int32_t)n : 0;
}

static void follow_stack(const spp_compact_function *f, int32_t size, output *to) {
    uint32_t count = f->encoding >> 10 & 7;
    int place = place_of_rbp(count, f->encoding & 0x3ff);
    spp_compact_row now = at_entry, whole = at_entry;
    whole.off = size;
    if (place >= 0) whole.fp = (int16_t)(-8 - 8 * (int)count + 8 * place);
    if (!f->begins) now = whole;
    add(to, 0, now);
    for (uint32_t at = 0, length; now.off < size; at += length) {
        int32_t pushed = 0;
        length = push_at(f, at);
        if (length > 0) pushed = 8;
        if (length == 0) pushed = stack_size_at(f, at, &length);
        if (pushed == 0 || at > 64) break;
        now.off += pushed;
        if (place >= 0 && now.off + whole.fp >= 0) now.fp = whole.fp; /* it has been pushed */
        add(to, at + length, now);
    }
    if (now.off == size) return;
    to->n = 0;
    add(to, 0, whole);
}

uint32_t spp_compact_rows_x86_64(const spp_compact_function *f, spp_compact_row rows[SPP_COMPACT_ROWS], uint32_t *entry) {
    output to = {rows, 0};
    uint32_t size = f->encoding >> 16 & 0xff;
    switch (f->encoding & MODE) {
    case RBP_FRAME: follow_frame(f, &to); break;
    case STACK_IMMD: follow_stack(f, (int32_t)size * 8, &to); break;
    case STACK_IND: { /* the number lies in its sub $n, %rsp, `size` bytes from its beginning */
        uint32_t n;
        if (!f->begins || size + 4 > f->n) return 0;
        memcpy(&n, f->code + size, sizeof n);
        if (n < 1u << 30) follow_stack(f, (int32_t)(n + 8 * (f->encoding >> 13 & 7)), &to);
        break;
    }
    case DWARF: *entry = f->encoding & 0xffffff; return SPP_COMPACT_DWARF;
    default: break;
    }
    return to.n;
}
