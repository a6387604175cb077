/* What is kept of some code objects, found by their addresses. Every entry begins with the address, lives as long as its table,
 * and is never taken out. Readers take no lock. */
#ifndef SPPROF_CORE_RUN_CODE_TABLE_H
#define SPPROF_CORE_RUN_CODE_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hints.h"

#define SPP_CODES_MOST 4096u
#define SPP_CODE_SLOTS (2 * SPP_CODES_MOST) /* so that there always is an empty one */

typedef struct {
    _Atomic(void *) *slots; /* NULL: there is no run */
    size_t n;               /* under the drain lock */
} spp_code_table;

/* Before a run begins; nothing is left of another. -1: no memory. */
int spp_code_table_start(spp_code_table *table);
/* Under the drain lock, if there are fewer than SPP_CODES_MOST, and none of this code object. */
void spp_code_table_add(spp_code_table *table, void *entry);
/* Calls see(code) for each code object. Any thread. */
void spp_code_table_each(const spp_code_table *table, void (*see)(uintptr_t code));
/* The table alone: entries are the caller's. No thread reads it any more. */
void spp_code_table_free(spp_code_table *table);

static inline uintptr_t spp_code_of(const void *entry) { return *(const uintptr_t *)entry; }

static inline size_t spp_code_slot(uintptr_t code) { return (size_t)((code >> 4) * 0x9E3779B97F4A7C15u >> 40) % SPP_CODE_SLOTS; }

/* The entry of a code object, or NULL. Any thread, between start and free. */
static inline void *spp_code_table_find(const spp_code_table *table, uintptr_t code) {
    for (size_t i = spp_code_slot(code);; i = (i + 1) % SPP_CODE_SLOTS) {
        void *entry = atomic_load_explicit(&table->slots[i], memory_order_acquire);
        if (entry == NULL || spp_usual(spp_code_of(entry) == code)) return entry;
    }
}

/* The entry in slot `i`, or NULL: for loops up to SPP_CODE_SLOTS. Any thread. */
static inline void *spp_code_table_at(const spp_code_table *table, size_t i) {
    return table->slots != NULL ? atomic_load_explicit(&table->slots[i], memory_order_acquire) : NULL;
}

#endif
