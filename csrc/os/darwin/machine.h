/* A suspended thread's registers, as Mach gives them. */
#ifndef SPPROF_OS_DARWIN_MACHINE_H
#define SPPROF_OS_DARWIN_MACHINE_H

#include <string.h>

#include "os/context.h"
#include "os/darwin/mach.h"

#if defined(__x86_64__)

#define STATE_FLAVOR x86_THREAD_STATE64
typedef x86_thread_state64_t thread_state;
#define CALL_BYTES 2u /* syscall is 0f 05 */
static inline bool is_call(const uint8_t *code) { return code[0] == 0x0f && code[1] == 0x05; }

static inline void read_context(const thread_state *from, spp_os_context *to) {
    to->pc = (uintptr_t)from->__rip;
    to->sp = (uintptr_t)from->__rsp;
}

/* DWARF's order: System V psABI for AMD64, figure 3.36. */
static inline void read_registers(const thread_state *from, uintptr_t to[SPP_OS_REGISTERS]) {
    const uint64_t in_order[] = {from->__rax, from->__rdx, from->__rcx, from->__rbx, from->__rsi, from->__rdi,
                                 from->__rbp, from->__rsp, from->__r8,  from->__r9,  from->__r10, from->__r11,
                                 from->__r12, from->__r13, from->__r14, from->__r15};
    memcpy(to, in_order, sizeof in_order);
}

#elif defined(__aarch64__)

#define STATE_FLAVOR ARM_THREAD_STATE64
typedef arm_thread_state64_t thread_state;
#define CALL_BYTES 4u /* svc #0x80 is d4001001 */
static inline bool is_call(const uint8_t *code) {
    static const uint8_t svc[] = {0x01, 0x10, 0x00, 0xd4};
    return memcmp(code, svc, sizeof svc) == 0;
}

/* Where code is signed (arm64e) these four are, and the macros take the signature off. */
static inline void read_context(const thread_state *from, spp_os_context *to) {
    to->pc = (uintptr_t)arm_thread_state64_get_pc(*from);
    to->sp = (uintptr_t)arm_thread_state64_get_sp(*from);
}

static inline void read_registers(const thread_state *from, uintptr_t to[SPP_OS_REGISTERS]) {
    memcpy(to, from->__x, sizeof from->__x);
    to[29] = (uintptr_t)arm_thread_state64_get_fp(*from);
    to[30] = (uintptr_t)arm_thread_state64_get_lr(*from);
    to[31] = (uintptr_t)arm_thread_state64_get_sp(*from);
}

#else
#error "spprof knows the registers of x86_64 and aarch64 only"
#endif

#define STATE_WORDS ((mach_msg_type_number_t)(sizeof(thread_state) / sizeof(natural_t)))

#endif
