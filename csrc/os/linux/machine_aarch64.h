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

/* The same, from one place in the program: `name` is the address behind it. In one function that is not inlined. */
#define NAMED_CALL(name, result, number, a, b, c, d)                                                                   \
    register long nr __asm__("x8") = (number), x0 __asm__("x0") = (a), x2 __asm__("x2") = (c), x3 __asm__("x3") = (d); \
    register uintptr_t x1 __asm__("x1") = (b);                                                                         \
    __asm__ volatile("svc 0\n.globl " #name "\n.hidden " #name "\n" #name ":"                                          \
                     : "+r"(x0)                                                                                        \
                     : "r"(nr), "r"(x1), "r"(x2), "r"(x3)                                                              \
                     : "memory", "cc");                                                                                \
    (result) = x0

/* A system call with six arguments. */
#define NUMBERED_CALL(result, number, a, b, c, d, e, f)                                                                \
    register long nr __asm__("x8") = (number), x0 __asm__("x0") = (a), x1 __asm__("x1") = (b), x2 __asm__("x2") = (c), \
                     x3 __asm__("x3") = (d), x4 __asm__("x4") = (e), x5 __asm__("x5") = (f);                           \
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(nr), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory", "cc");      \
    (result) = x0

/* A function called `name` that goes on to `own` if its first argument is `number`, and so on, else to what
 * the pointer `real` points to, as if the caller had called that: a child that such a call makes returns on a stack of its own.
 * All are hidden symbols. */
#define BY_NUMBER_TEXT(name, number, own, number2, own2, number3, own3, real)                                                \
    __asm__(".pushsection .text\n.hidden " #name "\n.globl " #name "\n.type " #name ", %function\n.balign 4\n" #name         \
            ":\n.cfi_startproc\nhint #34\ncmp x0, #" #number "\nb.eq 1f\ncmp x0, #" #number2 "\nb.eq 2f\ncmp x0, #" #number3 \
            "\nb.eq 3f\nadrp x16, " #real "\nldr x16, [x16, :lo12:" #real "]\nbr x16\n1: b " #own "\n2: b " #own2            \
            "\n3: b " #own3 "\n.cfi_endproc\n.size " #name ", . - " #name "\n.popsection")
#define BY_NUMBER(name, number, own, number2, own2, number3, own3, real) \
    BY_NUMBER_TEXT(name, number, own, number2, own2, number3, own3, real)

#define CALL_BYTES 4
static inline bool is_call(const uint8_t *code) { /* svc 0 */
    return code[0] == 0x01 && code[1] == 0 && code[2] == 0 && code[3] == 0xd4;
}

static inline bool machine_registers_tell(void) { return false; }

static inline uintptr_t program_counter(const ucontext_t *uc) { return (uintptr_t)uc->uc_mcontext.pc; }

static inline bool is_behind_call(const ucontext_t *uc) { return uc == NULL; } /* not told */
static inline bool is_on_call(const ucontext_t *uc) { return uc == NULL; }     /* not told */

/* In code that calls no kernel x8 is seldom so small: it tells where a structure is to be returned. */
static inline long call_number(const ucontext_t *uc) { return (long)uc->uc_mcontext.regs[8]; }
static inline bool has_call_number(const ucontext_t *uc) { return uc->uc_mcontext.regs[8] < 1024; }

static inline void call_arguments(const ucontext_t *uc, uintptr_t to[6]) {
    for (size_t i = 0; i < 6; i++) to[i] = (uintptr_t)uc->uc_mcontext.regs[i];
}

static inline long call_result(const ucontext_t *uc) { return (long)uc->uc_mcontext.regs[0]; }

/* The result is where the first argument was. */
static inline long ended_number(const ucontext_t *uc) { return uc == NULL ? 0 : -1; }
static inline void begin_call(ucontext_t *uc, long number) { (void)uc, (void)number; }

/* No register is free for that: a call that two ticks meet counts twice, and none begins anew. */
static inline bool is_settled(const ucontext_t *uc) { return uc == NULL; }
static inline void settle(ucontext_t *uc) { (void)uc; }

static inline void interrupt_call(ucontext_t *uc) {
    uc->uc_mcontext.pc += CALL_BYTES;
    uc->uc_mcontext.regs[0] = (unsigned long long)-EINTR;
}

static inline void read_context(const ucontext_t *uc, spp_os_context *to) {
    to->pc = (uintptr_t)uc->uc_mcontext.pc;
    to->sp = (uintptr_t)uc->uc_mcontext.sp;
}

static inline uintptr_t thread_pointer(void) {
    uintptr_t at;
    __asm__("mrs %0, tpidr_el0" : "=r"(at));
    return at;
}

static inline void read_registers(const ucontext_t *uc, uintptr_t to[SPP_OS_REGISTERS]) {
    for (size_t i = 0; i < 31; i++) to[i] = (uintptr_t)uc->uc_mcontext.regs[i];
    to[31] = (uintptr_t)uc->uc_mcontext.sp;
}

#endif
