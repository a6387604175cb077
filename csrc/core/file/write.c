#include "core/file/write.h"

#include <errno.h>
#include <libdeflate.h>
#include <string.h>

#include "base/heap.h"

static int first_error;
static struct libdeflate_compressor *compressor;
static spp_bytes payload, plane, packed;

static void put_u32(uint8_t *to, uint32_t value) {
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(value >> 8 * i);
}

#define HEAD 9u

static void seal(uint8_t *head, size_t n) {
    put_u32(head, (uint32_t)n);
    put_u32(head + 4, libdeflate_crc32(libdeflate_crc32(0, head + 8, 1), head + HEAD, n));
}

/* NULL: no memory. */
static spp_block *make_block(char kind, const void *from, size_t n, size_t before) {
    spp_block *block = spp_writer_block(before + HEAD + n);
    if (block == NULL) return NULL;
    uint8_t *head = block->bytes + before;
    memcpy(block->bytes, SPP_FILE_MAGIC, before);
    head[8] = (uint8_t)kind;
    memcpy(head + HEAD, from, n);
    seal(head, n);
    return block;
}

/* What was written whole blocks at a time is readable; after the first error nothing is written any more. */
static void put_block(char kind, const void *from, size_t n, spp_block_use use, uint64_t ticks) {
    spp_block *block = first_error == 0 ? make_block(kind, from, n, 0) : NULL;
    if (block != NULL) {
        block->use = use;
        block->ticks = ticks;
        spp_writer_put(block);
    } else {
        spp_writer_lose(ticks);
        if (first_error == 0) first_error = ENOMEM;
    }
}

void spp_write_block(char kind, const void *from, size_t n) { put_block(kind, from, n, SPP_BLOCK_USUAL, 0); }

void spp_write_last(char kind, const void *from, size_t n) {
    put_block(kind, from, n, kind == 'E' ? SPP_BLOCK_END : SPP_BLOCK_STATS, 0);
}

void spp_write_later(char kind, const void *from, size_t n, bool (*make)(spp_block *block)) {
    spp_block *block = first_error == 0 ? make_block(kind, from, n, 0) : NULL;
    if (block == NULL) return;
    block->make = make;
    spp_writer_put(block);
}

uint8_t *spp_write_payload(spp_block *block) { return block->bytes + HEAD; }
void spp_write_seal(spp_block *block) { seal(block->bytes, block->n - HEAD); }

static void put_varint(spp_bytes *to, uint64_t value) {
    uint8_t out[10];
    size_t n = 0;
    for (; value > 127; value >>= 7) out[n++] = (uint8_t)(value | 128);
    out[n++] = (uint8_t)value;
    spp_bytes_append(to, out, n);
}

/* Appends one plane, deflated if that makes it smaller. */
static void put_plane(const uint8_t *from, size_t n) {
    size_t zeros = 0;
    while (zeros < n && from[zeros] == 0) zeros++;
    if (zeros == n) {
        put_varint(&payload, 0);
        return;
    }
    size_t bound = libdeflate_deflate_compress_bound(compressor, n), small = 0;
    packed.n = 0;
    if (spp_bytes_reserve(&packed, bound) == 0) small = libdeflate_deflate_compress(compressor, from, n, packed.at, bound);
    if (small == 0 || small >= n) {
        put_varint(&payload, n);
        spp_bytes_append(&payload, from, n);
    } else {
        put_varint(&payload, small);
        spp_bytes_append(&payload, packed.at, small);
    }
}

static void put_column(const spp_vec64 *column) {
    uint64_t all = 0;
    for (size_t i = 0; i < column->n; i++) all |= column->at[i];
    uint8_t width = 0;
    while (width < 8 && all >> (8 * width) != 0) width++;
    put_varint(&payload, column->n);
    spp_bytes_append(&payload, &width, 1);
    plane.n = 0;
    if (spp_bytes_reserve(&plane, column->n) != 0) return;
    for (uint8_t k = 0; k < width; k++) {
        for (size_t i = 0; i < column->n; i++) plane.at[i] = (uint8_t)(column->at[i] >> (8 * k));
        put_plane(plane.at, column->n);
    }
}

static bool has_any(const spp_vec64 *column) {
    for (size_t i = 0; i < column->n; i++) {
        if (column->at[i] != 0) return true;
    }
    return false;
}

static void put_text(const spp_bytes *text) {
    uint8_t width = text->n ? 1 : 0;
    put_varint(&payload, text->n);
    spp_bytes_append(&payload, &width, 1);
    if (width) put_plane(text->at, text->n);
}

void spp_write_samples(const spp_resolved *d, const spp_columns *c) {
    const spp_vec64 *columns[SPP_COLS_SAMPLES];
    int n = SPP_COLS_ALWAYS;
    for (int k = 0; k < SPP_COLS_SAMPLES; k++) {
        columns[k] = spp_column_rows[k].table < SPP_TABLE_NODE ? &d->columns.of[k] : &c->of[k];
        if (k >= SPP_COLS_ALWAYS && has_any(columns[k])) n = k + 1;
    }
    payload.n = 0;
    for (int k = 0; k < n; k++) {
        if (k == SPP_COL_STRING_BYTES)
            put_text(&d->string_bytes);
        else
            put_column(columns[k]);
    }
    const spp_vec64 *more = &c->of[SPP_COL_COUNT];
    uint64_t ticks = more->n;
    for (size_t i = 0; i < more->n; i++) ticks += more->at[i];
    put_block('S', payload.at, payload.n, SPP_BLOCK_USUAL, ticks);
}

void spp_write_values(const spp_columns *c) {
    int n = SPP_COLS_VALUES_ALWAYS;
    if (c->of[SPP_COL_VALUE_TYPE].n == 0) return;
    for (int k = n; k < SPP_COLS; k++) n = has_any(&c->of[k]) ? k + 1 : n;
    payload.n = 0;
    for (int k = SPP_COLS_SAMPLES; k < n; k++) put_column(&c->of[k]);
    spp_write_block('V', payload.at, payload.n);
}

void spp_write_exact(char kind, const spp_bytes *text, const spp_vec64 *columns, size_t n) {
    payload.n = 0;
    for (size_t k = 0; k < n; k++) {
        put_column(&columns[k]);
        if (k == 0) put_text(text);
    }
    spp_write_block(kind, payload.at, payload.n);
}

void spp_write_rows(char kind, const spp_vec64 *rows, size_t words) {
    if (rows->n == 0) return;
    spp_vec64 column = {0};
    payload.n = 0;
    for (size_t k = 0; k < words; k++) {
        column.n = 0;
        for (size_t i = k; i < rows->n; i += words) spp_vec64_push(&column, rows->at[i]);
        put_column(&column);
    }
    spp_vec64_free(&column);
    spp_write_block(kind, payload.at, payload.n);
}

int spp_write_start(spp_os_file *file, const void *header, size_t n) {
    spp_block *block = make_block('H', header, n, sizeof SPP_FILE_MAGIC - 1);
    compressor = libdeflate_alloc_compressor(6);
    first_error = spp_writer_start(file);
    if (first_error == 0 && (block == NULL || compressor == NULL)) first_error = ENOMEM;
    if (first_error == 0) first_error = spp_writer_empty();
    if (first_error == 0) {
        spp_writer_put(block);
        first_error = spp_writer_wait();
    } else {
        spp_free(block);
    }
    if (first_error == 0) return 0;
    errno = first_error;
    return -1;
}

void spp_write_stop(void) {
    libdeflate_free_compressor(compressor);
    compressor = NULL;
    int error = spp_writer_end(first_error != 0);
    if (first_error == 0) first_error = error;
    spp_bytes_free(&payload);
    spp_bytes_free(&plane);
    spp_bytes_free(&packed);
}

void spp_write_abandon(void) {
    spp_writer_abandon();
    compressor = NULL;
    memset(&payload, 0, sizeof payload);
    memset(&plane, 0, sizeof plane);
    memset(&packed, 0, sizeof packed);
}

int spp_write_error(void) { return first_error != 0 ? first_error : spp_writer_error(); }
