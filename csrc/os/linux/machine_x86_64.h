/* x86_64 Linux. */
#ifndef SPPROF_OS_LINUX_MACHINE_X86_64_H
#define SPPROF_OS_LINUX_MACHINE_X86_64_H

#include <errno.h>
#include <stddef.h>
#include <string.h>
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

/* The same, from one place in the program: `name` is the address behind it. In one function that is not inlined. */
#define NAMED_CALL(name, result, number, a, b, c, d)                                                         \
    register long fourth __asm__("r10") = (d);                                                               \
    __asm__ volatile("syscall\n.globl " #name "\n.hidden " #name "\n" #name ":"                              \
                     : "=a"(result)                                                                          \
                     : "0"((long)(number)), "D"((long)(a)), "S"((uintptr_t)(b)), "d"((long)(c)), "r"(fourth) \
                     : "rcx", "r11", "memory")

/* A system call with six arguments, whose number stands in the code before it, so that it can begin anew. */
#define NUMBERED_CALL_TEXT(number) "mov $" #number ", %%eax\nsyscall"
#define NUMBERED_CALL(result, number, a, b, c, d, e, f)                                                    \
    register long fourth __asm__("r10") = (d);                                                             \
    register long fifth __asm__("r8") = (e);                                                               \
    register long sixth __asm__("r9") = (f);                                                               \
    __asm__ volatile(NUMBERED_CALL_TEXT(number)                                                            \
                     : "=&a"(result)                                                                       \
                     : "D"((long)(a)), "S"((long)(b)), "d"((long)(c)), "r"(fourth), "r"(fifth), "r"(sixth) \
                     : "rcx", "r11", "memory")

/* A function called `name` that goes on to `own` if its first argument is `number`, and so on, else to what
 * the pointer `real` points to, as if the caller had called that: a child that such a call makes returns on a stack of its own.
 * All are hidden symbols. */
#define BY_NUMBER_TEXT(name, number, own, number2, own2, number3, own3, real)                                          \
    __asm__(".pushsection .text\n.hidden " #name "\n.globl " #name "\n.type " #name ", @function\n" #name              \
            ":\n.cfi_startproc\nendbr64\ncmp $" #number ", %rdi\nje " #own "\ncmp $" #number2 ", %rdi\nje " #own2      \
            "\ncmp $" #number3 ", %rdi\nje " #own3 "\njmp *" #real "(%rip)\n.cfi_endproc\n.size " #name ", . - " #name \
            "\n.popsection")
#define BY_NUMBER(name, number, own, number2, own2, number3, own3, real) \
    BY_NUMBER_TEXT(name, number, own, number2, own2, number3, own3, real)

#define CALL_BYTES 2
static inline bool is_call(const uint8_t *code) { return code[0] == 0x0f && code[1] == 0x05; }

/* Whether `syscall` leaves the address behind it in rcx. It does, but where the kernel runs with FRED. */
static inline bool machine_registers_tell(void) {
    long number = SYS_getpid;
    uintptr_t left = 0;
    __asm__ volatile("syscall" : "+a"(number), "+c"(left) : : "r11", "memory");
    return left != 0;
}

static inline uintptr_t program_counter(const ucontext_t *uc) { return (uintptr_t)uc->uc_mcontext.gregs[REG_RIP]; }

/* Where registers tell: whether a call has just ended; whether pc is on one that has begun. Or on the same one again, in a loop.
 */
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

/* ---- the number of a call that has ended, which is no more in a register: it stands in the code before it, where C libraries
 * put it, or on the stack; the C library's syscall() has it nowhere. */
#define LOADS_MOST 3      /* of arguments, in between: mov offset(%rsp), %rdi or the like */
#define NUMBERED_BYTES 22 /* mov $number, %eax (xor %eax, %eax for 0); loads; syscall */
static inline long number_in(const uint8_t code[NUMBERED_BYTES]) {
    const uint8_t *at = &code[NUMBERED_BYTES - CALL_BYTES];
    if (!is_call(at)) return -1;
    if ((at[-2] == 0x31 || at[-2] == 0x33) && at[-1] == 0xc0) return 0;
    for (int i = 0; i < LOADS_MOST; i++) {
        if (at[-4] == 0x8b && (at[-3] & 0xc7) == 0x44 && at[-3] != 0x44 && at[-2] == 0x24) /* into another than %eax */
            at -= 4;
        else if (at[-3] == 0x8b && (at[-2] & 0xc7) == 0x04 && at[-2] != 0x04 && at[-1] == 0x24)
            at -= 3;
        else
            break;
        if ((at[-1] & 0xf0) == 0x40) at--; /* REX */
    }
    return at[-5] == 0xb8 ? (long)(at[-4] | (uint32_t)at[-3] << 8 | (uint32_t)at[-2] << 16) : -1;
}

/* From 2.41 on glibc makes calls that a thread may be cancelled in (sysdeps/unix/sysv/linux/x86_64/syscall_cancel.S and
 * nptl/cancellation.c) in one place, where the number is an argument on the stack. Either that place loads it from there just
 * before; or it has it from its caller, who did, as the second argument. These tell how far from sp, or from the caller's sp when
 * it calls; or -1. */
static inline int loads_number(const uint8_t code[NUMBERED_BYTES]) {
    const uint8_t *at = &code[NUMBERED_BYTES - CALL_BYTES];
    static const uint8_t load[] = {0x48, 0x8b, 0x44, 0x24}; /* mov offset(%rsp), %rax */
    return is_call(at) && memcmp(at - 5, load, sizeof load) == 0 && at[-1] < 0x80 ? at[-1] : -1;
}
#define CALLER_BYTES 28 /* mov offset(%rsp), %rsi; moves between registers; call */
static inline int passes_number(const uint8_t code[CALLER_BYTES]) {
    const uint8_t *at = &code[CALLER_BYTES - 5];
    static const uint8_t load[] = {0x48, 0x8b, 0x74, 0x24};
    if (*at != 0xe8) return -1;
    while (at - 8 >= code && at[-2] == 0x89 && at[-1] >= 0xc0 && (at[-3] & 0xf0) == 0x40) at -= 3;
    return at - 5 >= code && memcmp(at - 5, load, sizeof load) == 0 && at[-1] < 0x80 ? at[-1] : -1;
}

/* Handler. That number; -1: it is not known. */
static inline long ended_number(const ucontext_t *uc) {
    uintptr_t pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP], sp = (uintptr_t)uc->uc_mcontext.gregs[REG_RSP], caller;
    uint8_t code[NUMBERED_BYTES], before[CALLER_BYTES];
    long number;
    if (spp_os_read(code, pc - sizeof code, sizeof code) != 0) return -1;
    if ((number = number_in(code)) >= 0) return number;
    int at = loads_number(code);
    if (at < 0) {
        if (spp_os_read(&caller, sp, sizeof caller) != 0 || spp_os_read(before, caller - sizeof before, sizeof before) != 0)
            return -1;
        at = passes_number(before);
        sp += sizeof caller;
    }
    return at >= 0 && spp_os_read(&number, sp + (uintptr_t)at, sizeof number) == 0 ? number : -1;
}

static inline void begin_call(ucontext_t *uc, long number) {
    uc->uc_mcontext.gregs[REG_RIP] -= CALL_BYTES;
    uc->uc_mcontext.gregs[REG_RAX] = number;
}

/* Two ticks may meet a thread behind the same call. The first decides, and leaves this in r11, where `syscall` puts the flags,
 * which are never 0, and which no program reads behind it. */
static inline bool is_settled(const ucontext_t *uc) { return uc->uc_mcontext.gregs[REG_R11] == 0; }
static inline void settle(ucontext_t *uc) { uc->uc_mcontext.gregs[REG_R11] = 0; }

static inline void interrupt_call(ucontext_t *uc) {
    uc->uc_mcontext.gregs[REG_RIP] += CALL_BYTES;
    uc->uc_mcontext.gregs[REG_RAX] = -EINTR;
}

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
