/* libFuzzer target: the symbol tables of an ELF file, or the text of a perf-PID.map. Input: the file; what says that it is one is
 * put in its place. */
#include <stdlib.h>
#include <string.h>

#include "core/native/symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const uint8_t magic[] = {0x7f, 'E', 'L', 'F', 2, 1};
    uint8_t *file = malloc(n + 1);
    memcpy(file, data, n);
    if (n >= 64 && (data[0] & 7) != 0) { /* as it is now and then */
        memcpy(file, magic, sizeof magic);
        memset(file + 40, 0, 8);
        file[40] = data[40] & 0x7f; /* sections near the beginning */
        file[58] = 64;
        file[59] = 0;
        file[61] = 0;
    }
    (void)spp_symbols_whole(file, n);
    spp_symbols symbols = {0};
    if (n > 0 && data[0] % 16 == 8)
        (void)spp_symbols_read_map(&symbols, (const char *)file + 1, n - 1);
    else
        (void)spp_symbols_read(&symbols, file, n);
    free(file); /* what was read is kept without it */
    for (size_t i = 0; i < symbols.n; i++) {
        const spp_symbol *s = &symbols.list[i], *found = spp_symbols_find(&symbols, s->at);
        if (found != s || (i > 0 && s->at <= symbols.list[i - 1].at) || strlen(spp_symbols_name(&symbols, s)) == 0) abort();
        (void)spp_symbols_find(&symbols, s->at + s->size);
        (void)spp_symbols_find(&symbols, s->at - 1);
    }
    spp_symbols_free(&symbols);
    return 0;
}
