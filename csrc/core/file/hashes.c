#include "core/file/hashes.h"

#include <sha-256.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "core/file/write.h"
#include "os/files.h"
#include "os/memory.h"

/* Bytes of a file and of all of a run: 0.2 s of a processor at the most. Pages show no text that is longer. */
#define FILE_MOST ((size_t)4 << 20)
#define ALL_MOST ((int64_t)32 << 20)
#define PATH_MOST 4096u
#define DIGITS (2 * SIZE_OF_SHA_256_HASH)

static uint64_t strings; /* that are in the file */
static _Atomic int64_t left;

void spp_hashes_start(void) {
    strings = 0;
    left = ALL_MOST;
}

/* Writer's thread. The payload has the path, and the place of the digits before it. */
static bool make(spp_block *block) {
    uint8_t *payload = spp_write_payload(block);
    uint8_t hash[SIZE_OF_SHA_256_HASH];
    size_t n = 0;
    if (left <= 0) return false;
    void *text = spp_os_file_text((const char *)payload + DIGITS + 1, FILE_MOST, &n);
    if (text == NULL) return false;
    left -= (int64_t)n;
    calc_sha_256(hash, text, n);
    spp_os_pages_free(text, n);
    for (size_t i = 0; i < DIGITS; i++) payload[i] = (uint8_t) "0123456789abcdef"[hash[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15];
    spp_write_seal(block);
    return true;
}

static void add(const uint8_t *path, size_t n) {
    uint8_t payload[DIGITS + 1 + PATH_MOST] = {0};
    if (n == 0 || n >= PATH_MOST || path[0] == '<') return; /* <string>, <frozen os> */
    payload[DIGITS] = ' ';
    memcpy(payload + DIGITS + 1, path, n);
    if (strlen((const char *)payload + DIGITS + 1) == n) spp_write_later('F', payload, DIGITS + 1 + n, make);
}

void spp_hashes_see(const spp_resolved *d) {
    const spp_vec64 *lengths = &d->columns.of[SPP_COL_STRING_LEN], *files = &d->columns.of[SPP_COL_CODE_FILE];
    const spp_vec64 *kinds = &d->columns.of[SPP_COL_CODE_KIND];
    spp_vec64 starts = {0};
    size_t at = 0;
    for (size_t i = 0; i < lengths->n && files->n > 0; i++) {
        if (spp_vec64_push(&starts, at) != 0) break;
        at += lengths->at[i];
    }
    for (size_t i = 0; i < files->n; i++) {
        uint64_t string = files->at[i] - strings; /* of an older one this is more than all: it was seen then */
        if (kinds->at[i] != 0 || string >= starts.n || starts.at[string] == UINT64_MAX) continue;
        add(d->string_bytes.at + starts.at[string], lengths->at[string]);
        starts.at[string] = UINT64_MAX;
    }
    strings += lengths->n;
    spp_vec64_free(&starts);
}
