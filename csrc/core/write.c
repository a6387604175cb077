#include "core/write.h"

#include <errno.h>
#include <libdeflate.h>
#include <string.h>

#include "os/os.h"

static int first_error;
static struct libdeflate_compressor *compressor;
static spp_bytes payload, plane, packed;

/* What was written whole blocks at a time is readable; after the first error nothing is written any more. */
static void write_all(const uint8_t *at, size_t n) {
    if (first_error == 0) first_error = spp_os_file_write(at, n);
}

static void put_u32(uint8_t *to, uint32_t value) {
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(value >> 8 * i);
}

void spp_write_block(char kind, const void *from, size_t n) {
    uint8_t head[9];
    head[8] = (uint8_t)kind;
    put_u32(head, (uint32_t)n);
    put_u32(head + 4, libdeflate_crc32(libdeflate_crc32(0, head + 8, 1), from, n));
    packed.n = 0;
    if (spp_bytes_append(&packed, head, sizeof head) != 0 || spp_bytes_append(&packed, from, n) != 0) {
        first_error = ENOMEM;
        return;
    }
    write_all(packed.at, packed.n);
}

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
    if (spp_bytes_room(&packed, bound) == 0) small = libdeflate_deflate_compress(compressor, from, n, packed.at, bound);
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
    if (spp_bytes_room(&plane, column->n) != 0) return;
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

void spp_write_samples(const spp_resolved *d, const spp_columns *c) {
    payload.n = 0;
    put_column(&d->string_len);
    uint8_t width = d->string_bytes.n ? 1 : 0;
    put_varint(&payload, d->string_bytes.n);
    spp_bytes_append(&payload, &width, 1);
    if (width) put_plane(d->string_bytes.at, d->string_bytes.n);
    const spp_vec64 *columns[] = {&d->code_name,  &d->code_qualname,  &d->code_file, &d->code_line,     &d->frame_code,
                                  &d->frame_line, &d->frame_end_line, &d->frame_col, &d->frame_end_col, &c->node_parent,
                                  &c->node_frame, &c->thread,         &c->time,      &c->weight,        &c->stack,
                                  &c->count,      &c->flags};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) put_column(columns[i]);
    bool labelled = has_any(&c->label);
    if (labelled || has_any(&d->code_kind)) put_column(&d->code_kind);
    if (labelled) put_column(&c->label);
    spp_write_block('S', payload.at, payload.n);
}

void spp_write_collections(const spp_resolved *d) {
    spp_vec64 column = {0};
    payload.n = 0;
    for (size_t k = 0; k < SPP_COLLECTION_WORDS; k++) {
        column.n = 0;
        for (size_t i = k; i < d->collections.n; i += SPP_COLLECTION_WORDS) spp_vec64_push(&column, d->collections.at[i]);
        put_column(&column);
    }
    spp_vec64_free(&column);
    spp_write_block('G', payload.at, payload.n);
}

int spp_write_start(int fd, const void *header, size_t n) {
    first_error = spp_os_file_take(fd);
    compressor = libdeflate_alloc_compressor(6);
    if (compressor == NULL) return -1;
    write_all((const uint8_t *)SPP_FILE_MAGIC, 8);
    spp_write_block('H', header, n);
    if (first_error == 0) return 0;
    errno = first_error;
    return -1;
}

void spp_write_stop(void) {
    libdeflate_free_compressor(compressor);
    compressor = NULL;
    int error = spp_os_file_end();
    if (first_error == 0) first_error = error;
    spp_bytes_free(&payload);
    spp_bytes_free(&plane);
    spp_bytes_free(&packed);
}

void spp_write_abandon(void) {
    (void)spp_os_file_end();
    compressor = NULL;
    memset(&payload, 0, sizeof payload);
    memset(&plane, 0, sizeof plane);
    memset(&packed, 0, sizeof packed);
}

int spp_write_error(void) { return first_error; }
