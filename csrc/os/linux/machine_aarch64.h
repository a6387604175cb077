/* aarch64 Linux. */
#ifndef SPPROF_OS_LINUX_MACHINE_AARCH64_H
#define SPPROF_OS_LINUX_MACHINE_AARCH64_H

#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "os/context.h"

/* Handler. Makes a system call with four arguments. Returns -errno on failure; keeps errno. */
static inline long raw_call(long number, long a, uintptr_t b, long c, long d) {
    register long nr __asm__("x8") = number, x0 __asm__("x0") = a, x2 __asm__("x2") = c, x3 __asm__("x3") = d;
    register uintptr_t x1 __asm__("x1") = b;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(nr), "r"(x1), "r"(x2), "r"(x3) : "memory", "cc");
    return x0;
}

/* Defines the function `name`. It jumps to `own` if its first argument is below `n` and its byte in `table` is not 0, else to the
 * function that `real` points to. It uses no stack, since a child made by such a call may return on another one. All are hidden
 * symbols. */
#define BY_NUMBER_TEXT(name, table, n, own, real)                                                                      \
    __asm__(".pushsection .text\n.hidden " #name "\n.globl " #name "\n.type " #name ", %function\n.balign 4\n" #name   \
            ":\n.cfi_startproc\nhint #34\ncmp x0, #" #n "\nb.hs 1f\nadrp x16, " #table "\nadd x16, x16, :lo12:" #table \
            "\nldrb w16, [x16, x0]\ncbz w16, 1f\nb " #own "\n1: adrp x16, " #real "\nldr x16, [x16, :lo12:" #real      \
            "]\nbr x16\n.cfi_endproc\n.size " #name ", . - " #name "\n.popsection")
#define BY_NUMBER(name, table, n, own, real) BY_NUMBER_TEXT(name, table, n, own, real)

/* Stores the registers that a walk needs, as if a signal had interrupted the caller here. Also in a handler. */
static inline __attribute__((always_inline)) void own_registers(ucontext_t *uc) {
    __asm__ volatile("stp x19, x20, [%0, 152]\nstp x21, x22, [%0, 168]\nstp x23, x24, [%0, 184]\nstp x25, x26, [%0, 200]\n"
                     "stp x27, x28, [%0, 216]\nstp x29, x30, [%0, 232]\nmov x9, sp\nadr x10, .\nstr x9, [%1]\nstr x10, [%2]"
                     :
                     : "r"(uc->uc_mcontext.regs), "r"(&uc->uc_mcontext.sp), "r"(&uc->uc_mcontext.pc)
                     : "x9", "x10", "memory");
}

#define CALL_BYTES 4
static inline bool is_call(const uint8_t *code) { /* svc 0 */
    return code[0] == 0x01 && code[1] == 0 && code[2] == 0 && code[3] == 0xd4;
}

static inline bool machine_registers_show(void) { return false; }

static inline uintptr_t program_counter(const ucontext_t *uc) { return (uintptr_t)uc->uc_mcontext.pc; }

static inline bool is_behind_call(const ucontext_t *uc) { return uc == NULL; } /* unknown */
static inline bool is_on_call(const ucontext_t *uc) { return uc == NULL; }     /* unknown */

/* x8 is seldom so small except for system calls: elsewhere it is the address for a structure to return. */
static inline long call_number(const ucontext_t *uc) { return (long)uc->uc_mcontext.regs[8]; }
static inline bool has_call_number(const ucontext_t *uc) { return uc->uc_mcontext.regs[8] < 1024; }

static inline void call_arguments(const ucontext_t *uc, uintptr_t to[6]) {
    for (size_t i = 0; i < 6; i++) to[i] = (uintptr_t)uc->uc_mcontext.regs[i];
}

static inline long call_result(const ucontext_t *uc) { return (long)uc->uc_mcontext.regs[0]; }

static inline void interrupt_call(ucontext_t *uc) {
    uc->uc_mcontext.pc += CALL_BYTES;
    uc->uc_mcontext.regs[0] = (unsigned long long)-EINTR;
}

static inline uintptr_t stack_pointer(const ucontext_t *uc) { return (uintptr_t)uc->uc_mcontext.sp; }

/* Which word of a jmp_buf has the stack pointer. It is not rotated. */
#define JUMP_SP 13
#define JUMP_TURNED(word) (word)

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
