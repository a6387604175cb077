/* A suspended thread's registers, as Windows gives them. */
#ifndef SPPROF_OS_WINDOWS_MACHINE_H
#define SPPROF_OS_WINDOWS_MACHINE_H

#include "os/windows/windows.h"

#include <string.h>

#include "os/context.h"

/* A processor provides: MACHINE, that of its objects; CYCLES_ARE_TIME, whether a thread's cycles
 * (QueryThreadCycleTime) count at one rate; read_context; read_registers, by DWARF's numbers;
 * SYSCALL_BYTES, how much code before pc is_syscall needs to decide whether the kernel was called
 * just there. */

#if defined(__x86_64__)

#define MACHINE IMAGE_FILE_MACHINE_AMD64
#define CYCLES_ARE_TIME true /* they are the time stamp counter's, unless another processor emulates this one */

static inline void read_context(const CONTEXT *from, spp_os_context *to) {
    to->pc = from->Rip;
    to->sp = from->Rsp;
}

/* psABI for AMD64, figure 3.36. */
static inline void read_registers(const CONTEXT *c, uintptr_t to[SPP_OS_REGISTERS]) {
    const uintptr_t from[] = {c->Rax, c->Rdx, c->Rcx, c->Rbx, c->Rsi, c->Rdi, c->Rbp, c->Rsp, c->R8,
                              c->R9,  c->R10, c->R11, c->R12, c->R13, c->R14, c->R15, c->Rip};
    memcpy(to, from, sizeof from);
}

/* `syscall`, or wine's call of its dispatcher at a fixed place in the page that the kernel shares with all. */
#define SYSCALL_BYTES 7u
static inline bool is_syscall(const uint8_t *code) {
    static const uint8_t wine[SYSCALL_BYTES] = {0xff, 0x14, 0x25, 0x00, 0x10, 0xfe, 0x7f};
    return (code[5] == 0x0f && code[6] == 0x05) || memcmp(code, wine, sizeof wine) == 0;
}

#elif defined(__aarch64__)

#define MACHINE IMAGE_FILE_MACHINE_ARM64
#define CYCLES_ARE_TIME false /* they are the core's own, whose rate changes */

static inline void read_context(const CONTEXT *from, spp_os_context *to) {
    to->pc = from->Pc;
    to->sp = from->Sp;
}

/* DWARF for the Arm 64-bit Architecture: x0 to x30, sp. */
static inline void read_registers(const CONTEXT *c, uintptr_t to[SPP_OS_REGISTERS]) {
    _Static_assert(sizeof c->X == 31 * sizeof *to, "x0 to x30");
    memcpy(to, c->X, sizeof c->X);
    to[31] = c->Sp;
}

/* svc, whose number is the call's. */
#define SYSCALL_BYTES 4u
static inline bool is_syscall(const uint8_t *code) {
    uint32_t instruction;
    memcpy(&instruction, code, sizeof instruction);
    return (instruction & 0xffe0001f) == 0xd4000001;
}

#else
#error "spprof knows the registers of x86_64 and aarch64 only"
#endif

#endif
