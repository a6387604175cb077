#include "core/resolve/intern.h"

#include <string.h>

#include "base/map.h"
#include "core/resolve/resolved.h"

static spp_map strings, codes, frames; /* by content */
static uint32_t strings_n, codes_n, frames_n;

static void put(int column, uint64_t value) { spp_vec64_push(&spp_resolved_now.columns.of[column], value); }

/* Strings are recognised by two independent 64-bit hashes: at 400,000 strings the chance of one confusion is 2e-28. */
uint32_t spp_intern_string(const spp_bytes *text) {
    uint64_t a = spp_hash_bytes(text->at, text->n, 0), b = spp_hash_bytes(text->at, text->n, 0x9E3779B97F4A7C15u);
    uint32_t id = spp_map_get(&strings, a, b);
    if (id != SPP_MAP_NONE) return id;
    put(SPP_COL_STRING_LEN, text->n);
    spp_bytes_append(&spp_resolved_now.string_bytes, text->at, text->n);
    spp_map_add(&strings, a, b, strings_n);
    return strings_n++;
}

uint32_t spp_intern_code(const spp_code *code, spp_code_kind kind) {
    uint64_t name = spp_intern_string(&code->name), qualname = spp_intern_string(&code->qualname),
             file = spp_intern_string(&code->file);
    uint64_t a = name << 32 | qualname, b = file << 32 | (uint32_t)code->first_line | (uint64_t)kind << 31;
    uint32_t id = spp_map_get(&codes, a, b);
    if (id != SPP_MAP_NONE) return id;
    put(SPP_COL_CODE_NAME, name);
    put(SPP_COL_CODE_QUALNAME, qualname);
    put(SPP_COL_CODE_FILE, file);
    put(SPP_COL_CODE_LINE, code->first_line > 0 ? (uint64_t)code->first_line : 0);
    put(SPP_COL_CODE_KIND, kind);
    spp_map_add(&codes, a, b, codes_n);
    return codes_n++;
}

uint32_t spp_intern_frame(uint32_t code, int32_t first_line, spp_place place) {
    uint64_t a = (uint64_t)code << 32 | (uint32_t)place.line;
    uint64_t b = (uint64_t)(uint32_t)(place.end_line - place.line) << 42 ^ (uint64_t)(uint32_t)(place.col + 1) << 21 ^
                 (uint32_t)(place.end_col + 1);
    /* The packing is exact below two million columns and four million lines; beyond, the hash of both keeps them apart. */
    if (place.col >= 1 << 20 || place.end_col >= 1 << 20 || place.end_line - place.line >= 1 << 21) {
        b = spp_hash_bytes(&place, sizeof place, code) | (uint64_t)1 << 63;
    }
    uint32_t id = spp_map_get(&frames, a, b);
    if (id != SPP_MAP_NONE) return id;
    first_line = first_line > 0 ? first_line : 0; /* as the file says it */
    put(SPP_COL_FRAME_CODE, code);
    put(SPP_COL_FRAME_LINE, place.line ? spp_zigzag((int64_t)place.line - first_line) + 1 : 0);
    put(SPP_COL_FRAME_END_LINE, place.line && place.end_line >= place.line ? (uint64_t)(place.end_line - place.line) + 1 : 0);
    put(SPP_COL_FRAME_COL, (uint64_t)(place.col + 1));
    put(SPP_COL_FRAME_END_COL, (uint64_t)(place.end_col + 1));
    spp_map_add(&frames, a, b, frames_n);
    return frames_n++;
}

bool spp_intern_is_full(void) { return strings.n > SPP_INTERN_MOST || frames.n > SPP_INTERN_MOST || codes.n > SPP_INTERN_MOST; }

void spp_intern_forget(void) {
    spp_map_free(&strings);
    spp_map_free(&codes);
    spp_map_free(&frames);
}

void spp_intern_restart(void) {
    spp_intern_forget();
    strings_n = codes_n = frames_n = 0;
}

void spp_intern_abandon(void) {
    spp_map *const maps[] = {&strings, &codes, &frames};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) memset(maps[i], 0, sizeof *maps[i]);
    strings_n = codes_n = frames_n = 0;
}
