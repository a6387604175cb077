/* Unwind tables: for each instruction of a loaded object, how to find the caller's registers.
 *
 * Built ahead of time from the object's `.eh_frame` (DWARF 5, section 6.4, with the changes of the Linux Standard Base,
 * "Exception Frames") or from the tables that Windows' objects have, by the drain thread; read by handlers, without a lock. A
 * table is never changed: a new one replaces it. The bytes of an object are not believed: every read is checked against its end,
 * and what is not understood becomes a row without a rule. */
#ifndef SPPROF_CORE_NATIVE_UNWIND_TABLE_H
#define SPPROF_CORE_NATIVE_UNWIND_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "base/vec.h"

/* How the canonical frame address (CFA: the stack pointer before the call) is found. */
typedef enum {
    SPP_CFA_NONE,   /* not known: a gap between functions, or a rule beyond these */
    SPP_CFA_REG,    /* register + off; sp and fp in any frame, others in the interrupted one */
    SPP_CFA_DEREF,  /* *(register + off) + add */
    SPP_CFA_PLT,    /* x86_64's procedure linkage table: sp + 8, and 8 more from byte `add` of an entry's 16 on */
    SPP_CFA_LIKELY, /* as SPP_CFA_REG, if a call precedes the return address; else as without a rule */
    SPP_CFA_SIGNAL, /* the kernel's frame of a signal: *(sp + off) is the interrupted sp; fp and ra lie from sp */
} spp_cfa;

/* Special values for a register's offset: */
#define SPP_UNWIND_SAME INT16_MIN /* in the register itself: the return address of an interrupted function that saved none */
#define SPP_UNWIND_LOST (INT16_MIN + 1)  /* unknown from here on */
#define SPP_UNWIND_END (INT16_MIN + 2)   /* (return address) there is no caller */
#define SPP_UNWIND_AT_FP (INT16_MIN + 3) /* where the frame pointer points to: a frame whose stack was realigned */

/* 12 bytes; rows share rules, a few thousand in a large process. */
typedef struct {
    int32_t off;
    int16_t fp, ra; /* where the caller's frame pointer and return address lie, from the CFA; or one of the above */
    uint16_t add;
    uint8_t kind, reg;
} spp_unwind_rule;

/* All rules there are: only ever appended to, so a handler may read any that a row names. */
typedef struct {
    spp_unwind_rule *at; /* SPP_UNWIND_RULES of them */
    uint32_t n;
    uint32_t *slots; /* open-addressed: rule number + 1 */
} spp_unwind_rules;
#define SPP_UNWIND_RULES 65535u
/* The first ones are for code that shows its own frame layout: they equal SPP_CODE_UNKNOWN (none)
 * and so on. */

/* The rows of one loaded object, sorted by place (from `low`), where a rule begins to hold: six bytes a row. Rule 0 is none. */
typedef struct {
    uintptr_t low, high; /* addresses of its code: [low, high) */
    uint32_t *places;
    uint16_t *rule_of;
    uint32_t n, capacity;
    spp_bytes functions; /* two uint32_t each, sorted: where it begins and ends, from `low` */
    uint32_t refused;    /* functions that could not be decoded */
    bool out_of_memory;
} spp_unwind_object;

typedef struct {
    const uint8_t *at;
    size_t n;
    uintptr_t address; /* their address in the program */
} spp_unwind_section;

int spp_unwind_rules_make(spp_unwind_rules *rules); /* -1: no memory */
void spp_unwind_rules_free(spp_unwind_rules *rules);

/* Gaps where functions without unwind information may be: their code may show enough
 * (spp_arch_code_rows). */
typedef struct {
    /* The first function that begins in [low, high), addresses in the program. `code` may be a copy of its machine code, and is
     * valid up to the next call. False: there is none. */
    bool (*next)(void *arg, uintptr_t low, uintptr_t high, spp_unwind_section *code);
    void *arg;
} spp_unwind_gaps;

/* Reads an object's rows; `low` and `high` are given. The sections may be copies. `gaps` may be NULL. */
void spp_unwind_read(spp_unwind_object *object, spp_unwind_rules *rules, spp_unwind_section index, spp_unwind_section frames,
                     const spp_unwind_gaps *gaps);
/* The same from an entry of .eh_frame, if it is for the function [place, end); false: it is not, or not understood. */
bool spp_unwind_add_entry(spp_unwind_object *object, spp_unwind_rules *rules, spp_unwind_section frames, uint32_t entry,
                          uint64_t place, uint64_t end);
/* For readers: from a place (from `low`) on a rule holds. Places come in ascending order; a second
 * rule for the same place replaces the first. */
void spp_unwind_add(spp_unwind_object *object, spp_unwind_rules *rules, uint64_t place, const spp_unwind_rule *rule);
void spp_unwind_object_free(spp_unwind_object *object);

/* Start of the function that contains an address; the address itself if no function is known there. */
uintptr_t spp_unwind_function_of(const spp_unwind_object *object, uintptr_t pc);
/* End of the function that contains an address; if no function is known there, the start of the
 * next one, or the end of the code. */
uintptr_t spp_unwind_end_of(const spp_unwind_object *object, uintptr_t pc);

/* Handler. The number of the rule at an address within the object. */
uint32_t spp_unwind_find(const spp_unwind_object *object, uintptr_t pc);

#endif
