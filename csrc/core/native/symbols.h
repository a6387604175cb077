/* The names of an object's functions, from the symbol table of its file, which is not trusted.
 * Drain thread. */
#ifndef SPPROF_CORE_NATIVE_SYMBOLS_H
#define SPPROF_CORE_NATIVE_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"

typedef struct {
    uint64_t at;   /* address relative to the file */
    uint32_t size; /* 0: up to the next one */
    uint32_t name; /* where its name begins in `names` */
} spp_symbol;

typedef struct {
    spp_symbol *list; /* sorted by address, one for each */
    size_t n, capacity;
    spp_bytes names; /* each followed by a zero byte */
} spp_symbols;

/* Reads functions from an ELF file (System V gABI, "Object Files", 64-bit little-endian): .symtab, or .dynsym without it.
 * -1: it has neither, or is no such file. */
int spp_symbols_read(spp_symbols *symbols, const uint8_t *file, size_t n);
/* Reads code made at run time from the text of a perf-PID.map: lines of `start size name`, the numbers in hexadecimal digits; of
 * the same start the last one holds (Linux, tools/perf/Documentation/jit-interface.txt). A line cut short at the end is left out.
 * -1: no memory. */
int spp_symbols_read_map(spp_symbols *symbols, const char *text, size_t n);
/* Adds one symbol; sort them afterwards. Without memory it is left out. */
void spp_symbols_add(spp_symbols *symbols, uint64_t at, uint32_t size, const char *name);
void spp_symbols_sort(spp_symbols *symbols);
/* Whether a file has .symtab. */
bool spp_symbols_whole(const uint8_t *file, size_t n);
void spp_symbols_free(spp_symbols *symbols);

/* The function that contains an address, or NULL; its name. */
const spp_symbol *spp_symbols_find(const spp_symbols *symbols, uint64_t address);
const char *spp_symbols_name(const spp_symbols *symbols, const spp_symbol *symbol);

#endif
