/* All that the core knows of the processor: facts, and what machine code reveals. Each processor has a header with the same
 * names, and a file with the functions below. */
#ifndef SPPROF_ARCH_ARCH_H
#define SPPROF_ARCH_ARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#include "arch/x86_64.h"
#elif defined(__aarch64__)
#include "arch/aarch64.h"
#else
#error "spprof knows x86_64 and aarch64 only"
#endif

/* Rules for code that has no unwind table but can be recognized; numbers as in unwind_table.c. */
enum {
    SPP_CODE_UNKNOWN,
    SPP_CODE_MOVED,  /* it pushed two words, or a word behind its return address, which is the upper one */
    SPP_CODE_FRAMED, /* the frame pointer points to the caller's and the return address, and nothing lies above them */
    SPP_CODE_BARE,   /* it changed neither sp nor the register with the return address (which x86_64 has not) */
    SPP_CODE_SIGNAL, /* it returns from a signal */
    SPP_CODES
};

/* Of a function that Mach-O's compact unwind information describes (Apple's mach-o/compact_unwind_encoding.h), or Windows' of
 * arm64: from `at` on, bytes from where it begins, its CFA is sp or the frame pointer plus `off`, and the caller's frame pointer
 * and return address lie at `fp` and `ra` from there, or are in their registers. */
typedef struct {
    uint32_t at;
    int32_t off;
    int16_t fp, ra;
    bool by_fp;
} spp_compact_row;
#define SPP_COMPACT_SAME INT16_MIN

typedef struct {
    uint32_t encoding;
    const uint8_t *code; /* n bytes: a copy */
    uint32_t n;
    bool begins; /* it is a function's beginning, and not a later part of one */
} spp_compact_function;

/* Rows of a function that has a compact encoding. The encoding is right wherever the function may call; for its first and last
 * instructions its code is read too. Returns the number of rows; 0 if nothing is known; SPP_COMPACT_DWARF if it is described in
 * __eh_frame, *entry bytes from its beginning. Each processor has both functions: spp_arch_compact_rows is its own. */
#define SPP_COMPACT_ROWS 64u
#define SPP_COMPACT_DWARF UINT32_MAX
uint32_t spp_compact_rows_aarch64(const spp_compact_function *function, spp_compact_row rows[SPP_COMPACT_ROWS], uint32_t *entry);
uint32_t spp_compact_rows_x86_64(const spp_compact_function *function, spp_compact_row rows[SPP_COMPACT_ROWS], uint32_t *entry);

/* Calls `see` for each row of a function that Windows' tables for arm64 describe, in ascending
 * order. `word` is the second word of its entry (data), and the record it may point to has n bytes
 * or more. Returns the function's length in bytes, or 0 if the tables cannot be decoded: then drop
 * the rows seen so far. On each processor. */
uint32_t spp_seh_rows_aarch64(uint32_t data, const uint8_t *record, size_t n, void (*see)(void *arg, const spp_compact_row *row),
                              void *arg);

/* Handler. One of the rules above. `pc` is in the current instruction, or the last byte of the call. It may be any address, so it
 * is read by a guarded copy; rare. */
uint32_t spp_arch_code_at(uintptr_t pc);
/* From `at` in a function up to the next row: the stack pointer before the call (CFA) is a register's value plus off. */
typedef struct {
    uint32_t at;
    int32_t off;
    int16_t fp;  /* where the caller's frame pointer is, relative to the CFA; 0: in its register */
    uint8_t reg; /* DWARF number */
} spp_code_row;
/* Derives rows from the code of a function without unwind information, such as assembly. Writes them in ascending order and
 * returns their number; 0: none. They are likely, not certain: check that there is a call before the return address. `code` is
 * untrusted and may be a copy. */
size_t spp_arch_code_rows(const uint8_t *code, size_t n, spp_code_row *rows, size_t most);
/* Handler. Whether the instruction before `back` is a call. 8 bytes before it can be read. */
bool spp_arch_behind_call(uintptr_t back);
/* Handler. Whether an interrupted pc is in a trampoline of libffi, which leaves the stack as its caller did. */
bool spp_arch_in_trampoline(uintptr_t pc);

#endif
