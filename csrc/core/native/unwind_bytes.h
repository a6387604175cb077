/* Reads the number formats of unwind tables (DWARF 5, 7.6; LSB). Any thread. */
#ifndef SPPROF_CORE_NATIVE_UNWIND_BYTES_H
#define SPPROF_CORE_NATIVE_UNWIND_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    const uint8_t *at, *end;
    bool bad; /* a read went past the end; it returned 0 */
} input;

static inline uint64_t get(input *in, size_t n) {
    uint64_t value = 0;
    if ((size_t)(in->end - in->at) < n) {
        in->bad = true;
        in->at = in->end;
        return 0;
    }
    memcpy(&value, in->at, n); /* little-endian, as both architectures are */
    in->at += n;
    return value;
}

static inline uint64_t get_uleb(input *in) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint64_t byte = get(in, 1);
        value |= (byte & 127) << shift;
        if (byte < 128) return value;
    }
    in->bad = true;
    return 0;
}

static inline int64_t get_sleb(input *in) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64;) {
        uint64_t byte = get(in, 1);
        value |= (byte & 127) << shift;
        shift += 7;
        if (byte >= 128) continue;
        if ((byte & 64) && shift < 64) value |= ~(uint64_t)0 << shift;
        return (int64_t)value;
    }
    in->bad = true;
    return 0;
}

static inline void skip(input *in, uint64_t n) {
    if ((uint64_t)(in->end - in->at) < n) {
        in->bad = true;
        n = (uint64_t)(in->end - in->at);
    }
    in->at += n;
}

/* A number in one of the encodings of exception frames (LSB, "DWARF Exception Header Encoding"); `here` is the address of
 * in->at in the program. Indirect ones are refused. */
static inline uint64_t get_encoded(input *in, uint8_t encoding, uintptr_t here) {
    uint64_t value;
    switch (encoding & 15) {
    case 0x00:
    case 0x04:
    case 0x0c: value = get(in, 8); break;
    case 0x01: value = get_uleb(in); break;
    case 0x02: value = get(in, 2); break;
    case 0x03: value = get(in, 4); break;
    case 0x09: value = (uint64_t)get_sleb(in); break;
    case 0x0a: value = (uint64_t)(int16_t)get(in, 2); break;
    case 0x0b: value = (uint64_t)(int32_t)get(in, 4); break;
    default: in->bad = true; return 0;
    }
    if ((encoding & 0xf0) == 0x10)
        value += here;
    else if (encoding & 0xf0)
        in->bad = true;
    return value;
}

#endif
