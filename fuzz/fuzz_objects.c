/* libFuzzer target: unwind tables of Windows' objects and of macOS', from bytes.
 * Input: a byte, odd for macOS'. Windows': a byte that says where the table of functions begins, the image. macOS': three lengths
 * of two bytes, then __unwind_info, __eh_frame, the code, and where functions start. */
#include <stdlib.h>
#include <string.h>

#include "core/native/unwind_compact.h"
#include "core/native/unwind_seh.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { LOW = 0x10000000, HIGH = 0x10010000, HEAD = 7 };

static void check_rows(const spp_unwind_object *o, const spp_unwind_rules *rules) {
    for (uint32_t i = 0; i < o->n; i++) {
        if (o->rule_of[i] >= rules->n || (i > 0 && o->places[i] <= o->places[i - 1]) || o->places[i] > HIGH - LOW) abort();
    }
    for (uintptr_t pc = LOW; pc < HIGH; pc += 509) {
        if (spp_unwind_find(o, pc) >= rules->n || spp_unwind_function_of(o, pc) > pc || spp_unwind_end_of(o, pc) < pc) abort();
    }
}

/* The next `wanted` bytes, or as many as there are, in memory of their own so that what lies beyond is watched. */
static spp_unwind_section taken(const uint8_t **data, size_t *left, size_t wanted, uintptr_t address) {
    size_t n = wanted < *left ? wanted : *left;
    uint8_t *bytes = malloc(n + 1);
    memcpy(bytes, *data, n);
    *data += n;
    *left -= n;
    return (spp_unwind_section){bytes, n, address};
}

static size_t length_at(const uint8_t *data) { return data[0] | (size_t)(data[1] & 3) << 8; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static spp_unwind_rules rules; /* as in a run: ever more of them */
    if (rules.at == NULL && spp_unwind_rules_make(&rules) != 0) abort();
    if (rules.n > SPP_UNWIND_RULES - 4096) {
        spp_unwind_rules_free(&rules);
        if (spp_unwind_rules_make(&rules) != 0) abort();
    }
    if (n < HEAD) return 0;
    spp_unwind_object o = {.low = LOW, .high = HIGH};
    const uint8_t *at = data + HEAD;
    size_t left = n - HEAD;
    if (data[0] & 1) {
        spp_unwind_compact image = {.compact = taken(&at, &left, length_at(data + 1), LOW + 0x8000)};
        image.frames = taken(&at, &left, length_at(data + 3), LOW + 0x9000);
        image.code = taken(&at, &left, length_at(data + 5), LOW);
        image.starts = taken(&at, &left, left, LOW + 0xa000);
        spp_unwind_read_compact(&o, &rules, &image);
        free((void *)(uintptr_t)image.compact.at);
        free((void *)(uintptr_t)image.frames.at);
        free((void *)(uintptr_t)image.code.at);
        free((void *)(uintptr_t)image.starts.at);
    } else {
        spp_unwind_section all = taken(&at, &left, left, LOW);
        spp_unwind_image image = {all.at, all.n, LOW, data[1] * 4u, all.n, data[2] & 1 ? 2 : 3};
        spp_unwind_read_seh(&o, &rules, &image);
        free((void *)(uintptr_t)all.at);
    }
    check_rows(&o, &rules);
    spp_unwind_object_free(&o);
    return 0;
}
