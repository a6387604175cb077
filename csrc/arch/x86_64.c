/* What x86_64's machine code tells. */
#include "arch/arch.h"

#include <string.h>

#include "base/hints.h"
#include "os/os.h"

/* CPython's trampolines, one for each Python function under -X perf, copied to memory of their own: endbr64 perhaps, sub $8,
 * %rsp; call *%rcx; add $8, %rsp; ret (3.12, 3.13), or push %rbp; mov %rsp, %rbp; call *%rcx; pop %rbp; ret (its
 * Python/asm_trampoline.S). `pc` is the last byte of the call. */
SPP_COLD uint32_t spp_arch_code_at(uintptr_t pc) {
    static const uint8_t moved[] = {0x48, 0x83, 0xec, 8, 0xff, 0xd1, 0x48, 0x83, 0xc4, 8, 0xc3};
    static const uint8_t framed[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd1, 0x5d, 0xc3};
    uint8_t code[sizeof moved];
    if (spp_os_read(code, pc - 5, sizeof code) != 0) return SPP_CODE_UNKNOWN;
    if (memcmp(code, moved, sizeof moved) == 0) return SPP_CODE_MOVED;
    return memcmp(code, framed, sizeof framed) == 0 ? SPP_CODE_FRAMED : SPP_CODE_UNKNOWN;
}

bool spp_arch_behind_call(uintptr_t back) {
    const uint8_t *p = (const uint8_t *)back;
    return p[-5] == 0xe8 || p[-2] == 0xff || p[-3] == 0xff || p[-4] == 0xff || p[-6] == 0xff || p[-7] == 0xff;
}

/* endbr64, then a load of r10 or r11 and a jump. Each begins at a multiple of 16 and may be 32 bytes long (libffi's
 * src/x86/unix64.S and ffi64.c). */
bool spp_arch_in_trampoline(uintptr_t pc) {
    static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
    for (uintptr_t at = pc & ~(uintptr_t)15; at + 32 > pc; at -= 16) {
        const uint8_t *p = (const uint8_t *)at;
        if (!spp_os_readable(at)) return false;
        if (memcmp(p, endbr64, sizeof endbr64) == 0) return p[4] == 0x4c || p[4] == 0x49;
    }
    return false;
}
