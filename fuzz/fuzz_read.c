/* libFuzzer target: the reader of .spprof files. Input: the file without its magic. The checksums are put right first, so that
 * the fuzzer reaches what lies behind them. Build and run: fuzz/run read 60 */
#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

#include "core/file/read.h"
#include "core/file/write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void put_u32(uint8_t *to, uint32_t value) {
    for (int i = 0; i < 4; i++) to[i] = (uint8_t)(value >> 8 * i);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    uint8_t *file = malloc(n + 8);
    if (file == NULL) return 0;
    memcpy(file, SPP_FILE_MAGIC, 8);
    if (n != 0) memcpy(file + 8, data, n);
    for (size_t at = 8; at + 9 <= n + 8;) {
        uint32_t size = file[at] | (uint32_t)file[at + 1] << 8; /* blocks of up to 64 KiB: the rest is the fuzzer's time */
        if (size > n + 8 - at - 9) size = (uint32_t)(n + 8 - at - 9);
        put_u32(file + at, size);
        put_u32(file + at + 4, libdeflate_crc32(0, file + at + 8, size + 1));
        at += 9 + (size_t)size;
    }
    spp_profile profile;
    const char *why;
    if (spp_read(file, n + 8, &profile, &why) == 0) {
        /* What a reader builds on: every id is in range, every walk to the root ends. */
        const spp_vec64 *c = profile.columns;
        for (size_t i = 1; i < c[SPP_COL_NODE_PARENT].n; i++) {
            if (c[SPP_COL_NODE_PARENT].at[i] >= i || c[SPP_COL_NODE_FRAME].at[i] >= c[SPP_COL_FRAME_CODE].n) abort();
        }
        for (size_t i = 0; i < c[SPP_COL_STACK].n; i++) {
            if (c[SPP_COL_STACK].at[i] >= c[SPP_COL_NODE_PARENT].n || c[SPP_COL_COUNT].at[i] == 0) abort();
            if ((int64_t)c[SPP_COL_WEIGHT].at[i] < 0 || (int64_t)c[SPP_COL_TIME].at[i] < 0) abort();
        }
        for (size_t i = 0; i < c[SPP_COL_CODE_NAME].n; i++) {
            if (c[SPP_COL_CODE_NAME].at[i] >= c[SPP_COL_STRING_LEN].n) abort();
        }
    }
    spp_profile_free(&profile);
    free(file);
    return 0;
}
