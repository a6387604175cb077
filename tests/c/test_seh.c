/* Rows of Windows' unwind tables against what made-up functions do to the stack, instruction by instruction. x86_64: one as
 * Microsoft's compiler makes them, which sets a frame register last, and one as gcc does, which pushes after it; and whose a part
 * of a function is. arm64: packed and not. */
#include <string.h>

#include "check.h"
#include "core/native/unwind_seh.h"

#define BASE 0x10000u
#define CODE 0x100u
#define INFO 0x200u

/* push rbp; sub rsp, 0x40; lea rbp, [rsp+0x20]; nop; lea rsp, [rbp+0x20]; pop rbp; ret */
static const uint8_t microsofts[] = {0x55, 0x48, 0x83, 0xec, 0x40, 0x48, 0x8d, 0x6c, 0x24,
                                     0x20, 0x90, 0x48, 0x8d, 0x65, 0x20, 0x5d, 0xc3};
static const uint8_t microsofts_info[] = {1, 10, 3, 0x25, 10, 0x03, 5, 0x72, 1, 0x50};
/* push rbp; mov rbp, rsp; push rsi; push rbx; sub rsp, 0x20; nop; add rsp, 0x20; pop rbx; pop rsi; pop rbp; ret */
static const uint8_t gccs[] = {0x55, 0x48, 0x89, 0xe5, 0x56, 0x53, 0x48, 0x83, 0xec, 0x20,
                               0x90, 0x48, 0x83, 0xc4, 0x20, 0x5b, 0x5e, 0x5d, 0xc3};
static const uint8_t gccs_info[] = {1, 10, 5, 0x05, 10, 0x32, 6, 0x30, 5, 0x60, 4, 0x03, 1, 0x50};

/* Where rsp, rbp and the saved rbp are, from the CFA down, before the instruction at a place; saved 0: rbp is the caller's. */
typedef struct {
    uint32_t place;
    int32_t rsp, rbp, saved;
} truth;

static void check(const uint8_t *code, size_t code_n, const uint8_t *info, size_t info_n, const truth *is, size_t n) {
    static uint8_t image[0x300];
    const uint32_t function[] = {CODE, CODE + (uint32_t)code_n, INFO};
    memset(image, 0, sizeof image);
    memcpy(image, function, sizeof function);
    memcpy(image + CODE, code, code_n);
    memcpy(image + INFO, info, info_n);
    spp_unwind_rules rules;
    CHECK(spp_unwind_rules_make(&rules) == 0);
    spp_unwind_object o = {.low = BASE, .high = BASE + sizeof image};
    spp_unwind_read_seh(&o, &rules, &(spp_unwind_image){image, sizeof image, BASE, 0, sizeof function, 3});
    CHECK(o.refused == 0 && !o.out_of_memory && o.n > 0);
    for (size_t i = 0; i < n; i++) {
        uint32_t row = 0;
        while (row + 1 < o.n && o.places[row + 1] <= CODE + is[i].place) row++;
        const spp_unwind_rule *rule = &rules.at[o.rule_of[row]];
        CHECK(rule->kind == SPP_CFA_REG && rule->ra == -8);
        CHECK(rule->off == (rule->reg == SPP_REG_SP ? is[i].rsp : is[i].rbp));
        CHECK(rule->fp == (is[i].saved != 0 ? -is[i].saved : SPP_UNWIND_SAME));
    }
    spp_unwind_object_free(&o);
    spp_unwind_rules_free(&rules);
}

/* A function of two parts, one right behind the other, and a third part after another function: whose is what. */
static void check_parts(void) {
    enum { OTHER = INFO + 0x40, PART = INFO + 0x80, NOPS = 16 };
    static uint8_t image[0x300];
    const uint32_t functions[][3] = {{CODE, CODE + NOPS, INFO},
                                     {CODE + NOPS, CODE + 2 * NOPS, PART},
                                     {CODE + 2 * NOPS, CODE + 3 * NOPS, OTHER},
                                     {CODE + 4 * NOPS, CODE + 5 * NOPS, PART}};
    memset(image, 0x90, sizeof image);
    memset(image + INFO, 0, sizeof image - INFO);
    memcpy(image, functions, sizeof functions);
    image[INFO] = image[OTHER] = 1;
    image[PART] = 1 | 4 << 3; /* version 1, chained: what it continues comes behind its codes */
    memcpy(image + PART + 4, functions[0], sizeof functions[0]);
    spp_unwind_rules rules;
    CHECK(spp_unwind_rules_make(&rules) == 0);
    spp_unwind_object o = {.low = BASE, .high = BASE + sizeof image};
    spp_unwind_read_seh(&o, &rules, &(spp_unwind_image){image, sizeof image, BASE, 0, sizeof functions, 3});
    uintptr_t code = BASE + CODE;
    CHECK(o.refused == 0 && !o.out_of_memory);
    CHECK(spp_unwind_function_of(&o, code + NOPS + 3) == code && spp_unwind_end_of(&o, code) == code + 2 * NOPS);
    CHECK(spp_unwind_function_of(&o, code + 2 * NOPS + 3) == code + 2 * NOPS);
    CHECK(spp_unwind_function_of(&o, code + 4 * NOPS + 3) == code + 4 * NOPS + 3);
    spp_unwind_object_free(&o);
    spp_unwind_rules_free(&rules);
}

/* Of arm64, from instruction `place` on: CFA is sp, or x29, plus off; x29 and x30 are saved there from it (SAME: they are not).
 */
typedef struct {
    uint32_t place;
    bool by_fp;
    int32_t off, fp, ra;
} truth64;
enum { SAME = SPP_UNWIND_SAME };

static const spp_unwind_rule *rule_at(const spp_unwind_object *o, const spp_unwind_rules *rules, uint32_t place) {
    return &rules->at[spp_unwind_find(o, BASE + CODE + 4 * place)];
}

/* `length` instructions, described by `data`, or, where that is 0, by a record. n 0: not understood. */
static void check64(uint32_t data, const uint32_t *record, size_t record_n, uint32_t length, const truth64 *is, size_t n) {
    static uint8_t image[0x300];
    const uint32_t function[] = {CODE, data != 0 ? data : INFO};
    memset(image, 0, sizeof image);
    memcpy(image, function, sizeof function);
    memcpy(image + INFO, record, record_n * sizeof *record);
    spp_unwind_rules rules;
    CHECK(spp_unwind_rules_make(&rules) == 0);
    spp_unwind_object o = {.low = BASE, .high = BASE + sizeof image};
    spp_unwind_read_seh(&o, &rules, &(spp_unwind_image){image, sizeof image, BASE, 0, sizeof function, 2});
    CHECK(o.refused == (n == 0) && !o.out_of_memory);
    CHECK(n != 0 || rule_at(&o, &rules, 0)->kind == SPP_CFA_NONE);
    for (uint32_t place = 0, i = 0; place < length && n != 0; place++) {
        while (i + 1 < n && is[i + 1].place <= place) i++;
        const spp_unwind_rule *rule = rule_at(&o, &rules, place);
        CHECK(rule->kind == SPP_CFA_REG && rule->reg == (is[i].by_fp ? SPP_REG_FP : SPP_REG_SP));
        CHECK(rule->off == is[i].off && rule->fp == is[i].fp && rule->ra == is[i].ra);
    }
    if (n != 0) { /* behind it, a leaf */
        const spp_unwind_rule *rule = rule_at(&o, &rules, length);
        CHECK(rule->kind == SPP_CFA_REG && rule->reg == SPP_REG_SP && rule->off == 0 && rule->ra == SAME);
    }
    spp_unwind_object_free(&o);
    spp_unwind_rules_free(&rules);
}

#define CHECK64(data, record, length, ...)                                                                     \
    do {                                                                                                       \
        const truth64 truths[] = {__VA_ARGS__};                                                                \
        check64(data, record, sizeof record / sizeof *record, length, truths, sizeof truths / sizeof *truths); \
    } while (0)

/* Fields of a packed entry: flag, length, registers of either kind, what of x29 and x30 is saved, bytes of the frame. */
static uint32_t packed(uint32_t flag, uint32_t length, uint32_t floats, uint32_t ints, uint32_t homes, uint32_t kind,
                       uint32_t bytes) {
    return flag | length << 2 | floats << 13 | ints << 16 | homes << 20 | kind << 21 | bytes / 16 << 23;
}

static void test_packed(void) {
    static const uint32_t none[1];
    /* stp x19, x20, [sp, #-48]!; str x21, [sp, #16]; stp d8, d9, [sp, #24]; stp x29, x30, [sp, #-32]!; mov x29, sp; nop; nop;
     * ldp x29, x30, [sp], #32; ldp d8, d9, [sp, #24]; ldr x21, [sp, #16]; ldp x19, x20, [sp], #48; ret */
    CHECK64(packed(1, 12, 1, 3, 0, 3, 80), none, 12, {0, false, 0, SAME, SAME}, {1, false, 48, SAME, SAME},
            {4, false, 80, -80, -72}, {5, true, 80, -80, -72}, {7, false, 80, -80, -72}, {8, false, 48, SAME, SAME},
            {11, false, 0, SAME, SAME});
    /* A part of the same function, without its beginning and its end. */
    CHECK64(packed(2, 12, 1, 3, 0, 3, 80), none, 12, {0, true, 80, -80, -72});
    /* stp x19, x30, [sp, #-16]!; sub sp, sp, #32; nop * 3; add sp, sp, #32; ldp x19, x30, [sp], #16; ret */
    CHECK64(packed(1, 8, 0, 1, 0, 1, 48), none, 8, {0, false, 0, SAME, SAME}, {1, false, 16, SAME, -8}, {2, false, 48, SAME, -8},
            {6, false, 16, SAME, -8}, {7, false, 0, SAME, SAME});
    /* stp x19, x20, [sp, #-32]!; str x30, [sp, #16]; nop; ldr x30, [sp, #16]; ldp x19, x20, [sp], #32; ret */
    CHECK64(packed(1, 6, 0, 2, 0, 1, 32), none, 6, {0, false, 0, SAME, SAME}, {1, false, 32, SAME, SAME},
            {2, false, 32, SAME, -16}, {4, false, 32, SAME, SAME}, {5, false, 0, SAME, SAME});
    /* pacibsp; sub sp, sp, #640; stp x29, x30, [sp]; mov x29, sp; nop * 2; ldp x29, x30, [sp]; add sp, sp, #640; autibsp; ret */
    CHECK64(packed(1, 10, 0, 0, 0, 2, 640), none, 10, {0, false, 0, SAME, SAME}, {2, false, 640, SAME, SAME},
            {3, false, 640, -640, -632}, {4, true, 640, -640, -632}, {6, false, 640, -640, -632}, {7, false, 640, SAME, SAME},
            {8, false, 0, SAME, SAME});
    /* str d8 .. of three, then the arguments, which only the prologue stores: stp d8, d9, [sp, #-96]!; str d10, [sp, #16]; stp
     * x0, x1, [sp, #24]; .. x7; sub sp, sp, #4080; sub sp, sp, #32; nop; add sp, sp, #32; add sp, sp, #4080; ldr d10, [sp, #16];
     * ldp d8, d9, [sp], #96; ret */
    CHECK64(packed(1, 14, 2, 0, 1, 0, 4208), none, 14, {0, false, 0, SAME, SAME}, {1, false, 96, SAME, SAME},
            {7, false, 4176, SAME, SAME}, {8, false, 4208, SAME, SAME}, {10, false, 4176, SAME, SAME},
            {11, false, 96, SAME, SAME}, {13, false, 0, SAME, SAME});
    check64(packed(3, 12, 1, 3, 0, 3, 80), none, 1, 12, NULL, 0);   /* no such flag */
    check64(packed(1, 12, 1, 11, 0, 0, 160), none, 1, 12, NULL, 0); /* registers that there are not */
    check64(packed(1, 12, 1, 3, 0, 0, 32), none, 1, 12, NULL, 0);   /* a frame too small for what it saves */
    check64(packed(1, 4, 1, 3, 0, 3, 80), none, 1, 4, NULL, 0);     /* longer than the function */
}

static void test_records(void) {
    /* stp x19, x20, [sp, #-48]!; str x21, [sp, #16]; stp x29, x30, [sp, #24]; add x29, sp, #24; nop; nop; ldp x29, x30, [sp,
     * #24]; ldr x21, [sp, #16]; ldp x19, x20, [sp], #48; ret; nop; nop */
    static const uint32_t scope[] = {12 | 1u << 22 | 2u << 27, 6 | 2u << 22, 0xd04303e2, 0xe4e42682};
    CHECK64(0, scope, 12, {0, false, 0, SAME, SAME}, {1, false, 48, SAME, SAME}, {3, false, 48, -24, -16},
            {4, true, 24, -24, -16}, {6, false, 48, -24, -16}, {7, false, 48, SAME, SAME}, {9, false, 0, SAME, SAME},
            {10, true, 24, -24, -16});
    /* The same in the longer form of its head. */
    static const uint32_t extended[] = {12, 1 | 2 << 16, 6 | 2u << 22, 0xd04303e2, 0xe4e42682};
    CHECK64(0, extended, 12, {0, false, 0, SAME, SAME}, {1, false, 48, SAME, SAME}, {3, false, 48, -24, -16},
            {4, true, 24, -24, -16}, {6, false, 48, -24, -16}, {7, false, 48, SAME, SAME}, {9, false, 0, SAME, SAME},
            {10, true, 24, -24, -16});
    /* One epilogue, at the end: sub sp, sp, #512; stp x21, x30, [sp, #16]; nop * 3; ldp x21, x30, [sp, #16]; add sp, sp, #512;
     * ret
     */
    static const uint32_t single[] = {8 | 1u << 21 | 2u << 27, 0x20c042d6, 0xe4e4e4e4};
    CHECK64(0, single, 8, {0, false, 0, SAME, SAME}, {1, false, 512, SAME, SAME}, {2, false, 512, SAME, -488},
            {6, false, 512, SAME, SAME}, {7, false, 0, SAME, SAME});
    /* A later part (end_c first): all has been done by another one. save_any_reg: stp x29, x30, [sp, #-32]! */
    static const uint32_t part[] = {4 | 2u << 27, 0x7de7e1e5, 0xe4e4e401};
    CHECK64(0, part, 4, {0, true, 32, -32, -24});
    /* sp as only the processor knows it: stp x29, x30, [sp, #-16]!; mov x29, sp; addvl sp, sp, #-1; nop. Not without x29. */
    static const uint32_t vectors[] = {4 | 2u << 27, 0x81e101df, 0xe4e4e4e4}, lost[] = {4 | 2u << 27, 0xe401df81, 0xe4e4e4e4};
    CHECK64(0, vectors, 4, {0, false, 0, SAME, SAME}, {1, false, 16, -16, -8}, {2, true, 16, -16, -8});
    check64(0, lost, 3, 4, NULL, 0);
    static const uint32_t part_vectors[] = {4 | 2u << 27, 0xe101dfe5, 0xe4e4e481};
    CHECK64(0, part_vectors, 4, {0, true, 16, -16, -8});
    static const uint32_t interrupt[] = {4 | 1u << 27, 0xe4e4e4e9}, version[] = {4 | 1u << 18 | 1u << 27, 0xe4e4e4e4};
    static const uint32_t cut[] = {4 | 1u << 27, 0xd0010101}, behind[] = {3 | 1u << 22 | 1u << 27, 4, 0xe4010101};
    static const uint32_t overlapping[] = {9 | 1u << 22 | 1u << 27, 2, 0xe4010101};
    /* sub sp, sp, #1048576; stp x21, x30, [sp, #16]: farther than a rule can say */
    static const uint32_t far_away[] = {4 | 2u << 27, 0x01e042d6, 0xe4e40000};
    check64(0, far_away, 3, 4, NULL, 0);
    check64(0, interrupt, 2, 4, NULL, 0);
    check64(0, version, 2, 4, NULL, 0);
    check64(0, cut, 2, 4, NULL, 0);
    check64(0, behind, 3, 3, NULL, 0);
    check64(0, overlapping, 3, 9, NULL, 0);
}

int main(void) {
    check_parts();
    /* rbp -1: it is not the function's own there, so no rule may use it. */
    static const truth of_microsofts[] = {{0, 8, -1, 0},        {1, 16, -1, 16},    {5, 0x50, -1, 16}, {10, 0x50, 0x30, 16},
                                          {11, 0x50, 0x30, 16}, {15, 16, 0x30, 16}, {16, 8, -1, 0}};
    static const truth of_gccs[] = {{0, 8, -1, 0},    {1, 16, -1, 16},    {4, 16, 16, 16},    {5, 24, 16, 16},
                                    {6, 32, 16, 16},  {10, 0x40, 16, 16}, {11, 0x40, 16, 16}, {15, 32, 16, 16},
                                    {16, 24, 16, 16}, {17, 16, 16, 16},   {18, 8, -1, 0}};
    check(microsofts, sizeof microsofts, microsofts_info, sizeof microsofts_info, of_microsofts,
          sizeof of_microsofts / sizeof *of_microsofts);
    check(gccs, sizeof gccs, gccs_info, sizeof gccs_info, of_gccs, sizeof of_gccs / sizeof *of_gccs);
    test_packed();
    test_records();
    return check_done();
}
