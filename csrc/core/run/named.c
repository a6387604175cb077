#include "core/run/named.h"

#include "base/sample.h"
#include "core/resolve/resolve_table.h"

uint64_t spp_named_string(spp_named *named, const void *at, size_t n) {
    uint64_t a = spp_hash_bytes(at, n, 1), b = spp_hash_bytes(at, n, 2);
    uint32_t id = spp_map_get(&named->strings, a, b);
    if (id != SPP_MAP_NONE) return id;
    id = (uint32_t)named->of[SPP_NAMED_STRING_LEN].n;
    (void)spp_map_add(&named->strings, a, b, id);
    spp_vec64_push(&named->of[SPP_NAMED_STRING_LEN], n);
    spp_bytes_append(&named->text, at, n);
    return id;
}

uint32_t spp_named_function(spp_named *named, const uint64_t row[SPP_NAMED_FUNCTION_WORDS]) {
    uint64_t a = row[0] << 32 | row[1], b = row[2] << 33 | row[3] << 1 | row[4];
    uint32_t id = spp_map_get(&named->functions, a, b);
    if (id != SPP_MAP_NONE) return id;
    id = (uint32_t)named->of[SPP_NAMED_FUNCTION].n;
    (void)spp_map_add(&named->functions, a, b, id);
    for (int i = 0; i < SPP_NAMED_FUNCTION_WORDS; i++) spp_vec64_push(&named->of[SPP_NAMED_FUNCTION + i], row[i]);
    return id;
}

uint32_t spp_named_code(spp_named *named, uintptr_t address) {
    uint32_t id = spp_map_get(&named->codes, address, 0);
    if (id != SPP_MAP_NONE) return id;
    spp_code *code = &named->code;
    if (spp_code_read(address, code) != 0) code->name.n = code->qualname.n = code->file.n = 0, code->first_line = 0;
    const uint64_t row[] = {
        spp_named_string(named, code->name.at, code->name.n), spp_named_string(named, code->qualname.at, code->qualname.n),
        spp_named_string(named, code->file.at, code->file.n), code->first_line > 0 ? (uint32_t)code->first_line : 0, 0};
    id = spp_named_function(named, row);
    (void)spp_map_add(&named->codes, address, 0, id);
    return id;
}

static uint32_t read_line(spp_named *named, uintptr_t address, uint32_t offset, uint32_t look_on) {
    spp_code *code = &named->code;
    spp_table lines = {0};
    int32_t line = 0;
    if (offset == SPP_OFFSET_NONE || spp_code_read(address, code) != 0 || !code->lines_known ||
        spp_table_open(&lines, code->lines, code->lines_n, code->first_line) != 0)
        return 0;
    for (uint32_t more = 0; line <= 0 && more <= look_on; more += 2) line = spp_table_place(&lines, offset + more).line;
    spp_table_close(&lines);
    return line > 0 ? (uint32_t)line : 0;
}

uint32_t spp_named_line(spp_named *named, uintptr_t code, uint32_t offset, uint32_t look_on) {
    uint64_t key = (uint64_t)look_on << 32 | offset;
    uint32_t line = spp_map_get(&named->lines, code, key);
    if (line != SPP_MAP_NONE) return line;
    line = read_line(named, code, offset, look_on);
    (void)spp_map_add(&named->lines, code, key, line);
    return line;
}

void spp_named_free(spp_named *named) {
    spp_bytes *const texts[] = {&named->text, &named->code.name, &named->code.qualname, &named->code.file};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) spp_bytes_free(texts[i]);
    spp_map_free(&named->strings);
    spp_map_free(&named->codes);
    spp_map_free(&named->functions);
    spp_map_free(&named->lines);
}
