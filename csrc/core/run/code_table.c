#include "core/run/code_table.h"

#include "base/heap.h"

int spp_code_table_start(spp_code_table *table) {
    table->n = 0;
    table->slots = spp_alloc_zeroed(SPP_CODE_SLOTS, sizeof *table->slots);
    return table->slots != NULL ? 0 : -1;
}

void spp_code_table_add(spp_code_table *table, void *entry) {
    size_t i = spp_code_slot(spp_code_of(entry));
    while (atomic_load_explicit(&table->slots[i], memory_order_relaxed) != NULL) i = (i + 1) % SPP_CODE_SLOTS;
    atomic_store_explicit(&table->slots[i], entry, memory_order_release);
    table->n++;
}

void spp_code_table_each(const spp_code_table *table, void (*see)(uintptr_t code)) {
    for (size_t i = 0; i < SPP_CODE_SLOTS; i++) {
        const void *entry = spp_code_table_at(table, i);
        if (entry != NULL) see(spp_code_of(entry));
    }
}

void spp_code_table_free(spp_code_table *table) {
    spp_free(table->slots);
    table->slots = NULL;
    table->n = 0;
}
