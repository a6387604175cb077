/* Rows of Windows' unwind tables against what the prologues of two made-up functions do to the stack, instruction by instruction:
 * one as Microsoft's compiler makes them, which sets a frame register last, and one as gcc does, which pushes after it. And whose
 * a part of a function is. */
#include <string.h>

#include "check.h"
#include "core/unwind_table.h"

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
    spp_unwind_read_seh(&o, &rules, &(spp_unwind_image){image, sizeof image, BASE, 0, sizeof function});
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
    spp_unwind_read_seh(&o, &rules, &(spp_unwind_image){image, sizeof image, BASE, 0, sizeof functions});
    uintptr_t code = BASE + CODE;
    CHECK(o.refused == 0 && !o.out_of_memory);
    CHECK(spp_unwind_function_of(&o, code + NOPS + 3) == code && spp_unwind_end_of(&o, code) == code + 2 * NOPS);
    CHECK(spp_unwind_function_of(&o, code + 2 * NOPS + 3) == code + 2 * NOPS);
    CHECK(spp_unwind_function_of(&o, code + 4 * NOPS + 3) == code + 4 * NOPS + 3);
    spp_unwind_object_free(&o);
    spp_unwind_rules_free(&rules);
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
    return check_done();
}
