/* libFuzzer target: unwind tables from bytes, then a walk over a stack of bytes by them.
 * Input: a byte with the number of functions (0: the index is in the input too), two bytes each where they are described, 256
 * bytes of stack, .eh_frame. */
#include <stdlib.h>
#include <string.h>

#include "core/native/unwind.h"
#include "os/context.h"
#include "os/memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { LOW = 0x10000000, HIGH = 0x10010000, INDEX_AT = 0x10020000, FRAMES_AT = 0x10030000, STACK_WORDS = 32, DEPTH = 48 };

static void put_u32(uint8_t *to, uint32_t value) { memcpy(to, &value, sizeof value); }

static void check_rows(const spp_unwind_object *o, const spp_unwind_rules *rules) {
    for (uint32_t i = 0; i < o->n; i++) {
        if (o->rule_of[i] >= rules->n || (i > 0 && o->places[i] <= o->places[i - 1]) || o->places[i] > HIGH - LOW) abort();
    }
    for (uintptr_t pc = LOW; pc < HIGH; pc += 509) {
        if (spp_unwind_find(o, pc) >= rules->n || spp_unwind_function_of(o, pc) > pc) abort();
    }
}

/* The same twice: by a cold and a warm memory of lookups. */
static void walk(const spp_unwind_object *o, const spp_unwind_rules *rules, const uint8_t *bytes) {
    static spp_unwind_cache cache;
    static uint32_t serial;
    uintptr_t stack[STACK_WORDS], pcs[DEPTH], cfas[DEPTH], registers[SPP_OS_REGISTERS], depth_was = 0, sum_was = 0;
    memcpy(stack, bytes, sizeof stack);
    for (size_t i = 0; i < STACK_WORDS; i++) { /* addresses that mean something: of code, of the stack itself */
        if ((stack[i] & 3) == 1) stack[i] = LOW + (stack[i] >> 2) % (HIGH - LOW);
        if ((stack[i] & 3) == 2) stack[i] = (uintptr_t)&stack[(stack[i] >> 2) % STACK_WORDS];
    }
    for (size_t i = 0; i < SPP_OS_REGISTERS; i++) registers[i] = stack[i % STACK_WORDS];
    spp_unwind_map map = {rules->at, &o, 1, ++serial != 0 ? serial : ++serial};
    for (int round = 0; round < 2; round++) {
        spp_unwind_walk w = {.pc = LOW + bytes[0] * 7u + bytes[1],
                             .sp = (uintptr_t)&stack[bytes[2] % STACK_WORDS],
                             .fp = stack[1],
                             .registers = registers,
                             .stack_end = (uintptr_t)(stack + STACK_WORDS),
                             .memory = bytes[3] & 1 ? SPP_UNWIND_OTHER : SPP_UNWIND_PROBED,
                             .cache = &cache,
                             .guess = (bytes[3] & 2) != 0,
                             .stop = bytes[3] & 4 ? (uintptr_t)&stack[bytes[4] % STACK_WORDS] : 0,
                             .pcs = pcs,
                             .cfas = cfas,
                             .max = bytes[5] % (DEPTH + 1)};
        spp_unwind(&map, &w);
        uintptr_t sum = w.end;
        if (w.depth > w.max) abort();
        for (uint32_t i = 0; i < w.depth; i++) {
            if (i + 1 < w.depth && cfas[i] > cfas[i + 1]) abort(); /* frames lie above each other */
            sum = sum * 31 + pcs[i] * 7 + cfas[i];
        }
        if (round == 1 && (w.depth != depth_was || sum != sum_was)) abort();
        depth_was = w.depth;
        sum_was = sum;
    }
}

/* Functions without unwind information, of the input's bytes as machine code. */
typedef struct {
    const uint8_t *at;
    size_t n;
} bytes_left;

static bool next_function(void *arg, uintptr_t low, uintptr_t high, spp_unwind_section *code) {
    bytes_left *left = arg;
    size_t n = high - low < 64 ? high - low : 64;
    if (left->n < n || n < 3) return false;
    *code = (spp_unwind_section){left->at, n - left->at[0] % 2, low + left->at[0] % 2};
    left->at += n;
    left->n -= n;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static spp_unwind_rules rules; /* as in a run: ever more of them */
    if (rules.at == NULL && (spp_os_memory_init() != 0 || spp_unwind_rules_make(&rules) != 0)) abort();
    if (rules.n > SPP_UNWIND_RULES - 4096) {
        spp_unwind_rules_free(&rules);
        if (spp_unwind_rules_make(&rules) != 0) abort();
    }
    size_t functions = n > 0 ? data[0] % 16 : 0, head = 1 + 2 * functions + STACK_WORDS * sizeof(uintptr_t);
    if (n < head) return 0;
    const uint8_t *bytes = data + 1 + 2 * functions;
    uint8_t index[12 + 8 * 16] = {1, 0x1b, 0x03, 0x3b};
    put_u32(index + 4, FRAMES_AT - INDEX_AT - 4);
    put_u32(index + 8, (uint32_t)functions);
    for (size_t i = 0; i < functions; i++) {
        put_u32(index + 12 + 8 * i + 4, FRAMES_AT - INDEX_AT + (data[1 + 2 * i] | (uint32_t)data[2 + 2 * i] << 8));
    }
    uint8_t *frames = malloc(n - head + 1); /* of its own, so that what lies beyond is watched */
    memcpy(frames, data + head, n - head);
    spp_unwind_object o = {.low = LOW, .high = HIGH};
    spp_unwind_section f = {frames, n - head, FRAMES_AT}, i = {index, 12 + 8 * functions, INDEX_AT};
    bytes_left code = {frames, n - head};
    spp_unwind_gaps gaps = {next_function, &code};
    spp_unwind_read(&o, &rules, functions > 0 ? i : (spp_unwind_section){frames, n - head, INDEX_AT}, f,
                    (bytes[6] & 1) != 0 ? &gaps : NULL);
    check_rows(&o, &rules);
    walk(&o, &rules, bytes);
    spp_unwind_object_free(&o);
    free(frames);
    return 0;
}
