/* Finding the current span of OpenTelemetry in invented memory: each kind of instance, ids of all sizes, and what makes no sense.
 */
#include "../../csrc/core/capture/spans.c"

#include "check.h"

enum { BITMAP = 0x1000, INTEGER = 0x4000, SPAN_CONTEXT = 0x5000, MANAGED = 1 << 4, INLINED = 1 << 2 }; /* types by addresses */
#define CONTEXT 264u
#define HEADER SPP_OBJECT
#define ITEMS 32u
#define FLAGS 8u
#define DICT_OFFSET 16u
#define BASICSIZE 24u
#define KEYS 40u

/* Objects of 64 words; what points to them is their address. An instance has words before it. */
#define OBJECTS 20u
#define WORDS 64u
static uint64_t memory[OBJECTS][WORDS];

enum {
    STATE,
    CURRENT,
    VARIABLES,
    NODE,
    VARIABLE,
    DICT,
    DICT_TABLE,
    KEY,
    SPAN,
    TYPE,
    OWN_DICT,
    TABLE,
    NAME,
    PAIR,
    TRACE,
    ID,
    VALUES
};

static uintptr_t object(unsigned i) { return (uintptr_t)&memory[i][8]; }
static void put(unsigned i, long byte, uint64_t value) { memory[i][8 + byte / 8] = value; }

/* A table of two keys, of which this is the second. */
static void table(unsigned i, uint64_t kind, uintptr_t key, uintptr_t value) {
    if (!SPP_L_KEYS_SHAPE) kind = 0; /* 3.9, 3.10: each entry has its hash */
    put(i, 8, SPP_L_KEYS_SHAPE ? 3u | 3u << 8 | kind << 16 : 8u);
    put(i, SPP_L_KEYS_USED, 2);
    int step = kind == 0 ? 24 : 16, at = (int)SPP_L_KEYS_USED + 16 + (kind == 0 ? 8 : 0);
    put(i, at, object(STATE));
    put(i, at + step, key);
    put(i, at + step + 8, value);
}

static void number(unsigned i, uint64_t digits, const uint32_t *digit) {
    put(i, SPP_L_OB_TYPE, INTEGER);
    put(i, HEADER, digits << 3);
    for (int k = 0; k < 6; k += 2) put(i, (int)HEADER + 8 + 4 * k, digit[k] | (uint64_t)digit[k + 1] << 32);
}

static const uint32_t TRACE_DIGITS[6] = {0x09abcdef, 0x048d159e, 0x3fffffff, 0x2aaaaaaa, 0xff, 77}; /* the last is none of it */
static const uint32_t ID_DIGITS[6] = {0x3fffffff, 0x00000001, 0x8};

/* A span whose attributes are in a dict of its own. */
static void invent(void) {
    memset(memory, 0, sizeof memory);
    spp_span_rule = (spp_span_rules){.context = object(NAME),
                                     .integer = INTEGER,
                                     .items = ITEMS,
                                     .flags = FLAGS,
                                     .dict_offset = DICT_OFFSET,
                                     .basicsize = BASICSIZE,
                                     .keys = KEYS,
                                     .digits_shift = 3};
    spp_contexts.state = CONTEXT;
    spp_contexts.bitmap_type = BITMAP;
    spp_span_variable = object(VARIABLE);
    variable_hash = 7;
    span_key = object(KEY);
    context_type = SPAN_CONTEXT;
    put(STATE, CONTEXT, object(CURRENT));
    put(CURRENT, HEADER + 8, object(VARIABLES));
    put(VARIABLES, HEADER, object(NODE));
    put(NODE, SPP_L_OB_TYPE, BITMAP);
    put(NODE, SPP_L_OB_SIZE + 8, 1u << 7);
    put(NODE, SPP_L_OB_SIZE + 16, object(VARIABLE));
    put(NODE, SPP_L_OB_SIZE + 24, object(DICT));
    put(DICT, SPP_L_DICT_KEYS, object(DICT_TABLE));
    table(DICT_TABLE, 1, object(KEY), object(SPAN));
    put(SPAN, SPP_L_OB_TYPE, object(TYPE));
    put(TYPE, DICT_OFFSET, HEADER + 24);
    put(SPAN, HEADER + 24, object(OWN_DICT));
    put(OWN_DICT, SPP_L_DICT_KEYS, object(TABLE));
    table(TABLE, 0, object(NAME), object(PAIR));
    put(PAIR, SPP_L_OB_TYPE, SPAN_CONTEXT);
    put(PAIR, ITEMS, object(TRACE));
    put(PAIR, ITEMS + 8, object(ID));
    number(TRACE, 5, TRACE_DIGITS);
    number(ID, 3, ID_DIGITS);
}

static void expect(bool found) {
    spp_trace_ids own, other;
    spp_span_own(object(STATE), &own);
    spp_span_other(object(STATE), &other);
    CHECK(memcmp(&own, &other, sizeof own) == 0);
    CHECK_EQUAL(spp_span_is(&own), found);
    if (!found) return;
    CHECK_EQUAL(own.trace_low, (uint64_t)0x3fffffff << 60 | (uint64_t)0x048d159e << 30 | 0x09abcdef);
    CHECK_EQUAL(own.trace_high, (uint64_t)0xff << 56 | (uint64_t)0x2aaaaaaa << 26 | 0x3fffffff >> 4);
    CHECK_EQUAL(own.id, (uint64_t)8 << 60 | (uint64_t)1 << 30 | 0x3fffffff);
}

/* Each way in which instances have their attributes. */
static void kinds(void) {
    invent();
    expect(true);
    put(OWN_DICT, SPP_L_DICT_KEYS + 8, object(VALUES)); /* it shares its keys */
    put(VALUES, 8, object(PAIR));
    expect(true);
    spp_span_rule.values_first = 8;
    expect(false);
    put(VALUES, 16, object(PAIR));
    expect(true);

    invent(); /* values before the object, beside a dict: 3.11 */
    put(TYPE, FLAGS, MANAGED);
    put(TYPE, KEYS, object(TABLE));
    spp_span_rule.managed = MANAGED;
    spp_span_rule.dict_at = -24;
    spp_span_rule.values_at = -32;
    put(SPAN, -32, object(VALUES));
    put(VALUES, 8, object(PAIR));
    expect(true);
    put(SPAN, -32, 0);
    expect(false);
    put(SPAN, -24, object(OWN_DICT));
    expect(true);

    spp_span_rule.values_at = 0; /* or in its place: 3.12 */
    put(SPAN, -24, object(VALUES) - 1);
    expect(true);
    put(SPAN, -24, object(OWN_DICT));
    expect(true);

    put(SPAN, -24, 0); /* behind the object: 3.13 */
    expect(false);
    spp_span_rule.inlined = INLINED;
    put(TYPE, FLAGS, MANAGED | INLINED);
    put(TYPE, BASICSIZE, 32);
    put(SPAN, 32 + 8, object(PAIR));
    expect(true);
    put(SPAN, -24, object(OWN_DICT));
    put(SPAN, 32 + 8, 0);
    expect(true);
}

static void what_is_no_span(void) {
    const struct {
        unsigned object;
        long byte;
        uint64_t value;
    } changes[] = {
        {DICT_TABLE, SPP_L_KEYS_USED, 1},               /* a context without a span */
        {NODE, SPP_L_OB_SIZE + 16, object(KEY)},        /* another variable */
        {PAIR, SPP_L_OB_TYPE, INTEGER},                 /* a span of another kind */
        {TRACE, SPP_L_OB_TYPE, SPAN_CONTEXT},           /* ids that are no ints */
        {TRACE, HEADER, 6 << 3},                        /* too long */
        {ID, HEADER, UINT64_MAX},                       /* negative, before 3.12 */
        {SPAN, SPP_L_OB_TYPE, 8},                       /* not mapped */
        {PAIR, ITEMS, object(TRACE) + 1},               /* odd */
        {TYPE, DICT_OFFSET, UINT64_MAX},                /* a dict's place that makes no sense */
        {OWN_DICT, SPP_L_DICT_KEYS, (uint64_t)1 << 63}, /* not mapped */
        {TABLE, SPP_L_KEYS_USED, UINT64_MAX},           /* nonsense is bounded */
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        invent();
        expect(true);
        put(changes[i].object, changes[i].byte, changes[i].value);
        expect(false);
    }
    invent();
    number(TRACE, 0, (const uint32_t[6]){0}); /* ids of nothing */
    number(ID, 0, (const uint32_t[6]){0});
    expect(false);
}

int main(void) {
    if (spp_os_memory_init() != 0) return 1;
    kinds();
    what_is_no_span();
    return check_done();
}
