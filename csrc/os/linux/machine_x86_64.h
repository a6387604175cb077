/* x86_64 Linux. */
#ifndef SPPROF_OS_LINUX_MACHINE_X86_64_H
#define SPPROF_OS_LINUX_MACHINE_X86_64_H

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "os/context.h"

/* Handler. Makes a system call with four arguments. Returns -errno on failure; keeps errno. */
static inline long raw_call(long number, long a, uintptr_t b, long c, long d) {
    long result;
    register long fourth __asm__("r10") = d;
    __asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(a), "S"(b), "d"(c), "r"(fourth) : "rcx", "r11", "memory");
    return result;
}

/* Defines the function `name`. It jumps to `own` if its first argument is below `n` and its byte in `table` is not 0, else to the
 * function that `real` points to. It uses no stack, since a child made by such a call may return on another one. All are hidden
 * symbols. */
#define BY_NUMBER_TEXT(name, table, n, own, real)                                                                    \
    __asm__(".pushsection .text\n.hidden " #name "\n.globl " #name "\n.type " #name ", @function\n" #name            \
            ":\n.cfi_startproc\nendbr64\ncmp $" #n ", %rdi\njae 1f\nlea " #table                                     \
            "(%rip), %r11\ncmpb $0, (%r11, %rdi)\njne " #own "\n1: jmp *" #real "(%rip)\n.cfi_endproc\n.size " #name \
            ", . - " #name "\n.popsection")
#define BY_NUMBER(name, table, n, own, real) BY_NUMBER_TEXT(name, table, n, own, real)

/* Stores the registers that a walk needs, as if a signal had interrupted the caller here. Also in a handler. */
static inline __attribute__((always_inline)) void own_registers(ucontext_t *uc) {
    greg_t *to = uc->uc_mcontext.gregs;
    __asm__ volatile("lea 0(%%rip), %%rax\nmov %%rax, %[pc]\nmov %%rsp, %[sp]\nmov %%rbp, %[bp]\nmov %%rbx, %[bx]\n"
                     "mov %%r12, %[r12]\nmov %%r13, %[r13]\nmov %%r14, %[r14]\nmov %%r15, %[r15]"
                     : [pc] "=m"(to[REG_RIP]), [sp] "=m"(to[REG_RSP]), [bp] "=m"(to[REG_RBP]), [bx] "=m"(to[REG_RBX]),
                       [r12] "=m"(to[REG_R12]), [r13] "=m"(to[REG_R13]), [r14] "=m"(to[REG_R14]), [r15] "=m"(to[REG_R15])
                     :
                     : "rax", "memory");
}

#define CALL_BYTES 2
static inline bool is_call(const uint8_t *code) { return code[0] == 0x0f && code[1] == 0x05; }

/* Whether `syscall` leaves its return address in rcx. It does, unless the kernel uses FRED. */
static inline bool machine_registers_show(void) {
    long number = SYS_getpid;
    uintptr_t left = 0;
    __asm__ volatile("syscall" : "+a"(number), "+c"(left) : : "r11", "memory");
    return left != 0;
}

static inline uintptr_t program_counter(const ucontext_t *uc) { return (uintptr_t)uc->uc_mcontext.gregs[REG_RIP]; }

/* If machine_registers_show(): whether a call has just ended; whether pc is on a call that has begun, or in a loop on the same
 * call again. */
static inline bool is_behind_call(const ucontext_t *uc) {
    return uc->uc_mcontext.gregs[REG_RCX] == uc->uc_mcontext.gregs[REG_RIP];
}
static inline bool is_on_call(const ucontext_t *uc) {
    return uc->uc_mcontext.gregs[REG_RCX] == uc->uc_mcontext.gregs[REG_RIP] + CALL_BYTES;
}

static inline long call_number(const ucontext_t *uc) { return (long)uc->uc_mcontext.gregs[REG_RAX]; }
static inline bool has_call_number(const ucontext_t *uc) { return (uint64_t)call_number(uc) < 1024; }

static inline void call_arguments(const ucontext_t *uc, uintptr_t to[6]) {
    static const uint8_t order[] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9};
    for (size_t i = 0; i < sizeof order; i++) to[i] = (uintptr_t)uc->uc_mcontext.gregs[order[i]];
}

/* What a call that has just ended returned. */
static inline long call_result(const ucontext_t *uc) { return (long)uc->uc_mcontext.gregs[REG_RAX]; }

static inline void interrupt_call(ucontext_t *uc) {
    uc->uc_mcontext.gregs[REG_RIP] += CALL_BYTES;
    uc->uc_mcontext.gregs[REG_RAX] = -EINTR;
}

static inline uintptr_t stack_pointer(const ucontext_t *uc) { return (uintptr_t)uc->uc_mcontext.gregs[REG_RSP]; }

/* Which word of a jmp_buf has the stack pointer, and how glibc rotates it (sysdeps/unix/sysv/linux/x86_64/pointer_guard.h). */
#define JUMP_SP 6
#define JUMP_TURNED(word) ((word) >> 17 | (word) << 47)

static inline void read_context(const ucontext_t *uc, spp_os_context *to) {
    to->pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
    to->sp = (uintptr_t)uc->uc_mcontext.gregs[REG_RSP];
}

static inline uintptr_t thread_pointer(void) {
    uintptr_t at; /* the descriptor's first word points to itself: System V psABI for AMD64, "Thread-Local Storage" */
    __asm__("mov %%fs:0, %0" : "=r"(at));
    return at;
}

static inline void read_registers(const ucontext_t *uc, uintptr_t to[SPP_OS_REGISTERS]) {
    /* DWARF's order: System V psABI for AMD64, figure 3.36. */
    static const uint8_t order[] = {REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP,
                                    REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    for (size_t i = 0; i < sizeof order; i++) to[i] = (uintptr_t)uc->uc_mcontext.gregs[order[i]];
}

#endif
