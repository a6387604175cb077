#include "core/resolve_lines.h"

#include <stdbool.h>

static const spp_place nowhere = {0, 0, -1, -1};

static spp_place at_line(int64_t line) {
    spp_place place = nowhere;
    if (line > 0 && line <= INT32_MAX) place.line = place.end_line = (int32_t)line;
    return place;
}

spp_place spp_lines_lnotab(const uint8_t *table, size_t n, int32_t first_line, uint32_t offset) {
    int64_t line = first_line, start = 0;
    for (size_t i = 0; i + 1 < n; i += 2) {
        start += table[i];
        if (start > offset) break;
        line += (int8_t)table[i + 1];
    }
    return at_line(line);
}

spp_place spp_lines_pep626(const uint8_t *table, size_t n, int32_t first_line, uint32_t offset) {
    int64_t line = first_line, end = 0;
    for (size_t i = 0; i + 1 < n; i += 2) {
        int8_t delta = (int8_t)table[i + 1];
        if (delta != -128) line += delta;
        end += table[i];
        if (offset < end) return delta == -128 ? nowhere : at_line(line);
    }
    return nowhere;
}

/* Six bits a byte, low first; bit 6 tells that more follow. Stops at the table's end. */
static int64_t varint(const uint8_t *table, size_t n, size_t *i) {
    uint64_t value = 0;
    for (unsigned shift = 0; *i < n; shift += 6) {
        uint8_t byte = table[(*i)++];
        if (shift < 36) value |= (uint64_t)(byte & 63u) << shift;
        if (!(byte & 64u)) break;
    }
    return (int64_t)value;
}

static int64_t signed_varint(const uint8_t *table, size_t n, size_t *i) {
    int64_t value = varint(table, n, i);
    return (value & 1) ? -(value >> 1) : value >> 1;
}

typedef struct {
    int64_t line, end_line, col, end_col;
    bool has_line;
} location;

/* Reads one entry's body; `code` is its kind. Adds its line delta to *line. */
static location read_entry(const uint8_t *table, size_t n, size_t *i, unsigned code, int64_t *line) {
    location l = {0, 0, -1, -1, code != 15};
    if (code == 14) { /* long form */
        *line += signed_varint(table, n, i);
        l.end_line = *line + varint(table, n, i);
        l.col = varint(table, n, i) - 1;
        l.end_col = varint(table, n, i) - 1;
    } else if (code == 13) { /* no columns */
        *line += signed_varint(table, n, i);
        l.end_line = *line;
    } else if (code >= 10 && code <= 12) { /* one line */
        *line += code - 10;
        l.end_line = *line;
        l.col = *i < n ? table[(*i)++] : -1;
        l.end_col = *i < n ? table[(*i)++] : -1;
    } else if (code < 10) { /* short form */
        uint8_t byte = *i < n ? table[(*i)++] : 0;
        l.end_line = *line;
        l.col = (int64_t)(code << 3 | byte >> 4);
        l.end_col = l.col + (byte & 15);
    }
    l.line = *line;
    return l;
}

spp_place spp_lines_locations(const uint8_t *table, size_t n, int32_t first_line, uint32_t offset) {
    int64_t line = first_line, end = 0;
    for (size_t i = 0; i < n;) {
        uint8_t first = table[i++];
        location l = read_entry(table, n, &i, (first >> 3) & 15u, &line);
        end += 2 * ((first & 7) + 1);
        if (offset >= end) continue;
        if (!l.has_line) return nowhere;
        spp_place place = at_line(l.line);
        if (place.line == 0) return nowhere;
        if (l.end_line > 0 && l.end_line <= INT32_MAX) place.end_line = (int32_t)l.end_line;
        if (l.col >= 0 && l.col <= INT32_MAX - 1) place.col = (int32_t)l.col;
        if (l.end_col >= 0 && l.end_col <= INT32_MAX - 1) place.end_col = (int32_t)l.end_col;
        return place;
    }
    return nowhere;
}
