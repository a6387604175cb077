/* Compact unwind information: functions of both processors, byte by byte, with the rule that holds at each instruction as their
 * own effect on the stack shows it; a section with both kinds of pages; damaged sections. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/native/unwind_compact.h"

#define SAME SPP_COMPACT_SAME

/* ---- rows */

/* At an instruction, what holds before it runs: CFA from sp, or from the frame pointer; where the caller's frame pointer lies. */
typedef struct {
    uint32_t code; /* of aarch64; of x86_64 its length */
    int32_t off;
    int16_t fp, ra;
    bool by_fp;
} truth;

static spp_compact_row rows[SPP_COMPACT_ROWS];

static void check_rows(uint32_t n, uint32_t place, const truth *t) {
    const spp_compact_row *row = NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (rows[i].at <= place) row = &rows[i];
    }
    CHECK(row != NULL);
    if (row == NULL) return;
    CHECK_EQUAL(row->off, t->off);
    CHECK_EQUAL(row->fp, t->fp);
    CHECK_EQUAL(row->ra, t->ra);
    CHECK_EQUAL(row->by_fp, t->by_fp);
}

static void check_aarch64(uint32_t encoding, const truth *t, uint32_t n) {
    uint32_t code[64], entry = 0;
    for (uint32_t i = 0; i < n; i++) code[i] = t[i].code;
    spp_compact_function f = {encoding, (const uint8_t *)code, 4 * n, true};
    uint32_t made = spp_compact_rows_aarch64(&f, rows, &entry);
    for (uint32_t i = 0; i < n; i++) check_rows(made, 4 * i, &t[i]);
}

#define FRAMED 16, -16, -8, true
#define BARE 0, SAME, SAME, false
#define COUNT(list) ((uint32_t)(sizeof list / sizeof *list))

static void aarch64(void) {
    /* stp x29, x30, [sp, #-16]!; mov x29, sp; bl; ldp x29, x30, [sp], #16; ret */
    static const truth small[] = {
        {0xa9bf7bfd, BARE}, {0x910003fd, 16, -16, -8, false}, {0x94000010, FRAMED}, {0xa8c17bfd, FRAMED}, {0xd65f03c0, BARE}};
    check_aarch64(0x04000000, small, COUNT(small));
    /* sub sp, #64; stp x20, x19, [sp, #32]; stp x29, x30, [sp, #48]; add x29, sp, #48; nop; ldp x29, x30, [sp, #48];
     * ldp x20, x19, [sp, #32]; add sp, #64; ret; and another way out: the same again, and b for a tail call */
    static const truth large[] = {{0xd10103ff, BARE},
                                  {0xa9024ff4, 64, SAME, SAME, false},
                                  {0xa9037bfd, 64, SAME, SAME, false},
                                  {0x9100c3fd, 64, -16, -8, false},
                                  {0xd503201f, FRAMED},
                                  {0xa9437bfd, FRAMED},
                                  {0xa9424ff4, 64, SAME, SAME, false},
                                  {0x910103ff, 64, SAME, SAME, false},
                                  {0xd65f03c0, BARE},
                                  {0xd503201f, FRAMED},
                                  {0xa9437bfd, FRAMED},
                                  {0x910103ff, 64, SAME, SAME, false},
                                  {0x14000100, BARE}};
    check_aarch64(0x04000001, large, COUNT(large));
    /* stp d9, d8, [sp, #-48]!; stp x29, x30, [sp, #32]; add x29, sp, #32; sub sp, #4096; add sp, #4096; ldp x29, x30, [sp, #32];
     * ldp d9, d8, [sp], #48; retab */
    static const truth wide[] = {{0x6dbd23e9, BARE},
                                 {0xa9027bfd, 48, SAME, SAME, false},
                                 {0x910083fd, 48, -16, -8, false},
                                 {0xd14007ff, FRAMED},
                                 {0x914007ff, FRAMED},
                                 {0xa9427bfd, FRAMED},
                                 {0x6cc323e9, 48, SAME, SAME, false},
                                 {0xd65f0fff, BARE}};
    check_aarch64(0x05000000, wide, COUNT(wide));
    /* A quick way out before the frame is made, at the end: cbz x0, +32; stp; mov; nop; ldp; ret; then mov x0, #0; ret */
    static const truth wrapped[] = {{0xb40000c0, BARE},   {0xa9bf7bfd, BARE}, {0x910003fd, 16, -16, -8, false},
                                    {0xa8c17bfd, FRAMED}, {0xd65f03c0, BARE}, {0xd503201f, FRAMED},
                                    {0xd2800000, FRAMED}};
    static const truth quick[] = {{0xb40000a0, BARE},   {0xa9bf7bfd, BARE}, {0x910003fd, 16, -16, -8, false},
                                  {0xa8c17bfd, FRAMED}, {0xd65f03c0, BARE}, {0xd2800000, BARE},
                                  {0xd65f03c0, BARE}};
    check_aarch64(0x04000000, wrapped, COUNT(wrapped)); /* the branch goes elsewhere */
    check_aarch64(0x04000000, quick, COUNT(quick));
    static const truth tested[] = {{0x360000a0, BARE},   {0xa9bf7bfd, BARE}, {0x910003fd, 16, -16, -8, false},
                                   {0xa8c17bfd, FRAMED}, {0xd65f03c0, BARE}, {0xd65f03c0, BARE}};
    static const truth decided[] = {{0x540000a0, BARE},   {0xa9bf7bfd, BARE}, {0x910003fd, 16, -16, -8, false},
                                    {0xa8c17bfd, FRAMED}, {0xd65f03c0, BARE}, {0xd61f0200, BARE}};
    check_aarch64(0x04000000, tested, COUNT(tested));
    check_aarch64(0x04000000, decided, COUNT(decided));
    /* Its frame is made in a way that is not known: only what the encoding says. */
    static const truth strange[] = {{0xd503201f, FRAMED}, {0xd65f03c0, FRAMED}};
    check_aarch64(0x04000000, strange, COUNT(strange));
    /* Without a frame: str x19, [sp, #-32]!; nop; ldr x19, [sp], #32; ret; nop */
    static const truth leaf[] = {{0xf81e0ff3, BARE},
                                 {0xd503201f, 32, SAME, SAME, false},
                                 {0xf84207f3, 32, SAME, SAME, false},
                                 {0xd65f03c0, BARE},
                                 {0xd503201f, 32, SAME, SAME, false}};
    check_aarch64(0x02002000, leaf, COUNT(leaf));
    static const truth vectors[] = {{0xadbf07e0, BARE}, {0xacc107e0, 32, SAME, SAME, false}, {0xd65f03c0, BARE}};
    check_aarch64(0x02002000, vectors, COUNT(vectors)); /* stp q0, q1, [sp, #-32]!; ldp q0, q1, [sp], #32 */
    static const truth never[] = {{0xd503201f, 48, SAME, SAME, false}, {0xd65f03c0, 48, SAME, SAME, false}};
    check_aarch64(0x02003000, never, COUNT(never));
    static const truth none[] = {{0xd503201f, BARE}, {0xd65f03c0, BARE}, {0xd503201f, BARE}};
    check_aarch64(0x02000000, none, COUNT(none));
    uint32_t entry = 0;
    spp_compact_function other = {0x03000123, NULL, 0, true}, unknown = {0, NULL, 0, true}, part = {0x04000000, NULL, 0, false};
    CHECK_EQUAL(spp_compact_rows_aarch64(&other, rows, &entry), SPP_COMPACT_DWARF);
    CHECK_EQUAL(entry, 0x123);
    CHECK_EQUAL(spp_compact_rows_aarch64(&unknown, rows, &entry), 0);
    CHECK_EQUAL(spp_compact_rows_aarch64(&part, rows, &entry), 1);
    check_rows(1, 0, &(truth){0, FRAMED});
}

static void check_x86_64(uint32_t encoding, const uint8_t *code, uint32_t n, const truth *t, uint32_t count) {
    uint32_t entry = 0, place = 0;
    spp_compact_function f = {encoding, code, n, true};
    uint32_t made = spp_compact_rows_x86_64(&f, rows, &entry);
    for (uint32_t i = 0; i < count; place += t[i++].code) check_rows(made, place, &t[i]);
    CHECK_EQUAL(place, n);
}

#define CALLED 8, SAME, -8, false

static void x86_64(void) {
    /* push %rbp; mov %rsp, %rbp; nop; pop %rbp; ret; nop; pop %rbp; jmp */
    static const uint8_t small[] = {0x55, 0x48, 0x89, 0xe5, 0x90, 0x5d, 0xc3, 0x90, 0x5d, 0xe9, 1, 2, 3, 4};
    static const truth in_small[] = {
        {1, CALLED}, {3, 16, -16, -8, false}, {1, FRAMED}, {1, FRAMED}, {1, CALLED}, {1, FRAMED}, {1, FRAMED}, {1, CALLED},
        {4, FRAMED} /* within the jump */};
    check_x86_64(0x01000000, small, sizeof small, in_small, COUNT(in_small));
    static const uint8_t strange[] = {0x90, 0x90};
    static const truth in_strange[] = {{2, FRAMED}};
    check_x86_64(0x01000000, strange, sizeof strange, in_strange, COUNT(in_strange));
    /* push %r14; push %rbx; sub $8, %rsp; nop: 4 words with the return address, 2 registers saved, rbx (1) and r14 (4) */
    static const uint8_t stack[] = {0x41, 0x56, 0x53, 0x48, 0x83, 0xec, 8, 0x90};
    static const truth in_stack[] = {{2, CALLED}, {1, 16, SAME, -8, false}, {4, 24, SAME, -8, false}, {1, 32, SAME, -8, false}};
    check_x86_64(0x02000000 | 4 << 16 | 2 << 10 | (5 * 0 + 2), stack, sizeof stack, in_stack, COUNT(in_stack));
    /* push %rbp; push %rbx; nop: rbx lies lowest, then rbp: digits 0 of six, then 4 of the five that are left */
    static const uint8_t with_rbp[] = {0x55, 0x53, 0x90};
    static const truth in_rbp[] = {{1, CALLED}, {1, 16, -16, -8, false}, {1, 24, -16, -8, false}};
    check_x86_64(0x02000000 | 3 << 16 | 2 << 10 | (5 * 0 + 4), with_rbp, sizeof with_rbp, in_rbp, COUNT(in_rbp));
    /* All six, rbp the lowest: digit 5 of six, then 0 four times. */
    static const uint8_t six[] = {0x41, 0x57, 0x41, 0x56, 0x41, 0x55, 0x41, 0x54, 0x53, 0x55, 0x90};
    static const truth in_six[] = {{2, CALLED},
                                   {2, 16, SAME, -8, false},
                                   {2, 24, SAME, -8, false},
                                   {2, 32, SAME, -8, false},
                                   {1, 40, SAME, -8, false},
                                   {1, 48, SAME, -8, false},
                                   {1, 56, -56, -8, false}};
    check_x86_64(0x02000000 | 7 << 16 | 6 << 10 | 120 * 5, six, sizeof six, in_six, COUNT(in_six));
    /* sub $0x1008, %rsp, whose number lies 3 bytes from the beginning; and a push before it */
    static const uint8_t huge[] = {0x48, 0x81, 0xec, 0x08, 0x10, 0, 0, 0x90};
    static const truth in_huge[] = {{7, CALLED}, {1, 0x1010, SAME, -8, false}};
    check_x86_64(0x03000000 | 3 << 16 | 1 << 13, huge, sizeof huge, in_huge, COUNT(in_huge));
    /* Its beginning is not as it should be: only what the encoding says. */
    static const truth in_other[] = {{2, 32, SAME, -8, false}};
    check_x86_64(0x02000000 | 4 << 16, strange, sizeof strange, in_other, COUNT(in_other));
    uint32_t entry = 0;
    spp_compact_function dwarf = {0x04000321, NULL, 0, true}, unknown = {0, NULL, 0, true}, lost = {0x03000000, NULL, 0, true};
    spp_compact_function later = {0x02040000, NULL, 0, false};
    CHECK_EQUAL(spp_compact_rows_x86_64(&dwarf, rows, &entry), SPP_COMPACT_DWARF);
    CHECK_EQUAL(entry, 0x321);
    CHECK_EQUAL(spp_compact_rows_x86_64(&unknown, rows, &entry), 0);
    CHECK_EQUAL(spp_compact_rows_x86_64(&lost, rows, &entry), 0);
    CHECK_EQUAL(spp_compact_rows_x86_64(&later, rows, &entry), 1);
    CHECK_EQUAL(rows[0].off, 32);
}

/* ---- a whole section: by this processor's encodings. Five functions of 16 bytes from 64 on, the second of which is two that
 * share an entry, then a gap of 16, and a last one. */

enum { LOW = 0x40000, CODE_BYTES = 256, SECTION_BYTES = 256 };
#ifdef __x86_64__
enum { A_FRAME = 0x01000000, STACK_32 = 0x02040000, IN_DWARF = 0x04000000 };
#else
enum { A_FRAME = 0x04000000, STACK_32 = 0x02002000, IN_DWARF = 0x03000000 };
#endif
static uint8_t section[SECTION_BYTES], code[CODE_BYTES];
static const uint8_t starts[] = {64, 16, 16, 16, 0x90, 0x00 /* 16 in two bytes */, 32, 0, 0};
static size_t put_at;

static void put(uint32_t value, size_t n) {
    memcpy(section + put_at, &value, n);
    put_at += n;
}

static void make_section(void) {
    memset(section, 0, sizeof section);
    memset(code, 0, sizeof code);
    put_at = 0;
    put(1, 4);
    put(28, 4); /* encodings that pages share: 1 */
    put(1, 4);
    put(32, 4); /* personalities: none */
    put(0, 4);
    put(32, 4); /* the index: 3 */
    put(3, 4);
    put(A_FRAME, 4);
    put(64, 4), put(68, 4), put(0, 4);
    put(112, 4), put(100, 4), put(0, 4);
    put(176, 4), put(0, 4), put(0, 4);
    put(3, 4), put(12, 2), put(3, 2), put(24, 2), put(2, 2); /* at 68: compressed */
    put(0, 3), put(0, 1);                                    /* at 64: the shared encoding */
    put(16, 3), put(1, 1);                                   /* at 80, to 112: its first own one */
    put(40, 3), put(2, 1);                                   /* at 104, to 112: its second */
    put(STACK_32, 4);
    put_at = 100; /* regular: its entries may lie anywhere behind */
    put(2, 4), put(8, 2), put(4, 2);
    put(112, 4), put(A_FRAME, 4);
    put(128, 4), put(0, 4);
    put(144, 4), put(A_FRAME, 4);
    put(160, 4), put(IN_DWARF, 4);
    put_at = 92 + 4;
    put(IN_DWARF | 5, 4);
}

static spp_unwind_object o;
static spp_unwind_rules rules;

static void read_section(size_t n, size_t starts_n) {
    spp_unwind_compact image = {{section, n, 0}, {NULL, 0, 0}, {code, sizeof code, LOW}, {starts, starts_n, 0}};
    spp_unwind_object_free(&o);
    o.low = LOW;
    o.high = LOW + CODE_BYTES;
    spp_unwind_read_compact(&o, &rules, &image);
}

static const spp_unwind_rule *rule_at(uint32_t place) { return &rules.at[spp_unwind_find(&o, LOW + place)]; }

static void whole_section(void) {
    CHECK_EQUAL(spp_unwind_rules_make(&rules), 0);
    make_section();
    read_section(sizeof section, sizeof starts);
    CHECK_EQUAL(o.refused, 0);
    CHECK_EQUAL(rule_at(63)->kind, SPP_CFA_NONE);
    CHECK_EQUAL(rule_at(64)->kind, SPP_CFA_REG);
    CHECK_EQUAL(rule_at(79)->reg, SPP_REG_FP);
    CHECK_EQUAL(rule_at(79)->off, 16);
    CHECK_EQUAL(rule_at(79)->fp, -16);
    CHECK_EQUAL(rule_at(79)->ra, -8);
    CHECK_EQUAL(rule_at(80)->reg, SPP_REG_SP);
    CHECK_EQUAL(rule_at(80)->off, 32);
    CHECK_EQUAL(rule_at(103)->off, 32);
    CHECK_EQUAL(rule_at(104)->kind, SPP_CFA_NONE); /* left to a section that is not there */
    CHECK_EQUAL(rule_at(112)->reg, SPP_REG_FP);
    CHECK_EQUAL(rule_at(128)->kind, SPP_CFA_NONE);
    CHECK_EQUAL(rule_at(144)->reg, SPP_REG_FP);
    CHECK_EQUAL(rule_at(160)->kind, SPP_CFA_NONE);
    CHECK_EQUAL(rule_at(255)->kind, SPP_CFA_NONE);
    CHECK_EQUAL(spp_unwind_function_of(&o, LOW + 79), LOW + 64);
    CHECK_EQUAL(spp_unwind_function_of(&o, LOW + 95), LOW + 80);
    CHECK_EQUAL(spp_unwind_function_of(&o, LOW + 97), LOW + 96);
    CHECK_EQUAL(spp_unwind_function_of(&o, LOW + 113), LOW + 112);
    /* Without the list of functions none is known to begin, and the rules are those in the midst of each. */
    read_section(sizeof section, 0);
    CHECK_EQUAL(rule_at(64)->reg, SPP_REG_FP);
    CHECK_EQUAL(rule_at(80)->off, 32);
    CHECK_EQUAL(spp_unwind_function_of(&o, LOW + 79), LOW + 79);
}

/* Cut short at every byte, and every byte with each of eight values: rows lie within the code, and in order. */
static void damaged(void) {
    static const uint8_t values[] = {0, 1, 2, 3, 0x10, 0x7f, 0x80, 0xff};
    for (size_t n = 0; n <= sizeof section; n++) {
        read_section(n, sizeof starts);
        CHECK(n >= 28 || (o.refused == 1 && o.n == 0));
    }
    for (size_t i = 0; i < sizeof section; i++) {
        uint8_t good = section[i];
        for (size_t k = 0; k < sizeof values; k++) {
            section[i] = values[k];
            read_section(sizeof section, sizeof starts);
            bool ordered = true;
            for (uint32_t r = 1; r < o.n; r++) ordered &= o.places[r - 1] < o.places[r];
            CHECK(ordered && (o.n == 0 || o.places[o.n - 1] <= CODE_BYTES));
        }
        section[i] = good;
    }
    spp_unwind_object_free(&o);
    spp_unwind_rules_free(&rules);
}

int main(void) {
    aarch64();
    x86_64();
    whole_section();
    damaged();
    return check_done();
}
