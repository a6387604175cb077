#include "core/resolve/resolve_code.h"

#include <stdbool.h>
#include <string.h>

#include "base/sample.h"
#include "core/capture/frames.h"
#include "os/memory.h"
#include "py/layout.h"

#define STRING_MAX (1u << 16) /* characters of a name that are kept */
#define LINES_MAX (16u << 20) /* bytes of a line table */

uintptr_t spp_py_str_type, spp_py_bytes_type;
size_t spp_py_type_flags;

static uint64_t word_at(const uint8_t *copy, long offset) {
    uint64_t value;
    memcpy(&value, copy + offset, sizeof value);
    return value;
}

static void append_utf8(spp_bytes *to, uint32_t c) {
    uint8_t out[4];
    size_t n = 0;
    if (c < 0x80) {
        out[n++] = (uint8_t)c;
    } else if (c < 0x800) {
        out[n++] = (uint8_t)(0xC0 | c >> 6);
    } else if (c < 0x10000) {
        out[n++] = (uint8_t)(0xE0 | c >> 12);
        out[n++] = (uint8_t)(0x80 | (c >> 6 & 63));
    } else {
        out[n++] = (uint8_t)(0xF0 | (c >> 18 & 7));
        out[n++] = (uint8_t)(0x80 | (c >> 12 & 63));
        out[n++] = (uint8_t)(0x80 | (c >> 6 & 63));
    }
    if (c >= 0x80) out[n++] = (uint8_t)(0x80 | (c & 63));
    spp_bytes_append(to, out, n);
}

void spp_code_characters(const uint8_t *at, size_t bytes, uint32_t kind, spp_bytes *to) {
    for (size_t i = 0; i + kind <= bytes; i += kind) {
        uint32_t c = at[i];
        if (kind >= 2) c |= (uint32_t)at[i + 1] << 8;
        if (kind == 4) c |= (uint32_t)at[i + 2] << 16 | (uint32_t)at[i + 3] << 24;
        append_utf8(to, c);
    }
}

/* Appends the characters at `data`, `kind` bytes each. */
static int read_characters(uintptr_t data, size_t length, uint32_t kind, spp_bytes *to) {
    uint8_t chunk[1024];
    size_t bytes = length * kind;
    for (size_t done = 0; done < bytes;) {
        size_t n = bytes - done < sizeof chunk ? bytes - done : sizeof chunk;
        if (spp_os_read(chunk, data + done, n) != 0) return -1;
        spp_code_characters(chunk, n, kind, to);
        done += n;
    }
    return 0;
}

#define STR_SUBCLASS (1u << 28) /* Py_TPFLAGS_UNICODE_SUBCLASS */

static bool is_str_subclass(uintptr_t type) {
    uint64_t flags;
    return !(type & 7) && spp_os_read(&flags, type + spp_py_type_flags, sizeof flags) == 0 && (flags & STR_SUBCLASS);
}

/* A str, or nothing. One of a subclass (`code.replace` lets them through) keeps its characters elsewhere, behind the pointer
 * that follows the head (PyUnicodeObject.data). */
static int read_str(uintptr_t address, spp_bytes *to) {
    uint8_t head[SPP_L_STR_DATA];
    to->n = 0;
    if (address == 0 || (address & 7) || spp_os_read(head, address, sizeof head) != 0) return -1;
    uintptr_t type = word_at(head, SPP_L_OB_TYPE), data;
    if (type != spp_py_str_type && !is_str_subclass(type)) return -1;
    uint32_t state;
    memcpy(&state, head + SPP_L_STR_STATE, sizeof state);
    uint32_t kind = state >> SPP_L_STR_KIND_SHIFT & SPP_L_STR_KIND_MASK;
    bool compact = state >> SPP_L_STR_COMPACT_BIT & 1u, ascii = state >> SPP_L_STR_ASCII_BIT & 1u;
    if ((kind != 1 && kind != 2 && kind != 4) || (ascii && kind != 1)) return -1;
    uint64_t length = word_at(head, SPP_L_STR_LENGTH);
    if (length > STRING_MAX) length = STRING_MAX;
    if (compact) {
        data = address + (ascii ? SPP_L_STR_ASCII_DATA : SPP_L_STR_DATA);
    } else if (spp_os_read(&data, address + SPP_L_STR_DATA, sizeof data) != 0 || data == 0) {
        return -1;
    }
    return read_characters(data, length, kind, to);
}

static void read_name(const uint8_t *copy, long offset, spp_bytes *to) {
    static const char unreadable[] = "<unreadable>";
    if (read_str(word_at(copy, offset), to) == 0) return;
    to->n = 0;
    spp_bytes_append(to, unreadable, sizeof unreadable - 1);
}

/* Where the bytes of an object are, and how many. */
static int find_bytes(uintptr_t address, uintptr_t *at, size_t *n) {
    uint8_t head[SPP_L_BYTES_DATA];
    if (address == 0 || (address & 7) || spp_os_read(head, address, sizeof head) != 0) return -1;
    *n = word_at(head, SPP_L_OB_SIZE);
    *at = address + SPP_L_BYTES_DATA;
    return word_at(head, SPP_L_OB_TYPE) != spp_py_bytes_type || *n > LINES_MAX ? -1 : 0;
}

int spp_code_read(uintptr_t address, spp_code *code) {
    uint8_t copy[SPP_L_CODE_SIZE];
    if (address == 0 || (address & 7) || spp_os_read(copy, address, sizeof copy) != 0) return -1;
    if (word_at(copy, SPP_L_OB_TYPE) != spp_py.code_type) return -1;
    read_name(copy, SPP_L_CODE_NAME, &code->name);
    read_name(copy, SPP_L_CODE_QUALNAME >= 0 ? SPP_L_CODE_QUALNAME : SPP_L_CODE_NAME, &code->qualname);
    read_name(copy, SPP_L_CODE_FILENAME, &code->file);
    memcpy(&code->first_line, copy + SPP_L_CODE_FIRSTLINENO, sizeof code->first_line);
    code->lines_known = find_bytes(word_at(copy, SPP_L_CODE_LINETABLE), &code->lines, &code->lines_n) == 0;
    return 0;
}
