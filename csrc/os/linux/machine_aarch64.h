/* aarch64 Linux. */
#ifndef SPPROF_OS_LINUX_MACHINE_AARCH64_H
#define SPPROF_OS_LINUX_MACHINE_AARCH64_H

#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "os/os.h"

/* Handler. A system call with four arguments; -errno if it fails, and errno stays. */
static inline long raw_call(long number, long a, uintptr_t b, long c, long d) {
    register long nr __asm__("x8") = number, x0 __asm__("x0") = a, x2 __asm__("x2") = c, x3 __asm__("x3") = d;
    register uintptr_t x1 __asm__("x1") = b;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(nr), "r"(x1), "r"(x2), "r"(x3) : "memory", "cc");
    return x0;
}

#define SVC 0xd4000001u

static inline bool on_call(const ucontext_t *uc) { return *(const uint32_t *)(uintptr_t)uc->uc_mcontext.pc == SVC; }

static inline bool began_before(const ucontext_t *uc) { return uc == NULL; } /* not told */

static inline bool is_to_begin(const ucontext_t *uc) { return uc == NULL; } /* not told */
static inline long call_number(const ucontext_t *uc) { return (long)uc->uc_mcontext.regs[8]; }

static inline void interrupt_call(ucontext_t *uc) {
    uc->uc_mcontext.pc += 4;
    uc->uc_mcontext.regs[0] = (unsigned long long)-EINTR;
}

static inline void read_context(const ucontext_t *uc, spp_os_context *to) {
    to->pc = (uintptr_t)uc->uc_mcontext.pc;
    to->sp = (uintptr_t)uc->uc_mcontext.sp;
    const uint32_t *pc = (const uint32_t *)to->pc;
    to->at_syscall = ((to->pc & 4095) >= 4 && pc[-1] == SVC) || on_call(uc);
}

static inline void read_registers(const ucontext_t *uc, uintptr_t to[SPP_OS_REGISTERS]) {
    for (size_t i = 0; i < 31; i++) to[i] = (uintptr_t)uc->uc_mcontext.regs[i];
    to[31] = (uintptr_t)uc->uc_mcontext.sp;
}

#endif
