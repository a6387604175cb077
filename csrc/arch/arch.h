/* All that the core knows of the processor: facts, and what can be told from machine code. Each processor has a header with the
 * same names, and a file for what is below. */
#ifndef SPPROF_ARCH_ARCH_H
#define SPPROF_ARCH_ARCH_H

#include <stdbool.h>
#include <stdint.h>

#if defined(__x86_64__)
#include "arch/x86_64.h"
#elif defined(__aarch64__)
#include "arch/aarch64.h"
#else
#error "spprof knows x86_64 and aarch64 only"
#endif

/* What stands in unwind tables' place for code that has none, but tells itself; numbers of rules (unwind_table.c). */
enum {
    SPP_CODE_UNKNOWN,
    SPP_CODE_MOVED,  /* it pushed two words, or a word behind its return address, which is the upper one */
    SPP_CODE_FRAMED, /* the frame pointer points to the caller's and the return address, and nothing lies above them */
    SPP_CODE_BARE,   /* it changed neither sp nor the register with the return address (which x86_64 has not) */
    SPP_CODE_SIGNAL, /* it returns from a signal */
    SPP_CODES
};

/* Handler. One of them. `pc` is in the instruction that runs, or the last byte of the call: it may be anything, is read as a
 * guarded copy, and is met rarely. */
uint32_t spp_arch_code_at(uintptr_t pc);
/* Handler. Whether the instruction before `back` is a call. 8 bytes before it can be read. */
bool spp_arch_behind_call(uintptr_t back);
/* Handler. Whether an interrupted pc is in a trampoline of libffi, which leaves the stack as its caller did. */
bool spp_arch_in_trampoline(uintptr_t pc);

#endif
