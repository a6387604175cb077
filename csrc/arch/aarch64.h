/* aarch64: AAPCS64, and DWARF for the Arm 64-bit Architecture (https://github.com/ARM-software/abi-aa). */
#ifndef SPPROF_ARCH_AARCH64_H
#define SPPROF_ARCH_AARCH64_H

#include <stdint.h>

/* DWARF's numbers of the registers that matter: x29, sp, and x30, the link register. */
enum { SPP_REG_FP = 29, SPP_REG_SP = 31, SPP_REG_RA = 30 };

/* Of a program's addresses; more only where a program asks for them (Linux's Documentation/arch/arm64/memory.rst). Beside
 * x86_64's 47 this matters: libraries and the heap lie in the upper half. */
#define SPP_ADDRESS_BITS 48
#define SPP_RED_ZONE 0u       /* AAPCS64 has none */
#define SPP_CALL_PUSHES 0u    /* the return address is in the link register; a function saves it, or does not */
#define SPP_CODE_IN_OBJECTS 1 /* linkers describe no procedure linkage table, and Linux's vDSO not the return from a signal */
#define SPP_SEH_WORDS 2u      /* of an entry of Windows' table of functions */
#define SPP_TWO_RETURN_KEYS 1 /* the letter B in a CIE: return addresses are signed by the second key */

/* The kernel's frame of a signal (struct rt_sigframe in Linux's arch/arm64/kernel/signal.c: siginfo of 128 bytes, ucontext, whose
 * registers lie behind a signal set of 1024 bits; struct sigcontext: fault address, x0 to x30, sp, pc): sp lies at this distance
 * from its beginning, and the others from there. What old kernels' unwind information says of it is another thing, and not
 * enough. */
#define SPP_SIGNAL_SP (128 + 176 + 8 + 31 * 8)
enum { SPP_SIGNAL_FP = -16, SPP_SIGNAL_PC = 8, SPP_SIGNAL_RA = -8 };

/* A return address as an address: without its signature, where the program signs them (xpaclri, which does nothing on processors
 * that cannot; how many bits the signature has depends on the kernel). */
static inline uintptr_t spp_arch_unsigned(uintptr_t back) {
    register uintptr_t link __asm__("x30") = back;
    __asm__("hint 7" : "+r"(link));
    return link;
}

/* The virtual counter: of constant frequency (cntfrq_el0, 24 MHz to 1 GHz), so these are no cycles. */
static inline uint64_t spp_arch_cycles(void) {
    uint64_t count;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(count));
    return count;
}

/* Asks for a cache line to be written to soon. */
static inline void spp_arch_own_line(const void *line) { __builtin_prefetch(line, 1); }

/* arch.h */
#define spp_arch_compact_rows spp_compact_rows_aarch64

#endif
