/* x86_64 Linux. */
#ifndef SPPROF_OS_LINUX_MACHINE_X86_64_H
#define SPPROF_OS_LINUX_MACHINE_X86_64_H

#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "os/os.h"

/* Handler. A system call with four arguments; -errno if it fails, and errno stays. */
static inline long raw_call(long number, long a, uintptr_t b, long c, long d) {
    long result;
    register long fourth __asm__("r10") = d;
    __asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(a), "S"(b), "d"(c), "r"(fourth) : "rcx", "r11", "memory");
    return result;
}

/* Whether pc is on a call of the kernel: one that begins anew when the handler returns, or (rarely) one that was to begin. */
static inline bool on_call(const ucontext_t *uc) {
    const uint8_t *pc = (const uint8_t *)(uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
    return ((uintptr_t)pc & 4095) < 4095 && pc[0] == 0x0f && pc[1] == 0x05;
}

/* Whether that call was in the kernel already: `syscall` leaves the address behind it in rcx. */
static inline bool began_before(const ucontext_t *uc) {
    return uc->uc_mcontext.gregs[REG_RCX] == uc->uc_mcontext.gregs[REG_RIP] + 2;
}

/* Whether it has not begun, as far as can be told: rcx may be left from the same call before. */
static inline bool is_to_begin(const ucontext_t *uc) { return !began_before(uc); }
static inline long call_number(const ucontext_t *uc) { return (long)uc->uc_mcontext.gregs[REG_RAX]; }

static inline void interrupt_call(ucontext_t *uc) {
    uc->uc_mcontext.gregs[REG_RIP] += 2;
    uc->uc_mcontext.gregs[REG_RAX] = -EINTR;
}

static inline void read_context(const ucontext_t *uc, spp_os_context *to) {
    to->pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
    to->sp = (uintptr_t)uc->uc_mcontext.gregs[REG_RSP];
    /* `syscall` is 0f 05; a restarted call has pc on it, a finished one behind it. The bytes are code that runs, so they
     * can be read, except that pc - 2 may lie on an execute-only or unmapped page before. */
    const uint8_t *pc = (const uint8_t *)to->pc;
    bool behind = (to->pc & 4095) >= 2 && pc[-2] == 0x0f && pc[-1] == 0x05;
    to->at_syscall = behind || on_call(uc);
}

static inline void read_registers(const ucontext_t *uc, uintptr_t to[SPP_OS_REGISTERS]) {
    /* DWARF's order: System V psABI for AMD64, figure 3.36. */
    static const uint8_t order[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP,
                                    REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    for (size_t i = 0; i < sizeof order; i++) to[i] = (uintptr_t)uc->uc_mcontext.gregs[order[i]];
}

#endif
