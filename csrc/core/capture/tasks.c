#include "core/capture/tasks.h"

#include "core/capture/reader.h"

spp_task_rules spp_task_rule;
_Atomic uintptr_t spp_task_type;
_Atomic bool spp_task_unknown;

uintptr_t spp_task_found(uintptr_t dict, uintptr_t key, bool from_outside) {
    spp_reader r = {.own = !from_outside};
    return spp_read_value(&r, dict, key);
}

/* ---- the task that runs */

static uintptr_t current_dict; /* as spp_task_type, before 3.14 */
static uintptr_t future_type;  /* as spp_task_type */

/* The loop that runs in a thread. */
static uintptr_t loop_of(spp_reader *r, uintptr_t tstate) {
    uint64_t dict, loop;
    const long at = spp_task_rule.tstate_loop;
    if (at >= 0) return spp_read_word(r, &loop, tstate + (uintptr_t)at) ? loop : 0;
    if (!spp_read_word(r, &dict, tstate + spp_task_rule.tstate_dict)) return 0;
    uintptr_t held = spp_read_value(r, dict, spp_task_rule.loop);
    if (SPP_L_LOOP_HOLDER < 0 || held == 0) return held;
    return spp_read_word(r, &loop, held + (uintptr_t)SPP_L_LOOP_HOLDER) ? loop : 0;
}

/* *task: the one that runs, or 0. False: nobody knows. */
static bool running(spp_reader *r, uintptr_t tstate, uintptr_t *task) {
    uint64_t word;
    const long at = spp_task_rule.tstate_task;
    *task = 0;
    if (at >= 0) {
        if (spp_read_word(r, &word, tstate + (uintptr_t)at)) *task = word;
        return true;
    }
    if (!spp_read_word(r, &word, current_dict + SPP_OBJECT) || word == 0) return true;
    uintptr_t loop = loop_of(r, tstate);
    spp_reader all_threads = {.own = r->own, .shared = true}; /* the dict is that of all loops */
    return loop == 0 || spp_read_value_filled(&all_threads, current_dict, loop, task);
}

#define BASES 8u /* of subclasses of Task */

static bool is_of(spp_reader *r, uintptr_t object, uintptr_t wanted) {
    uint64_t type;
    if (!spp_read_word(r, &type, object + SPP_L_OB_TYPE)) return false;
    for (unsigned i = 0; type != wanted; i++) {
        if (type == 0 || i == BASES || !spp_read_word(r, &type, type + spp_task_rule.base)) return false;
    }
    return true;
}

static bool is_task(spp_reader *r, uintptr_t object) {
    return is_of(r, object, atomic_load_explicit(&spp_task_type, memory_order_relaxed));
}

/* Copies characters. The last word is read whole: an object's memory is of whole words. */
static void copy_name(spp_reader *r, uintptr_t name, spp_task *task) {
    uint64_t length, state;
    if (!spp_read_word(r, &length, name + SPP_L_STR_LENGTH) || !spp_read_word(r, &state, name + (SPP_L_STR_STATE & ~7))) return;
    state >>= SPP_L_STR_STATE % 8 * 8;
    uint32_t kind = state >> SPP_L_STR_KIND_SHIFT & SPP_L_STR_KIND_MASK;
    bool compact = state >> SPP_L_STR_COMPACT_BIT & 1u, ascii = state >> SPP_L_STR_ASCII_BIT & 1u;
    if (!compact || (kind != 1 && kind != 2 && kind != 4)) return;
    uint32_t most = (uint32_t)sizeof task->text, bytes = length > most / kind ? most : (uint32_t)length * kind;
    uintptr_t data = name + (ascii ? SPP_L_STR_ASCII_DATA : SPP_L_STR_DATA);
    for (uint32_t i = 0; i * 8 < bytes; i++) {
        if (!spp_read_word(r, &task->text[i], data + 8u * i)) return;
    }
    task->kind = kind;
    task->bytes = bytes;
}

/* An int of up to 60 bits. */
static void copy_number(spp_reader *r, uintptr_t number, spp_task *task) {
    uint64_t tag, digits;
    if (!spp_read_word(r, &tag, number + SPP_OBJECT) || !spp_read_word(r, &digits, number + SPP_OBJECT + 8u) || tag >> 3 > 2)
        return;
    task->text[0] = (digits & 0x3FFFFFFF) | (tag >> 3 == 2 ? digits >> 32 << 30 : 0);
    task->kind = SPP_TASK_NUMBERED;
    task->bytes = sizeof task->text[0];
}

static void name_of(spp_reader *r, uintptr_t object, spp_task *task) {
    uint64_t name;
    task->bytes = 0;
    task->kind = 1;
    if (!spp_read_word(r, &name, object + SPP_L_TASK_NAME)) return;
    if (spp_read_is(r, name, spp_task_rule.str))
        copy_name(r, name, task);
    else if (spp_task_rule.integer != 0 && spp_read_is(r, name, spp_task_rule.integer))
        copy_number(r, name, task);
}

static bool name_running(spp_reader *r, uintptr_t tstate, spp_task *task) {
    uintptr_t object = 0;
    task->bytes = 0;
    bool known = tstate == 0 || running(r, tstate, &object);
    if (object != 0 && is_task(r, object)) name_of(r, object, task);
    return known;
}

bool spp_task_own(uintptr_t tstate, spp_task *task) {
    spp_reader r = {.own = true};
    return name_running(&r, tstate, task);
}

bool spp_task_other(uintptr_t tstate, spp_task *task) {
    spp_reader r = {.own = false};
    return name_running(&r, tstate, task);
}

/* ---- other tasks */

bool spp_task_is(uintptr_t object) {
    spp_reader r = {.own = false};
    return object != 0 && is_task(&r, object);
}

bool spp_task_is_future(uintptr_t object) {
    spp_reader r = {.own = false};
    return object != 0 && (is_of(&r, object, future_type) || is_task(&r, object));
}

void spp_task_name_of(uintptr_t task, spp_task *name) {
    spp_reader r = {.own = false};
    name_of(&r, task, name);
}

void spp_task_text(uintptr_t text, spp_task *to) {
    spp_reader r = {.own = false};
    to->bytes = 0;
    to->kind = 1;
    if (spp_read_is(&r, text, spp_task_rule.str)) copy_name(&r, text, to);
}

uintptr_t spp_task_loop(uintptr_t tstate) {
    spp_reader r = {.own = false};
    return tstate != 0 ? loop_of(&r, tstate) : 0;
}

uintptr_t spp_task_running(uintptr_t tstate) {
    spp_reader r = {.own = false};
    uintptr_t task = 0;
    return tstate != 0 && running(&r, tstate, &task) ? task : 0;
}

/* ---- whether asyncio is imported */

static spp_dict_entries modules_seen; /* at the last look that found no asyncio */

/* The dict of the module `_asyncio`. */
static uintptr_t asyncio_dict(spp_reader *r) {
    uint64_t dict;
    uintptr_t module = spp_read_value(r, spp_task_rule.modules, spp_task_rule.asyncio);
    if (!spp_read_is(r, module, spp_task_rule.module) || !spp_read_word(r, &dict, module + SPP_OBJECT)) return 0;
    return spp_read_is(r, dict, spp_task_rule.dict) ? dict : 0;
}

void spp_task_look(void) {
    spp_reader r = {.own = false};
    spp_dict_entries now;
    if (spp_task_rule.modules == 0 || atomic_load_explicit(&spp_task_type, memory_order_relaxed) != 0) return;
    if (!spp_read_entries(&r, spp_task_rule.modules, &now)) return;
    if (now.first == modules_seen.first && now.n == modules_seen.n) return;
    uintptr_t dict = asyncio_dict(&r);
    if (dict == 0) {
        modules_seen = now;
        return;
    }
    /* If the module is still being filled, the next look finds it filled. */
    uint64_t size;
    uintptr_t task = spp_read_value(&r, dict, spp_task_rule.task), current = spp_read_value(&r, dict, spp_task_rule.current);
    uintptr_t future = spp_read_value(&r, dict, spp_task_rule.future);
    if (!spp_read_is(&r, task, spp_task_rule.type) || !spp_read_is(&r, future, spp_task_rule.type) ||
        !spp_read_word(&r, &size, task + spp_task_rule.basicsize))
        return;
    if (spp_task_rule.tstate_task < 0 && !spp_read_is(&r, current, spp_task_rule.dict)) return;
    if (size != SPP_L_TASK_SIZE) {
        spp_task_refuse();
        return;
    }
    current_dict = current;
    future_type = future;
    atomic_store_explicit(&spp_task_type, task, memory_order_release);
    if (spp_task_rule.check != NULL) spp_task_rule.check();
}

void spp_task_refuse(void) {
    atomic_store(&spp_task_unknown, true);
    atomic_store(&spp_task_type, 0);
    spp_task_rule.modules = 0;
}

void spp_task_forget(void) {
    atomic_store(&spp_task_type, 0);
    atomic_store(&spp_task_unknown, false);
    spp_task_rule = (spp_task_rules){0};
    modules_seen = (spp_dict_entries){0};
}
