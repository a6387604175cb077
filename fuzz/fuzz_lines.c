/* libFuzzer target: the three decoders of line tables. Input: first line (2 bytes), offset (2 bytes), the table. */
#include <stdlib.h>

#include "core/resolve/resolve_lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(spp_place place) {
    if (place.line < 0 || place.col < -1 || place.end_col < -1 || (place.line == 0 && place.end_line != 0)) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n < 4) return 0;
    int32_t first = data[0] | data[1] << 8;
    uint32_t offset = data[2] | (uint32_t)data[3] << 8;
    check(spp_lines_lnotab(data + 4, n - 4, first, offset));
    check(spp_lines_pep626(data + 4, n - 4, first, offset));
    check(spp_lines_locations(data + 4, n - 4, first, offset));
    return 0;
}
