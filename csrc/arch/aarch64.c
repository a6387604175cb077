/* What can be read from aarch64's machine code. */
#include "arch/arch.h"

#include "base/hints.h"
#include "os/memory.h"

#define NOP 0xd503201fu
#define BTI_C 0xd503245fu
#define AUTIA1716 0xd503219fu
#define PUSH_X16_LR 0xa9bf7bf0u /* stp x16, x30, [sp, #-16]! */
#define PUSH_FP_LR 0xa9bf7bfdu  /* stp x29, x30, [sp, #-16]! */
#define POP_FP_LR 0xa8c17bfdu   /* ldp x29, x30, [sp], #16 */
#define MOV_FP_SP 0x910003fdu
#define BLR_X3 0xd63f0060u
#define BR_X17 0xd61f0220u
#define MOV_X8_SIGRETURN 0xd2801168u /* mov x8, #139 */
#define SVC 0xd4000001u

#define BEFORE 4u
#define AFTER 6u

/* An instruction of an entry of the procedure linkage table, before its br x17: adrp x16; ldr x17, [x16, ..]; add x16, x16, .. */
static bool is_of_plt(uint32_t code) {
    return (code & 0x9f00001f) == 0x90000010 || (code & 0xffc003ff) == 0xf9400211 || (code & 0xff8003ff) == 0x91000210 ||
           code == NOP || code == BTI_C || code == AUTIA1716;
}

/* CPython's trampolines, one for each Python function under -X perf, copied to memory of their own: stp x29, x30, [sp, #-16]!;
 * mov x29, sp; blr x3; ldp x29, x30, [sp], #16; ret (its Python/asm_trampoline.S). Entries of a procedure linkage table, the
 * first of which pushes two registers for the dynamic loader. And what a signal's handler returns to (Linux's
 * arch/arm64/kernel/vdso/sigreturn.S says that unwinders know it by its code). */
SPP_COLD uint32_t spp_arch_code_at(uintptr_t pc) {
    uint32_t before[BEFORE] = {0}, next[AFTER] = {0};
    uintptr_t at = (pc + 3) & ~(uintptr_t)3; /* the instruction to be run next */
    if (spp_os_read(next, at, sizeof next) != 0 && spp_os_read(next, at, 8) != 0) return SPP_CODE_UNKNOWN;
    (void)spp_os_read(before, at - sizeof before, sizeof before); /* may be another page */
    if (next[0] == MOV_X8_SIGRETURN && next[1] == SVC) return SPP_CODE_SIGNAL;
    if (next[0] == SVC && before[3] == MOV_X8_SIGRETURN) return SPP_CODE_SIGNAL;
    if (next[0] == POP_FP_LR && before[3] == BLR_X3 && before[2] == MOV_FP_SP && before[1] == PUSH_FP_LR) return SPP_CODE_FRAMED;
    uint32_t n = 0;
    while (n < AFTER && is_of_plt(next[n])) n++;
    if (n == AFTER || next[n] != BR_X17) return SPP_CODE_UNKNOWN;
    for (uint32_t i = BEFORE; i-- > 0 && (before[i] == PUSH_X16_LR || is_of_plt(before[i]));) {
        if (before[i] == PUSH_X16_LR) return SPP_CODE_MOVED;
    }
    return SPP_CODE_BARE;
}

/* bl, or blr and its kin that check a signature. */
bool spp_arch_behind_call(uintptr_t back) {
    if (back & 3) return false;
    uint32_t code = *(const uint32_t *)(back - 4);
    return (code & 0xfc000000) == 0x94000000 || (code & 0xfffffc1f) == 0xd63f0000 || (code & 0xfffff81f) == 0xd63f081f ||
           (code & 0xfffff800) == 0xd73f0800;
}

/* Its trampolines have no mark of their own; the link register identifies them as well. */
bool spp_arch_in_trampoline(uintptr_t pc) {
    (void)pc;
    return false;
}

/* A function that keeps its return address in its register, or its caller's frame pointer and it below its frame, is walked
 * without. */
size_t spp_arch_code_rows(const uint8_t *code, size_t n, spp_code_row *rows, size_t most) {
    (void)code, (void)n, (void)rows, (void)most;
    return 0;
}
