/* What write.c and store.c write, read.c reads back; cut or damaged anywhere, it reads a beginning of it or refuses. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "core/capture/capture.h"
#include "core/file/read.h"
#include "core/file/write.h"
#include "core/file/writer.h"
#include "core/resolve/store.h"
#include "core/source.h"
#include "os/files.h"
#include "os/ticks.h"

#define START_NS 5000000000000u
#define BLOCKS 4
#define SAMPLES 50 /* a block */
#define VALUES 20  /* of another source, in the block behind it */

static uint8_t *file;
static size_t file_n;
static size_t block_end[64], blocks;

/* What each sample was, by the writer's words. */
static struct {
    uint64_t time, weight;
    uint32_t thread, depth, count, flags, frames[8];
} truth[BLOCKS * SAMPLES];
static struct {
    uint64_t time, weight, label;
    uint32_t thread, count, flags, frame;
} values[BLOCKS * VALUES];

static void define(spp_resolved *r, uint32_t block) {
    char name[32];
    spp_vec64 *c = r->columns.of;
    for (uint32_t i = 0; i < 3; i++) { /* codes 3b, 3b+1, 3b+2, each with a name, a qualified name and one file */
        for (uint32_t k = 0; k < 3; k++) {
            int n = snprintf(name, sizeof name, "%s%u.%u", k == 2 ? "\xc3\xa9" : "n", block, i * 3 + k);
            spp_vec64_push(&c[SPP_COL_STRING_LEN], (uint64_t)n);
            spp_bytes_append(&r->string_bytes, name, (size_t)n);
        }
        uint64_t string = (block * 3 + i) * 3;
        spp_vec64_push(&c[SPP_COL_CODE_NAME], string);
        spp_vec64_push(&c[SPP_COL_CODE_QUALNAME], string + 1);
        spp_vec64_push(&c[SPP_COL_CODE_FILE], string + 2);
        spp_vec64_push(&c[SPP_COL_CODE_LINE], 100 * (block + 1) + i);
        /* Two frames a code: one before its first line, one with columns. */
        spp_vec64_push(&c[SPP_COL_FRAME_CODE], block * 3 + i);
        spp_vec64_push(&c[SPP_COL_FRAME_LINE], 2 * 7 - 1 + 1); /* zigzag(-7) = 13, plus 1 */
        spp_vec64_push(&c[SPP_COL_FRAME_END_LINE], 4);
        spp_vec64_push(&c[SPP_COL_FRAME_COL], 0);
        spp_vec64_push(&c[SPP_COL_FRAME_END_COL], 0);
        spp_vec64_push(&c[SPP_COL_FRAME_CODE], block * 3 + i);
        spp_vec64_push(&c[SPP_COL_FRAME_LINE], 2 * 9 + 1);
        spp_vec64_push(&c[SPP_COL_FRAME_END_LINE], 1);
        spp_vec64_push(&c[SPP_COL_FRAME_COL], 1000);
        spp_vec64_push(&c[SPP_COL_FRAME_END_COL], 1);
    }
}

/* The core writes by a descriptor of its own, so the size is asked of the file, each time. */
static size_t size_of(FILE *of) {
    CHECK_EQUAL(spp_writer_wait(), 0);
    CHECK_EQUAL(fseek(of, 0, SEEK_END), 0);
    return (size_t)ftell(of);
}

static void write_file(void) {
    spp_cap.max_depth = 16;
    CHECK_EQUAL(spp_capture_init(), 0);
    spp_threads_used = 3;
    for (uint32_t i = 0; i < 3; i++) CHECK_EQUAL(spp_threads_prepare(&spp_threads[i], getpid(), i * 2, spp_os_clock_last), 0);
    FILE *kept = tmpfile();
    CHECK(kept != NULL);
    if (kept == NULL) exit(check_done());
    static const char header[] = "{\"start_ns\":5000000000000}";
    static spp_os_file output;
    CHECK_EQUAL(spp_os_file_copy(&output, fileno(kept)), 0);
    CHECK_EQUAL(spp_write_start(&output, header, sizeof header - 1), 0);
    CHECK_EQUAL(spp_store_start(START_NS), 0);
    block_end[blocks++] = size_of(kept);
    unsigned long long random = 3;
    uint64_t clock[3] = {START_NS, START_NS, START_NS};
    spp_resolved resolved = {0};
    spp_columns columns = {0};
    for (uint32_t block = 0; block < BLOCKS; block++) {
        define(&resolved, block);
        for (uint32_t i = 0; i < SAMPLES; i++) {
            uint32_t slot = (uint32_t)check_random(&random) % 3, n = block * SAMPLES + i;
            uint64_t step = check_random(&random) % 3 ? 1000000 + check_random(&random) % 5000 : check_random(&random) % 90000000;
            clock[slot] += step;
            truth[n].time = clock[slot];
            /* Weights that are not the steps, so that corrections are written; some are 0. */
            truth[n].weight = check_random(&random) % 5 ? step * 9 / 10 + 333 : 0;
            truth[n].thread = slot * 2;
            truth[n].depth = (uint32_t)check_random(&random) % 8;
            truth[n].count = i % 7 ? 1 : 70000;
            truth[n].flags = i % 8;
            spp_resolved_sample *s = spp_resolved_reserve(&resolved, truth[n].depth);
            *s = (spp_resolved_sample){.slot = (uint16_t)slot,
                                       .flags = (uint16_t)truth[n].flags,
                                       .count = truth[n].count,
                                       .time_ns = truth[n].time,
                                       .weight = truth[n].weight,
                                       .depth = truth[n].depth};
            for (uint32_t k = 0; k < truth[n].depth; k++)
                s->frames[k] = truth[n].frames[k] = (uint32_t)check_random(&random) % (6 * (block + 1));
            spp_resolved_keep(&resolved, s);
        }
        for (uint32_t i = 0; i < VALUES; i++) {
            uint32_t slot = (uint32_t)check_random(&random) % 3, n = block * VALUES + i;
            values[n].time = clock[slot] += check_random(&random) % 3000;
            values[n].weight = i % 5 ? check_random(&random) % 1000 : 1ull << 61;
            values[n].thread = slot * 2;
            values[n].count = i % 6 ? 1 : 3;
            values[n].flags = i % 2;
            values[n].label = i % 4;
            values[n].frame = (uint32_t)check_random(&random) % (6 * (block + 1));
            spp_resolved_sample *s = spp_resolved_reserve(&resolved, 1);
            *s = (spp_resolved_sample){.slot = (uint16_t)slot,
                                       .flags = (uint16_t)(values[n].flags | SPP_SOURCE_PAGE_FAULTS << SPP_SOURCE_SHIFT),
                                       .count = (uint32_t)values[n].count,
                                       .time_ns = values[n].time,
                                       .weight = values[n].weight,
                                       .depth = 1,
                                       .label = (uint32_t)values[n].label};
            s->frames[0] = values[n].frame;
            spp_resolved_keep(&resolved, s);
        }
        spp_store_add(&resolved, &columns);
        spp_write_samples(&resolved, &columns);
        block_end[blocks++] = size_of(kept);
        spp_write_values(&columns);
        spp_columns_clear(&columns);
        spp_resolved_clear(&resolved);
        block_end[blocks++] = size_of(kept);
        if (block == 1) {
            spp_write_block('?', "unknown", 7); /* a kind of a later version */
            block_end[blocks++] = size_of(kept);
        }
    }
    spp_write_block('T', "[{\"id\":0}]", 10);
    block_end[blocks++] = size_of(kept);
    spp_write_block('A', "{\"a\":1}", 7);
    block_end[blocks++] = size_of(kept);
    spp_write_block('E', "{}", 2);
    block_end[blocks++] = size_of(kept);
    CHECK_EQUAL(spp_write_error(), 0);
    spp_write_stop();
    spp_store_stop();
    spp_columns_free(&columns);
    spp_resolved_free(&resolved);
    file_n = block_end[blocks - 1];
    file = malloc(file_n);
    rewind(kept);
    CHECK_EQUAL(fread(file, 1, file_n, kept), file_n);
    fclose(kept);
}

/* The same of values. */
static size_t compare_values(const spp_profile *p) {
    const spp_vec64 *c = p->columns;
    size_t n = c[SPP_COL_VALUE_TYPE].n;
    CHECK(n <= BLOCKS * VALUES);
    for (size_t i = 0; i < n; i++) {
        CHECK_EQUAL(c[SPP_COL_VALUE_TYPE].at[i], SPP_SOURCE_PAGE_FAULTS);
        CHECK_EQUAL(c[SPP_COL_VALUE_THREAD].at[i], values[i].thread);
        CHECK_EQUAL(c[SPP_COL_VALUE_TIME].at[i], (values[i].time - START_NS) / 1000 * 1000);
        CHECK_EQUAL(c[SPP_COL_VALUE_WEIGHT].at[i], values[i].weight);
        CHECK_EQUAL(c[SPP_COL_VALUE_COUNT].at[i], values[i].count);
        CHECK_EQUAL(c[SPP_COL_VALUE_FLAGS].at[i], values[i].flags);
        CHECK_EQUAL(c[SPP_COL_VALUE_LABEL].at[i], values[i].label);
        uint64_t node = c[SPP_COL_VALUE_STACK].at[i];
        CHECK_EQUAL(c[SPP_COL_NODE_FRAME].at[node], values[i].frame);
        CHECK_EQUAL(c[SPP_COL_NODE_PARENT].at[node], 0);
    }
    return n;
}

/* Checks the samples that a profile has against the truth; the number of them. */
static size_t compare(const spp_profile *p) {
    const spp_vec64 *c = p->columns;
    size_t n = c[SPP_COL_THREAD].n;
    int64_t owed[8] = {0};
    CHECK(n <= BLOCKS * SAMPLES);
    for (size_t i = 0; i < n; i++) {
        CHECK_EQUAL(c[SPP_COL_THREAD].at[i], truth[i].thread);
        CHECK_EQUAL(c[SPP_COL_COUNT].at[i], truth[i].count);
        CHECK_EQUAL(c[SPP_COL_FLAGS].at[i], truth[i].flags);
        /* Times to 1 us; each thread's running sum of weights to 2 us (rounded twice: 3). */
        int64_t late = (int64_t)(truth[i].time - START_NS) - (int64_t)c[SPP_COL_TIME].at[i];
        CHECK(late >= 0 && late < 1000);
        owed[truth[i].thread] += (int64_t)truth[i].weight - (int64_t)c[SPP_COL_WEIGHT].at[i];
        CHECK(llabs(owed[truth[i].thread]) < 3000);
        uint64_t node = c[SPP_COL_STACK].at[i];
        for (uint32_t k = truth[i].depth; k-- > 0;) {
            CHECK(node != 0);
            CHECK_EQUAL(c[SPP_COL_NODE_FRAME].at[node], truth[i].frames[k]);
            CHECK(c[SPP_COL_NODE_PARENT].at[node] < node);
            node = c[SPP_COL_NODE_PARENT].at[node];
        }
        CHECK_EQUAL(node, 0);
    }
    /* Equal stacks are one node: no two nodes have the same parent and frame. */
    for (size_t i = 1; i < c[SPP_COL_NODE_FRAME].n; i++) {
        for (size_t k = 1; k < i; k++) {
            if (c[SPP_COL_NODE_FRAME].at[i] == c[SPP_COL_NODE_FRAME].at[k] &&
                c[SPP_COL_NODE_PARENT].at[i] == c[SPP_COL_NODE_PARENT].at[k]) {
                CHECK(0 && "a stack has two nodes");
            }
        }
    }
    for (size_t i = 0; i < c[SPP_COL_FRAME_CODE].n; i++) {
        uint64_t first = 100 * (i / 6 + 1) + i / 2 % 3;
        CHECK_EQUAL(c[SPP_COL_CODE_LINE].at[i / 2], first);
        CHECK_EQUAL(c[SPP_COL_FRAME_CODE].at[i], i / 2);
        CHECK_EQUAL(c[SPP_COL_FRAME_LINE].at[i], i % 2 ? first + 9 : first - 7);
        CHECK_EQUAL(c[SPP_COL_FRAME_END_LINE].at[i], i % 2 ? first + 9 : first - 4);
        CHECK_EQUAL(c[SPP_COL_FRAME_COL].at[i], i % 2 ? 999 : -1);
        CHECK_EQUAL(c[SPP_COL_FRAME_END_COL].at[i], i % 2 ? 0 : -1);
    }
    return n;
}

static void whole(void) {
    spp_profile p;
    const char *why;
    CHECK_EQUAL(spp_read(file, file_n, &p, &why), 0);
    CHECK(p.warning == NULL);
    CHECK_EQUAL(compare(&p), BLOCKS * SAMPLES);
    CHECK_EQUAL(compare_values(&p), BLOCKS * VALUES);
    CHECK_EQUAL(p.columns[SPP_COL_FRAME_CODE].n, BLOCKS * 6);
    CHECK(p.strings.n > 4 && memcmp(p.strings.at,
                                    "n0.0n0.1\xc3\xa9"
                                    "0.2",
                                    13) == 0);
    CHECK(p.threads_n == 1 && p.tick_stats.n == 7 && p.end.n == 2 && p.header.n == 26);
    spp_profile_free(&p);
}

static void cut(void) {
    const char *why;
    size_t block = 0, before = 0;
    for (size_t n = 0; n <= file_n; n++) {
        uint8_t *copy = malloc(n ? n : 1); /* exact, so that a sanitizer sees any byte read beyond */
        memcpy(copy, file, n);
        spp_profile p;
        if (spp_read(copy, n, &p, &why) != 0) {
            CHECK(n < 8);
        } else {
            while (block + 1 < blocks && n >= block_end[block + 1]) block++;
            bool at_end = n == 8;
            for (size_t i = 0; i < blocks; i++) at_end |= n == block_end[i];
            CHECK_EQUAL(p.warning == NULL, at_end);
            size_t samples = p.columns[SPP_COL_THREAD].n;
            CHECK(samples >= before && samples % SAMPLES == 0);
            if (samples != before) compare(&p);
            size_t more = compare_values(&p);
            CHECK(more == samples / SAMPLES * VALUES || more + VALUES == samples / SAMPLES * VALUES);
            before = samples;
            CHECK_EQUAL(p.end.at != NULL, n == file_n);
        }
        spp_profile_free(&p);
        free(copy);
    }
    CHECK_EQUAL(before, BLOCKS * SAMPLES);
}

static void damaged(void) {
    unsigned long long random = 5;
    const char *why;
    for (size_t n = 0; n < file_n; n++) {
        uint8_t was = file[n];
        file[n] ^= (uint8_t)(1 + check_random(&random) % 255);
        spp_profile p;
        if (spp_read(file, file_n, &p, &why) != 0) {
            CHECK(n < 8);
        } else {
            CHECK(n >= 8);
            CHECK(p.warning != NULL); /* CRC-32 finds every change within 32 bits */
            (void)compare(&p);        /* what was read before it is right */
            (void)compare_values(&p);
        }
        spp_profile_free(&p);
        file[n] = was;
    }
    whole();
}

static void not_ours(void) {
    spp_profile p;
    const char *why = NULL;
    CHECK_EQUAL(spp_read((const uint8_t *)"#!/usr/bin/python3", 18, &p, &why), -1);
    CHECK(why != NULL);
    spp_profile_free(&p);
    CHECK_EQUAL(spp_read((const uint8_t *)"", 0, &p, &why), -1);
    spp_profile_free(&p);
    CHECK_EQUAL(spp_read((const uint8_t *)SPP_FILE_MAGIC, 8, &p, &why), 0);
    CHECK_EQUAL(p.columns[SPP_COL_THREAD].n, 0);
    spp_profile_free(&p);
}

static void disk_full(void) {
    int fd = open("/dev/full", O_WRONLY);
    if (fd < 0) return;
    static spp_os_file output;
    CHECK_EQUAL(spp_os_file_copy(&output, fd), 0);
    CHECK_EQUAL(spp_write_start(&output, "{}", 2), -1);
    close(fd);
    CHECK_EQUAL(spp_write_error(), ENOSPC);
    spp_write_block('A', "{}", 2); /* goes nowhere, harms nothing */
    spp_write_stop();
}

int main(void) {
    write_file();
    whole();
    cut();
    damaged();
    not_ours();
    disk_full();
    free(file);
    return check_done();
}
