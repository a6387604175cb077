#include "core/capture/spans.h"

#include <string.h>

#include "core/capture/contexts.h"

spp_span_rules spp_span_rule;
_Atomic uintptr_t spp_span_variable;

static const char MODULE[] = "opentelemetry.trace";

/* As spp_span_variable: its hash; the key that contexts have their span by; the type of what spans have as `_context`. */
static uint32_t variable_hash;
static uintptr_t span_key, context_type;

/* ---- an object's attribute */

/* The place of a name among keys; -1: it is none of them. */
static int64_t place_of(spp_reader *r, uintptr_t keys, uintptr_t name) {
    spp_dict_entries e;
    if (!spp_read_keys(r, keys, &e) || e.n > 64) return -1;
    for (uint64_t i = 0; i < e.n; i++) {
        uint64_t found;
        if (!spp_read_word(r, &found, e.first + i * e.step + e.key)) return -1;
        if (found == name) return (int64_t)i;
    }
    return -1;
}

static uintptr_t value_at(spp_reader *r, uintptr_t keys, uintptr_t values, uintptr_t name) {
    uint64_t value;
    int64_t place = place_of(r, keys, name);
    return place >= 0 && spp_read_word(r, &value, values + spp_span_rule.values_first + 8u * (uint64_t)place) ? value : 0;
}

/* Of a dict, which may share its keys with those of other instances. */
static uintptr_t value_in_dict(spp_reader *r, uintptr_t dict, uintptr_t name) {
    uint64_t keys, values;
    if (!spp_read_word(r, &keys, dict + SPP_L_DICT_KEYS) || !spp_read_word(r, &values, dict + SPP_L_DICT_KEYS + 8u)) return 0;
    return values != 0 ? value_at(r, keys, values, name) : spp_read_value(r, dict, name);
}

/* Where an instance has the word at this offset. */
static bool word_of(spp_reader *r, uint64_t *to, uintptr_t object, long offset) {
    return spp_read_word(r, to, object + (uintptr_t)offset);
}

static uintptr_t attribute_of(spp_reader *r, uintptr_t object, uintptr_t name) {
    uint64_t type, flags, keys, values = 0, dict = 0, offset;
    if (object == 0 || !spp_read_word(r, &type, object + SPP_L_OB_TYPE) || !spp_read_word(r, &flags, type + spp_span_rule.flags))
        return 0;
    if (!(flags & spp_span_rule.managed)) {
        if (!spp_read_word(r, &offset, type + spp_span_rule.dict_offset) || offset == 0 || offset >> 16 != 0) return 0;
        return spp_read_word(r, &dict, object + offset) && dict != 0 ? value_in_dict(r, dict, name) : 0;
    }
    if (!word_of(r, &dict, object, spp_span_rule.dict_at)) return 0;
    if (spp_span_rule.values_at != 0) {
        if (!word_of(r, &values, object, spp_span_rule.values_at)) return 0;
    } else if (dict & 1) { /* no dict, but values, with a mark */
        values = dict + 1;
    } else if (dict == 0 && flags & spp_span_rule.inlined) {
        if (!spp_read_word(r, &offset, type + spp_span_rule.basicsize)) return 0;
        values = object + offset;
    }
    if (values == 0) return dict != 0 ? value_in_dict(r, dict, name) : 0;
    return spp_read_word(r, &keys, type + spp_span_rule.keys) ? value_at(r, keys, values, name) : 0;
}

uintptr_t spp_span_attribute_other(uintptr_t object, uintptr_t name) {
    spp_reader other = {.own = false};
    return attribute_of(&other, object, name);
}

uintptr_t spp_span_attribute(uintptr_t object, uintptr_t name) {
    spp_reader own = {.own = true}, other = {.own = false};
    uintptr_t value = attribute_of(&own, object, name);
    return value == attribute_of(&other, object, name) ? value : 0;
}

/* ---- ids */

#define DIGIT_BITS 30u
#define DIGITS 5u /* of 128 bits */

static bool number_of(spp_reader *r, uintptr_t object, uint64_t *high, uint64_t *low) {
    uint64_t size, digits = 0;
    *high = *low = 0;
    if (!spp_read_is(r, object, spp_span_rule.integer) || !spp_read_word(r, &size, object + SPP_OBJECT)) return false;
    size >>= spp_span_rule.digits_shift;
    if (size > DIGITS) return false; /* or negative */
    for (uint32_t i = 0, at = 0; i < size; i++, at += DIGIT_BITS, digits >>= 32) {
        if (i % 2 == 0 && !spp_read_word(r, &digits, object + SPP_OBJECT + 8u + 4u * i)) return false;
        uint64_t digit = digits & ((1u << DIGIT_BITS) - 1);
        if (at < 64) *low |= digit << at;
        if (at >= 64)
            *high |= digit << (at - 64);
        else if (at + DIGIT_BITS > 64)
            *high |= digit >> (64 - at);
    }
    return true;
}

static bool ids_of(spp_reader *r, uintptr_t tuple, spp_trace_ids *span) {
    uint64_t trace, id, none;
    spp_trace_ids found;
    if (!spp_read_word(r, &trace, tuple + spp_span_rule.items) || !spp_read_word(r, &id, tuple + spp_span_rule.items + 8u) ||
        !number_of(r, trace, &found.trace_high, &found.trace_low) || !number_of(r, id, &none, &found.id))
        return false;
    *span = found;
    return true;
}

bool spp_span_ids(uintptr_t tuple, spp_trace_ids *span) {
    spp_reader own = {.own = true}, other = {.own = false};
    spp_trace_ids again;
    return ids_of(&own, tuple, span) && ids_of(&other, tuple, &again) && memcmp(span, &again, sizeof again) == 0;
}

static void current(spp_reader *r, uintptr_t tstate, spp_trace_ids *span) {
    *span = (spp_trace_ids){0};
    uintptr_t variable = atomic_load_explicit(&spp_span_variable, memory_order_relaxed);
    uintptr_t dict = spp_context_value(r, tstate, variable, variable_hash);
    if (dict == 0) return;
    /* The context never changes, but other threads may give the span attributes, and so free the table of those that it had. */
    spp_reader of_all_threads = {.own = r->own, .shared = true};
    uintptr_t context = attribute_of(&of_all_threads, spp_read_value(r, dict, span_key), spp_span_rule.context);
    if (spp_read_is(r, context, context_type)) (void)ids_of(r, context, span);
}

void spp_span_own(uintptr_t tstate, spp_trace_ids *span) {
    spp_reader r = {.own = true};
    current(&r, tstate, span);
}

void spp_span_other(uintptr_t tstate, spp_trace_ids *span) {
    spp_reader r = {.own = false};
    current(&r, tstate, span);
}

/* ---- whether OpenTelemetry is imported */

static spp_dict_entries modules_seen; /* at the last look */
static uintptr_t seen;                /* the module `opentelemetry.trace`, if it was there */

/* Whether an object is this text. Names of modules are not interned. */
static bool is_text(spp_reader *r, uintptr_t object, const char *text, uint64_t n) {
    uint64_t length, state, words[(sizeof MODULE + 7) / 8] = {0};
    if (!spp_read_word(r, &length, object + SPP_L_STR_LENGTH) || length != n) return false;
    if (!spp_read_word(r, &state, object + (SPP_L_STR_STATE & ~7))) return false;
    if (!(state >> SPP_L_STR_STATE % 8 * 8 >> SPP_L_STR_ASCII_BIT & 1u)) return false;
    for (uint64_t i = 0; i * 8 < n; i++) {
        if (!spp_read_word(r, &words[i], object + SPP_L_STR_ASCII_DATA + 8u * i)) return false;
    }
    return memcmp(words, text, n) == 0;
}

static void look_among_modules(spp_reader *r) {
    spp_dict_entries now;
    if (!spp_read_entries(r, spp_span_rule.modules, &now)) return;
    uint64_t from = now.first == modules_seen.first ? modules_seen.n : 0; /* it grows at its end until a new table is made */
    for (uint64_t i = from; i < now.n; i++) {
        uint64_t key, value;
        if (!spp_read_word(r, &key, now.first + i * now.step + now.key)) return;
        if (key != 0 && is_text(r, key, MODULE, sizeof MODULE - 1) &&
            spp_read_word(r, &value, now.first + i * now.step + now.key + 8u) && spp_read_is(r, value, spp_span_rule.module))
            seen = value;
    }
    modules_seen = now;
}

static uintptr_t dict_of(spp_reader *r, uintptr_t module) {
    uint64_t dict;
    if (!spp_read_is(r, module, spp_span_rule.module) || !spp_read_word(r, &dict, module + SPP_OBJECT)) return 0;
    return spp_read_is(r, dict, spp_span_rule.dict) ? dict : 0;
}

void spp_span_look(void) {
    spp_reader r = {.own = false};
    if (spp_span_rule.modules == 0 || atomic_load_explicit(&spp_span_variable, memory_order_relaxed) != 0) return;
    look_among_modules(&r);
    uintptr_t dict = dict_of(&r, seen);
    /* If the module is still being filled, the next look finds it filled. */
    uintptr_t key = spp_read_value(&r, dict, spp_span_rule.key), type = spp_read_value(&r, dict, spp_span_rule.type);
    uintptr_t api = dict_of(&r, spp_read_value(&r, dict, spp_span_rule.api));
    uintptr_t variable = attribute_of(&r, spp_read_value(&r, api, spp_span_rule.runtime), spp_span_rule.variable);
    uint64_t hash;
    if (key == 0 || !spp_read_is(&r, variable, spp_span_rule.context_var)) return;
    if (type == 0 || !spp_read_word(&r, &hash, variable + spp_span_rule.hash)) return;
    span_key = key;
    context_type = type;
    variable_hash = spp_context_fold(hash);
    atomic_store_explicit(&spp_span_variable, variable, memory_order_release);
}

void spp_span_forget(void) {
    atomic_store(&spp_span_variable, 0);
    spp_span_rule = (spp_span_rules){0};
    modules_seen = (spp_dict_entries){0};
    seen = 0;
}
