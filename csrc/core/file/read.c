#include "core/file/read.h"

#include <libdeflate.h>
#include <string.h>

#include "base/heap.h"
#include "base/sample.h"
#include "core/file/write.h"
#include "core/resolve/store.h"
#include "core/source.h"
#include "os/memory.h"

/* Values of all columns that a file may have, first and for each byte. Real files have 0.2 to 2 a byte, and a column of equal
   values takes no byte at all: without a bound a small file could ask for any amount of memory. */
#define VALUES_FIRST (1u << 20)
#define VALUES_PER_BYTE 64u
#define US_MAX (UINT64_MAX / 4000) /* keeps nanoseconds within int64_t */

typedef struct {
    const uint8_t *at, *end;
} input;

static int get_varint(input *in, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; shift < 63 && in->at < in->end; shift += 7) {
        uint8_t byte = *in->at++;
        *value |= (uint64_t)(byte & 127u) << shift;
        if (!(byte & 128u)) return 0;
    }
    return -1;
}

static uint32_t get_u32(const uint8_t *at) {
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static int64_t unzigzag(uint64_t x) { return (int64_t)(x >> 1) ^ -(int64_t)(x & 1); }

/* Reads one plane of n bytes into `to`. */
static int get_plane(input *in, struct libdeflate_decompressor *inflater, uint8_t *to, size_t n) {
    uint64_t size;
    if (get_varint(in, &size) != 0 || size > n || size > (size_t)(in->end - in->at)) return -1;
    if (size == 0) {
        memset(to, 0, n);
    } else if (size == n) {
        memcpy(to, in->at, n);
    } else if (libdeflate_deflate_decompress(inflater, in->at, size, to, n, NULL) != LIBDEFLATE_SUCCESS) {
        return -1;
    }
    in->at += size;
    return 0;
}

/* Reads one column and appends its values. */
static int get_column(spp_profile *p, input *in, struct libdeflate_decompressor *inflater, spp_bytes *plane, spp_vec64 *to) {
    uint64_t n;
    if (get_varint(in, &n) != 0 || n > p->budget - p->held || in->at == in->end) return -1;
    unsigned width = *in->at++;
    if (width > 8) return -1;
    p->held += n;
    if (spp_vec64_reserve(to, n + 1) != 0 || spp_bytes_reserve(plane, n + 1) != 0) return -1;
    uint64_t *values = to->at + to->n;
    memset(values, 0, n * sizeof *values);
    for (unsigned k = 0; k < width; k++) {
        if (get_plane(in, inflater, plane->at, n) != 0) return -1;
        for (uint64_t i = 0; i < n; i++) values[i] |= (uint64_t)plane->at[i] << (8 * k);
    }
    to->n += n;
    return 0;
}

/* Checks what the rows of the columns say of lengths and values; of a new column that is all. */
static int check_columns(const spp_profile *p, const size_t *was) {
    const spp_vec64 *c = p->columns;
    for (int k = 0; k < SPP_COLS; k++) {
        const spp_column_row *row = &spp_column_rows[k];
        uint64_t below = row->more + (row->of != SPP_TABLE_NUMBER ? c[spp_column_first[row->of]].n : 0);
        if (c[k].n != c[spp_column_first[row->table]].n) return -1;
        if (below == 0 && row->of == SPP_TABLE_NUMBER) continue;
        for (size_t i = was[k]; i < c[k].n; i++) {
            if (c[k].at[i] >= below) return -1;
        }
    }
    return 0;
}

static int settle_strings(const spp_profile *p, size_t was, size_t bytes) {
    const spp_vec64 *length = &p->columns[SPP_COL_STRING_LEN];
    for (size_t i = was; i < length->n; i++) {
        if (length->at[i] > p->strings.n) return -1;
        bytes += length->at[i];
    }
    return bytes == p->strings.n ? 0 : -1;
}

/* Turns what the block says of frames into absolute values. */
static int settle_frames(spp_profile *p, size_t was) {
    spp_vec64 *c = p->columns;
    for (size_t i = was; i < c[SPP_COL_FRAME_CODE].n; i++) {
        uint64_t code = c[SPP_COL_FRAME_CODE].at[i], end = c[SPP_COL_FRAME_END_LINE].at[i], coded = c[SPP_COL_FRAME_LINE].at[i];
        int64_t line = coded == 0 ? 0 : (int64_t)c[SPP_COL_CODE_LINE].at[code] + unzigzag(coded - 1);
        int64_t end_line = end == 0 ? 0 : line + (int64_t)end - 1;
        if (line < 0 || line > INT32_MAX || end_line > INT32_MAX) return -1;
        c[SPP_COL_FRAME_LINE].at[i] = (uint64_t)line;
        c[SPP_COL_FRAME_END_LINE].at[i] = (uint64_t)end_line;
        c[SPP_COL_FRAME_COL].at[i] -= 1; /* none becomes -1 */
        c[SPP_COL_FRAME_END_COL].at[i] -= 1;
    }
    return 0;
}

/* The frame that the number `coded` names below a frame (id + 1; 0: the root), or UINT64_MAX. The reverse of code_frame in
 * store.c. */
static uint64_t decode_frame(spp_profile *p, size_t before, uint64_t number) {
    uint32_t *list = p->followers + before % SPP_FOLLOWER_LISTS * SPP_FOLLOWERS;
    uint64_t frame = number < SPP_FOLLOWERS ? (uint64_t)list[number] - 1 : number - SPP_FOLLOWERS; /* none becomes UINT64_MAX */
    if (frame >= p->columns[SPP_COL_FRAME_CODE].n || frame >= UINT32_MAX) return UINT64_MAX;
    memmove(list + 1, list, (number < SPP_FOLLOWERS ? number : SPP_FOLLOWERS - 1) * sizeof *list);
    list[0] = (uint32_t)frame + 1;
    return frame;
}

static int settle_nodes(spp_profile *p, size_t was) {
    spp_vec64 *parent = &p->columns[SPP_COL_NODE_PARENT], *frame = &p->columns[SPP_COL_NODE_FRAME];
    for (size_t id = was; id < parent->n; id++) {
        uint64_t back = parent->at[id];
        if (back == 0 || back > id) return -1;
        parent->at[id] = id - back;
        frame->at[id] = decode_frame(p, id == back ? 0 : (size_t)frame->at[id - back] + 1, frame->at[id]);
        if (frame->at[id] == UINT64_MAX) return -1;
    }
    return 0;
}

/* For each thread: microseconds reached, and four times its usual step (docs/file-format.md: t and d); microseconds reached in
 * blocks V. */
#define CLOCK_WORDS 3u
static uint64_t *clock_of(spp_profile *p, uint64_t thread) {
    if (thread >= p->budget) return NULL; /* each thread has a sample, or an entry in a block T */
    if (thread >= p->clocks_n) {
        size_t n = (size_t)(thread + 1) * 2;
        uint64_t *more = spp_realloc(p->clocks, CLOCK_WORDS * n * sizeof *more);
        if (more == NULL) return NULL;
        memset(more + CLOCK_WORDS * p->clocks_n, 0, CLOCK_WORDS * (n - p->clocks_n) * sizeof *more);
        p->clocks = more;
        p->clocks_n = n;
    }
    return p->clocks + CLOCK_WORDS * thread;
}

static int settle_samples(spp_profile *p, size_t was) {
    spp_vec64 *c = p->columns;
    for (size_t i = was; i < c[SPP_COL_THREAD].n; i++) {
        uint64_t *clock = clock_of(p, c[SPP_COL_THREAD].at[i]);
        if (clock == NULL) return -1;
        uint64_t unforeseen = (uint64_t)unzigzag(c[SPP_COL_TIME].at[i]), step = (clock[1] >> 2) + unforeseen;
        uint64_t weight = step + (uint64_t)unzigzag(c[SPP_COL_WEIGHT].at[i]);
        if (step > US_MAX || clock[0] + step > US_MAX || weight > US_MAX) return -1;
        clock[0] += step;
        clock[1] += unforeseen;
        c[SPP_COL_TIME].at[i] = clock[0] * 1000;
        c[SPP_COL_WEIGHT].at[i] = weight * 1000;
        c[SPP_COL_COUNT].at[i] += 1;
    }
    return 0;
}

static int add_zeros(spp_vec64 *column, size_t up_to) {
    if (up_to < column->n || spp_vec64_reserve(column, up_to - column->n) != 0) return -1;
    while (column->n < up_to) column->at[column->n++] = 0;
    return 0;
}

/* One S block. On failure all columns are as before it, and reading ends. */
static int get_samples(spp_profile *p, input in, struct libdeflate_decompressor *inflater, spp_bytes *plane) {
    size_t was[SPP_COLS], strings_was = p->strings.n;
    int failed = 0;
    spp_vec64 text = {0};
    for (int k = 0; k < SPP_COLS; k++) was[k] = p->columns[k].n;
    for (int k = 0; k < SPP_COLS_SAMPLES && !failed; k++) {
        if (k >= SPP_COLS_ALWAYS && in.at == in.end) {
            failed = add_zeros(&p->columns[k], p->columns[spp_column_first[spp_column_rows[k].table]].n);
        } else {
            failed = get_column(p, &in, inflater, plane, k == SPP_COL_STRING_BYTES ? &text : &p->columns[k]);
        }
    }
    failed = failed || spp_bytes_reserve(&p->strings, text.n + 1) != 0;
    for (size_t i = 0; i < text.n && !failed; i++) {
        failed = text.at[i] > 255;
        p->strings.at[p->strings.n++] = (uint8_t)text.at[i];
    }
    spp_vec64_free(&text);
    failed = failed || check_columns(p, was) != 0 || settle_strings(p, was[SPP_COL_STRING_LEN], strings_was) != 0 ||
             settle_frames(p, was[SPP_COL_FRAME_CODE]) != 0 || settle_nodes(p, was[SPP_COL_NODE_PARENT]) != 0 ||
             settle_samples(p, was[SPP_COL_THREAD]) != 0;
    if (!failed) return 0;
    for (int k = 0; k < SPP_COLS; k++) p->columns[k].n = was[k];
    p->strings.n = strings_was;
    return -1;
}

static int settle_values(spp_profile *p, size_t was) {
    spp_vec64 *c = p->columns;
    for (size_t i = was; i < c[SPP_COL_VALUE_TYPE].n; i++) {
        uint64_t *clock = clock_of(p, c[SPP_COL_VALUE_THREAD].at[i]), step = c[SPP_COL_VALUE_TIME].at[i];
        if (clock == NULL || step > US_MAX || clock[2] + step > US_MAX || c[SPP_COL_VALUE_TYPE].at[i] == SPP_SOURCE_TIME)
            return -1;
        clock[2] += step;
        c[SPP_COL_VALUE_TIME].at[i] = clock[2] * 1000;
        c[SPP_COL_VALUE_COUNT].at[i] += 1;
    }
    return 0;
}

/* One V block; as get_samples. */
static int get_values(spp_profile *p, input in, struct libdeflate_decompressor *inflater, spp_bytes *plane) {
    size_t was[SPP_COLS];
    int failed = 0;
    for (int k = 0; k < SPP_COLS; k++) was[k] = p->columns[k].n;
    for (int k = SPP_COLS_SAMPLES; k < SPP_COLS && !failed; k++) {
        bool missing = k >= SPP_COLS_VALUES_ALWAYS && in.at == in.end;
        failed = missing ? add_zeros(&p->columns[k], p->columns[SPP_COL_VALUE_TYPE].n)
                         : get_column(p, &in, inflater, plane, &p->columns[k]);
    }
    failed = failed || check_columns(p, was) != 0 || settle_values(p, was[SPP_COL_VALUE_TYPE]) != 0;
    if (!failed) return 0;
    for (int k = SPP_COLS_SAMPLES; k < SPP_COLS; k++) p->columns[k].n = was[k];
    return -1;
}

static int add_threads(spp_profile *p, spp_span span) {
    spp_span *more = spp_realloc(p->threads, (p->threads_n + 1) * sizeof *more);
    if (more == NULL) return -1;
    p->threads = more;
    p->threads[p->threads_n++] = span;
    return 0;
}

static int get_block(spp_profile *p, uint8_t kind, spp_span payload, struct libdeflate_decompressor *inflater, spp_bytes *plane) {
    p->budget += VALUES_PER_BYTE * (uint64_t)payload.n;
    switch (kind) {
    case 'H': p->header = payload; return 0;
    case 'A': p->tick_stats = payload; return 0;
    case 'E': p->end = payload; return 0;
    case 'T': return add_threads(p, payload);
    case 'S': return get_samples(p, (input){payload.at, payload.at + payload.n}, inflater, plane);
    case 'V': return get_values(p, (input){payload.at, payload.at + payload.n}, inflater, plane);
    default: return 0;
    }
}

int spp_read(const uint8_t *file, size_t n, spp_profile *p, const char **why) {
    memset(p, 0, sizeof *p);
    *why = "not a .spprof file";
    if (n < 8 || memcmp(file, SPP_FILE_MAGIC, 8) != 0) return -1;
    *why = "no memory";
    struct libdeflate_decompressor *inflater = libdeflate_alloc_decompressor();
    p->followers = spp_os_pages(SPP_FOLLOWERS_SIZE); /* touched as it is used */
    if (inflater == NULL || p->followers == NULL || spp_vec64_push(&p->columns[SPP_COL_NODE_PARENT], 0) != 0 ||
        spp_vec64_push(&p->columns[SPP_COL_NODE_FRAME], 0) != 0) {
        libdeflate_free_decompressor(inflater);
        return -1;
    }
    spp_bytes plane = {0};
    p->budget = VALUES_FIRST;
    for (size_t at = 8; at < n && p->warning == NULL;) {
        size_t left = n - at;
        uint32_t size = left >= 9 ? get_u32(file + at) : 0;
        if (left < 9 || size > left - 9) {
            p->warning = "the file ends inside a block: it was cut short, or is still being written";
        } else if (libdeflate_crc32(0, file + at + 8, size + 1) != get_u32(file + at + 4)) {
            p->warning = "a block's checksum is wrong: the file is damaged; it is read up to there";
        } else if (get_block(p, file[at + 8], (spp_span){file + at + 9, size}, inflater, &plane) != 0) {
            p->warning = "a block does not make sense: the file is damaged; it is read up to there";
        }
        at += 9 + (size_t)size;
    }
    spp_bytes_free(&plane);
    libdeflate_free_decompressor(inflater);
    return 0;
}

void spp_profile_free(spp_profile *p) {
    for (int k = 0; k < SPP_COLS; k++) spp_vec64_free(&p->columns[k]);
    spp_bytes_free(&p->strings);
    spp_free(p->threads);
    spp_free(p->clocks);
    if (p->followers != NULL) spp_os_pages_free(p->followers, SPP_FOLLOWERS_SIZE);
    memset(p, 0, sizeof *p);
}
