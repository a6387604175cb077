#include "core/resolve/resolve_lines.h"

static const spp_place nowhere = {0, 0, -1, -1};

static spp_place at_line(int64_t line) {
    spp_place place = nowhere;
    if (line > 0 && line <= INT32_MAX) place.line = place.end_line = (int32_t)line;
    return place;
}

static bool next_lnotab(const uint8_t *table, size_t n, spp_lines_cursor *c, spp_place *place) {
    if (c->i + 1 >= n) return false;
    *place = at_line(c->line);
    c->at += table[c->i];
    c->line += (int8_t)table[c->i + 1];
    c->i += 2;
    return true;
}

static bool next_pep626(const uint8_t *table, size_t n, spp_lines_cursor *c, spp_place *place) {
    if (c->i + 1 >= n) return false;
    int8_t delta = (int8_t)table[c->i + 1];
    if (delta != -128) c->line += delta;
    *place = delta == -128 ? nowhere : at_line(c->line);
    c->at += table[c->i];
    c->i += 2;
    return true;
}

/* Six bits a byte, low first; bit 6 is set if more follow. Stops at the table's end. */
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

static bool next_location(const uint8_t *table, size_t n, spp_lines_cursor *c, spp_place *place) {
    if (c->i >= n) return false;
    uint8_t first = table[c->i++];
    location l = read_entry(table, n, &c->i, (first >> 3) & 15u, &c->line);
    c->at += 2u * ((first & 7u) + 1u);
    *place = l.has_line ? at_line(l.line) : nowhere;
    if (place->line == 0) return true;
    if (l.end_line > 0 && l.end_line <= INT32_MAX) place->end_line = (int32_t)l.end_line;
    if (l.col >= 0 && l.col <= INT32_MAX - 1) place->col = (int32_t)l.col;
    if (l.end_col >= 0 && l.end_col <= INT32_MAX - 1) place->end_col = (int32_t)l.end_col;
    return true;
}

const spp_lines_rules spp_lines_of_lnotab = {next_lnotab, true};
const spp_lines_rules spp_lines_of_pep626 = {next_pep626, false};
const spp_lines_rules spp_lines_of_locations = {next_location, false};

spp_place spp_lines_find(const spp_lines_rules *rules, const uint8_t *table, size_t n, spp_lines_cursor from, uint32_t offset) {
    spp_place place;
    while (rules->next(table, n, &from, &place)) {
        if (offset < from.at) return place;
    }
    return rules->goes_on ? at_line(from.line) : nowhere;
}

spp_place spp_lines_lnotab(const uint8_t *table, size_t n, int32_t first_line, uint32_t offset) {
    return spp_lines_find(&spp_lines_of_lnotab, table, n, (spp_lines_cursor){.line = first_line}, offset);
}

spp_place spp_lines_pep626(const uint8_t *table, size_t n, int32_t first_line, uint32_t offset) {
    return spp_lines_find(&spp_lines_of_pep626, table, n, (spp_lines_cursor){.line = first_line}, offset);
}

spp_place spp_lines_locations(const uint8_t *table, size_t n, int32_t first_line, uint32_t offset) {
    return spp_lines_find(&spp_lines_of_locations, table, n, (spp_lines_cursor){.line = first_line}, offset);
}
