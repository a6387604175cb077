#include "core/native/symbols.h"
#include "base/heap.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* What is used of ELF's numbers (gABI, chapters 4 and 5). */
enum { HEADER_BYTES = 64, SECTION_BYTES = 64, SYMBOL_BYTES = 24 };
enum { SYMTAB = 2, DYNSYM = 11, FUNCTION = 2, IFUNCTION = 10 };
#define NAME_MAX_BYTES 4096u /* names of C++ templates grow without bound */

typedef struct {
    const uint8_t *at;
    size_t n;
} span;

static uint64_t number(const uint8_t *at, size_t n) {
    uint64_t value = 0;
    memcpy(&value, at, n); /* little-endian, as both architectures are */
    return value;
}

static span section_bytes(span file, const uint8_t *section) {
    uint64_t offset = number(section + 24, 8), size = number(section + 32, 8);
    if (offset > file.n || size > file.n - offset) return (span){NULL, 0};
    return (span){file.at + offset, (size_t)size};
}

/* The section header with this type, and that of the strings that go with it. */
static bool find_section(span file, uint32_t type, span *table, span *strings) {
    static const uint8_t elf64_little[] = {0x7f, 'E', 'L', 'F', 2, 1};
    if (file.n < HEADER_BYTES || memcmp(file.at, elf64_little, sizeof elf64_little) != 0) return false;
    uint64_t at = number(file.at + 40, 8), each = number(file.at + 58, 2), count = number(file.at + 60, 2);
    if (each != SECTION_BYTES || at > file.n || count > (file.n - at) / SECTION_BYTES) return false;
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *section = file.at + at + i * SECTION_BYTES;
        if (number(section + 4, 4) != type) continue;
        uint64_t link = number(section + 40, 4);
        if (link >= count) return false;
        *table = section_bytes(file, section);
        *strings = section_bytes(file, file.at + at + link * SECTION_BYTES);
        return table->at != NULL && strings->at != NULL;
    }
    return false;
}

bool spp_symbols_whole(const uint8_t *file, size_t n) {
    span table, strings;
    return find_section((span){file, n}, SYMTAB, &table, &strings);
}

static int by_address(const void *a, const void *b) {
    const spp_symbol *x = a, *y = b;
    return x->at != y->at ? (x->at < y->at ? -1 : 1) : x->name < y->name ? -1 : x->name > y->name;
}

/* Whether a name says more to people than another name of the same function: `poll`, not `__poll`. */
static bool better(const char *a, const char *b) {
    size_t under_a = strspn(a, "_"), under_b = strspn(b, "_"), long_a = strlen(a), long_b = strlen(b);
    if (under_a != under_b) return under_a < under_b;
    if (long_a != long_b) return long_a < long_b;
    return strcmp(a, b) < 0;
}

static void keep_best_names(spp_symbols *s) {
    size_t kept = 0;
    for (size_t i = 0; i < s->n; i++) {
        spp_symbol *last = kept > 0 ? &s->list[kept - 1] : NULL;
        if (last == NULL || last->at != s->list[i].at) {
            s->list[kept++] = s->list[i];
            continue;
        }
        if (s->list[i].size > last->size) last->size = s->list[i].size;
        if (better(spp_symbols_name(s, &s->list[i]), spp_symbols_name(s, last))) last->name = s->list[i].name;
    }
    s->n = kept;
}

static int add(spp_symbols *s, uint64_t at, uint64_t size, const char *name, size_t length) {
    static const uint8_t zero;
    if (s->n == s->capacity) {
        size_t capacity = s->capacity * 2 + 512;
        spp_symbol *list = spp_realloc(s->list, capacity * sizeof *list);
        if (list == NULL) return -1;
        s->list = list;
        s->capacity = capacity;
    }
    if (s->names.n + length + 1 > UINT32_MAX) return -1;
    spp_symbol symbol = {at, size > UINT32_MAX ? UINT32_MAX : (uint32_t)size, (uint32_t)s->names.n};
    if (spp_bytes_append(&s->names, name, length) != 0) return -1;
    if (spp_bytes_append(&s->names, &zero, 1) != 0) return -1;
    s->list[s->n++] = symbol;
    return 0;
}

void spp_symbols_add(spp_symbols *s, uint64_t at, uint32_t size, const char *name) {
    (void)add(s, at, size, name, strnlen(name, NAME_MAX_BYTES));
}

void spp_symbols_sort(spp_symbols *s) {
    if (s->n > 0) qsort(s->list, s->n, sizeof *s->list, by_address);
    keep_best_names(s);
}

int spp_symbols_read(spp_symbols *s, const uint8_t *file, size_t n) {
    span table, strings;
    if (!find_section((span){file, n}, SYMTAB, &table, &strings) && !find_section((span){file, n}, DYNSYM, &table, &strings)) {
        return -1;
    }
    for (size_t at = 0; at + SYMBOL_BYTES <= table.n; at += SYMBOL_BYTES) {
        const uint8_t *symbol = table.at + at;
        uint8_t type = symbol[4] & 15;
        uint64_t name = number(symbol, 4), address = number(symbol + 8, 8);
        if ((type != FUNCTION && type != IFUNCTION) || number(symbol + 6, 2) == 0 || address == 0 || name >= strings.n) continue;
        const char *text = (const char *)strings.at + name;
        size_t most = strings.n - (size_t)name, length = strnlen(text, most < NAME_MAX_BYTES ? most : NAME_MAX_BYTES);
        const char *version = memchr(text, '@', length); /* name@@VERSION */
        if (version != NULL) length = (size_t)(version - text);
        if (length == 0) continue;
        /* They have no size, and no function follows them. */
        if (number(symbol + 16, 8) == 0 && (strncmp(text, "_init", length) == 0 || strncmp(text, "_fini", length) == 0)) continue;
        if (add(s, address, number(symbol + 16, 8), text, length) != 0) break; /* no memory: what there is serves */
    }
    spp_symbols_sort(s);
    return 0;
}

/* Hexadecimal digits and a space; false if there is no such thing. */
static bool take_hex(const char **at, const char *end, uint64_t *value) {
    const char *from = *at;
    for (*value = 0; *at < end && **at != ' '; ++*at) {
        char c = **at;
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0 || *at - from == 16) return false;
        *value = *value << 4 | (uint64_t)digit;
    }
    return *at > from && *at < end && *(*at)++ == ' ';
}

int spp_symbols_read_map(spp_symbols *s, const char *text, size_t n) {
    const char *line = text, *end = text + n;
    for (const char *stop; (stop = memchr(line, '\n', (size_t)(end - line))) != NULL; line = stop + 1) {
        const char *at = line;
        uint64_t start, size;
        if (!take_hex(&at, stop, &start) || !take_hex(&at, stop, &size) || at == stop || size == 0) continue;
        size_t length = (size_t)(stop - at);
        const char *zero = memchr(at, 0, length);
        if (zero != NULL) length = (size_t)(zero - at);
        if (length > 0 && add(s, start, size, at, length < NAME_MAX_BYTES ? length : NAME_MAX_BYTES) != 0) return -1;
    }
    if (s->n > 0) qsort(s->list, s->n, sizeof *s->list, by_address); /* of the same start those that came later are behind */
    size_t kept = 0;
    for (size_t i = 0; i < s->n; i++) {
        if (kept > 0 && s->list[kept - 1].at == s->list[i].at) kept--;
        s->list[kept++] = s->list[i];
    }
    s->n = kept;
    return 0;
}

void spp_symbols_free(spp_symbols *s) {
    spp_free(s->list);
    spp_bytes_free(&s->names);
    memset(s, 0, sizeof *s);
}

const spp_symbol *spp_symbols_find(const spp_symbols *s, uint64_t address) {
    size_t low = 0, high = s->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (s->list[middle].at <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0) return NULL;
    const spp_symbol *symbol = &s->list[low - 1];
    return symbol->size == 0 || address - symbol->at < symbol->size ? symbol : NULL;
}

const char *spp_symbols_name(const spp_symbols *s, const spp_symbol *symbol) { return (const char *)s->names.at + symbol->name; }
