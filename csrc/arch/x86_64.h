/* x86_64: System V psABI for AMD64. */
#ifndef SPPROF_ARCH_X86_64_H
#define SPPROF_ARCH_X86_64_H

#include <stdint.h>
#include <x86intrin.h>

/* DWARF's numbers of the registers that matter (psABI, figure 3.36). */
enum { SPP_REG_FP = 6, SPP_REG_SP = 7, SPP_REG_RA = 16 };

#define SPP_ADDRESS_BITS 47   /* of a program's addresses */
#define SPP_RED_ZONE 128u     /* bytes below sp that are in use */
#define SPP_CALL_PUSHES 8u    /* a call puts its return address on the stack */
#define SPP_CODE_IN_OBJECTS 0 /* code of objects without unwind information does not show its frame layout */
#define SPP_SEH_WORDS 3u      /* of an entry of Windows' table of functions */
#define SPP_TWO_RETURN_KEYS 0 /* the letter B in a CIE: unknown */

/* The kernel's frame of a signal: unwind information says where sp lies, and from there the others (struct sigcontext in
 * Linux's arch/x86/include/uapi/asm/sigcontext.h: ... bp bx dx ax cx sp ip). */
#define SPP_SIGNAL_SP 0
enum { SPP_SIGNAL_FP = -40, SPP_SIGNAL_PC = 8, SPP_SIGNAL_RA = 0 };

/* A return address as an address. */
static inline uintptr_t spp_arch_unsigned(uintptr_t back) { return back; }

static inline uint64_t spp_arch_cycles(void) { return __rdtsc(); }

/* Prefetches a cache line for writing. gcc makes it a read unless the target is a processor from
 * 2014 on; older ones ignore the instruction. */
static inline void spp_arch_own_line(const void *line) { __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line)); }

/* arch.h */
#define spp_arch_compact_rows spp_compact_rows_x86_64

#endif
