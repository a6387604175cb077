#include "core/capture/coroutines.h"

#include <string.h>

#include "core/capture/frames.h"
#include "core/capture/reader.h"
#include "core/capture/spans.h"
#include "os/memory.h"
#include "py/layout.h"

spp_coroutine_rules spp_coroutine_rule;
_Atomic uintptr_t spp_coroutine_all;

/* ---- what is read, and read again */

#define READS 4096u
#define WORDS 4096u
#define AT_ONCE 64u /* words */

typedef struct {
    uint32_t n, used;
    struct {
        uintptr_t at;
        uint32_t words, from;
    } reads[READS];
    uint64_t words[WORDS];
} reading;

static reading seen; /* too large for a thread's stack */

/* So many words; NULL: they cannot be read. */
static const uint64_t *see(uintptr_t at, uint32_t words) {
    if (at == 0 || (at & 7) || seen.n == READS || seen.used + words > WORDS) return NULL;
    uint64_t *to = &seen.words[seen.used];
    if (spp_os_read(to, at, words * sizeof *to) != 0) return NULL;
    seen.reads[seen.n].at = at;
    seen.reads[seen.n].words = words;
    seen.reads[seen.n++].from = seen.used;
    seen.used += words;
    return to;
}

#define LATE 6u /* of the latest reads, which may have the word already */

static bool get(uint64_t *to, uintptr_t at) {
    for (uint32_t i = seen.n; i-- > 0 && seen.n - i <= LATE;) {
        uintptr_t away = at - seen.reads[i].at;
        if (away >= seen.reads[i].words * sizeof *to || (away & 7)) continue;
        *to = seen.words[seen.reads[i].from + away / 8];
        return true;
    }
    const uint64_t *word = see(at, 1);
    if (word != NULL) *to = *word;
    return word != NULL;
}

/* Reads the words of an object from its type on, before they are asked for one by one: a read takes 0.25 us. */
static void see_object(uintptr_t object, uintptr_t end) {
    (void)see(object + SPP_L_OB_TYPE, (uint32_t)(end - SPP_L_OB_TYPE) / 8u);
}

static bool get_half(int32_t *to, uintptr_t at) {
    uint64_t word;
    if (!get(&word, at & ~(uintptr_t)7)) return false;
    *to = (int32_t)(uint32_t)(word >> at % 8 * 8);
    return true;
}

static bool is_unchanged(void) {
    uint64_t again[AT_ONCE];
    for (uint32_t i = 0; i < seen.n; i++) {
        size_t bytes = seen.reads[i].words * sizeof *again;
        if (spp_os_read(again, seen.reads[i].at, bytes) != 0) return false;
        if (memcmp(again, &seen.words[seen.reads[i].from], bytes) != 0) return false;
    }
    return true;
}

static uintptr_t type_of(uintptr_t object) {
    uint64_t type;
    return object != 0 && get(&type, object + SPP_L_OB_TYPE) ? type : 0;
}

/* ---- coroutines */

static bool is_generator(uintptr_t type) {
    return type != 0 && (type == spp_py.coro_type || type == spp_py.gen_type || type == spp_py.async_gen_type);
}

/* The frame that belongs to a generator; 0: there is none any more. */
static uintptr_t frame_of(uintptr_t generator) {
    uint64_t frame;
    if (spp_coroutine_rule.frame < 0) return generator + (uintptr_t)SPP_L_GEN_IFRAME;
    return get(&frame, generator + (uintptr_t)spp_coroutine_rule.frame) ? frame : 0;
}

/* Byte offset of the instruction that a frame is at; false: there is no such instruction. *place: where that is, if it is in the
 * code object. */
static bool instruction_of(uintptr_t frame, uintptr_t code, uint32_t *offset, uintptr_t *place) {
    uint64_t at, start = code + (uintptr_t)SPP_L_CODE_BYTECODE, units;
    if (SPP_L_CHAIN == 1) {
        int32_t last;
        if (!get_half(&last, frame + SPP_L_FRAME_INSTR)) return false;
        *offset = last < 0 ? SPP_OFFSET_NONE : (uint32_t)last * (uint32_t)SPP_L_INSTR_SCALE;
        return true;
    }
    if (!get(&at, frame + SPP_L_FRAME_INSTR) || !get(&units, code + SPP_L_OB_SIZE)) return false;
    if (SPP_L_FRAME_TLBC >= 0) {
        int32_t index;
        uint64_t copies;
        if (!get_half(&index, frame + (uintptr_t)SPP_L_FRAME_TLBC) || !get(&copies, code + (uintptr_t)SPP_L_CODE_TLBC))
            return false;
        if (index > 0 && copies != 0 && !get(&start, copies + (uintptr_t)SPP_L_TLBC_ENTRIES + 8u * (uint32_t)index)) return false;
    }
    *place = at;
    *offset = (int64_t)(at - start) == -2 ? SPP_OFFSET_NONE : (uint32_t)(at - start);
    return *offset == SPP_OFFSET_NONE || at - start < units * 2;
}

#define YIELD_FROM 72u /* 3.9, 3.10 */
#define RESUMED_AFTER_YIELD 1u

/* Whether a suspended generator awaits what is newest on its stack. */
static bool awaits(uintptr_t generator, uintptr_t code, uint32_t offset, uintptr_t place) {
    uint64_t word;
    uintptr_t at = generator + (uintptr_t)SPP_L_GEN_STATE;
    if (spp_coroutine_rule.by_state) {
        if (!get(&word, at & ~(uintptr_t)7)) return false;
        int state = (int8_t)(word >> at % 8 * 8);
        return state == spp_coroutine_rule.awaits || state == spp_coroutine_rule.awaits_too;
    }
    if (offset == SPP_OFFSET_NONE) return false;
    if (SPP_L_CODE_CODEOBJ >= 0) {
        if (!get(&word, code + (uintptr_t)SPP_L_CODE_CODEOBJ)) return false;
        at = word + SPP_L_BYTES_DATA + offset + 2;
        return get(&word, at & ~(uintptr_t)7) && (word >> at % 8 * 8 & 0xFF) == YIELD_FROM;
    }
    at = place + 3; /* the argument of the RESUME behind the instruction */
    return get(&word, at & ~(uintptr_t)7) && (word >> at % 8 * 8 & 3) > RESUMED_AFTER_YIELD;
}

/* What is newest on a suspended frame's stack; 0: nothing, or the frame runs. */
static uintptr_t newest_of(uintptr_t frame) {
    uint64_t top, object;
    int32_t depth;
    if (spp_coroutine_rule.top >= 0) {
        if (!get(&top, frame + (uintptr_t)spp_coroutine_rule.top)) return 0;
    } else {
        if (!get_half(&depth, frame + (uintptr_t)spp_coroutine_rule.depth) || depth <= 0) return 0;
        top = frame + SPP_L_FRAME_SIZE;
        if (spp_coroutine_rule.base >= 0 && !get(&top, frame + (uintptr_t)spp_coroutine_rule.base)) return 0;
        top += 8u * (uint32_t)depth;
    }
    return top != 0 && get(&object, top - 8u * (1u + (uint32_t)spp_coroutine_rule.above))
               ? object & (uintptr_t)SPP_L_FRAME_CODE_MASK
               : 0;
}

/* The generator that an awaited object is, or that it wraps, as what `__await__` and `asend` return do: it is the first of its
 * fields. 0: it is another thing. */
static uintptr_t generator_in(uintptr_t object) {
    uint64_t within;
    if (object == 0 || is_generator(type_of(object))) return object;
    return get(&within, object + SPP_OBJECT) && is_generator(type_of(within)) ? within : 0;
}

static bool is_running(uintptr_t generator, uintptr_t frame) {
    uint64_t word;
    uintptr_t at = generator + (uintptr_t)SPP_L_GEN_STATE;
    if (SPP_L_GEN_STATE >= 0) return !get(&word, at & ~(uintptr_t)7) || (int8_t)(word >> at % 8 * 8) == SPP_L_GEN_EXECUTING;
    int32_t depth;
    if (spp_coroutine_rule.depth >= 0) return !get_half(&depth, frame + (uintptr_t)spp_coroutine_rule.depth) || depth < 0;
    return !get(&word, frame + (uintptr_t)spp_coroutine_rule.top) || word == 0;
}

/* The latest generators of a chain. An awaited object may have the coroutine around it as its first field: the chain would have
 * no end. */
typedef struct {
    uintptr_t at[SPP_CHAIN_MOST];
    uint32_t n;
} latest_generators;

static bool is_among(const latest_generators *latest, uintptr_t generator) {
    for (uint32_t i = 0; i < latest->n && i < SPP_CHAIN_MOST; i++) {
        if (latest->at[i] == generator) return true;
    }
    return false;
}

/* The chain from a task's own coroutine; one that is of no generator has no frames that are known. */
static spp_task_state chain_of(uintptr_t coroutine, spp_waiting_task *to) {
    latest_generators latest = {.n = 0};
    to->depth = 0;
    to->cut = false;
    for (uintptr_t of = generator_in(coroutine); of != 0 && !is_among(&latest, of);) {
        latest.at[latest.n++ % SPP_CHAIN_MOST] = of;
        if (SPP_L_GEN_IFRAME >= 0) see_object(of, (uintptr_t)SPP_L_GEN_IFRAME + SPP_L_FRAME_SIZE);
        uintptr_t frame = frame_of(of), place = 0;
        uint64_t code;
        uint32_t offset;
        if (frame == 0) return SPP_TASK_WAITS; /* it has ended */
        if (is_running(of, frame)) return SPP_TASK_RUNS;
        if (!get(&code, frame + SPP_L_FRAME_CODE)) return SPP_TASK_CHANGED;
        code &= (uintptr_t)SPP_L_FRAME_CODE_MASK;
        see_object(code, SPP_L_OB_SIZE + 8u);
        if (type_of(code) != spp_py.code_type) return to->depth > 0 ? SPP_TASK_WAITS : SPP_TASK_CHANGED;
        if (!instruction_of(frame, code, &offset, &place)) return SPP_TASK_CHANGED;
        if (to->depth == SPP_CHAIN_MOST) {
            to->cut = true;
            memmove(to->frames, to->frames + 1, --to->depth * sizeof *to->frames);
        }
        to->frames[to->depth++] = spp_frame_make(code, offset / 2 < SPP_NATIVE_BITS ? offset / 2 : SPP_NO_OFFSET);
        if (!awaits(of, code, offset, place)) return SPP_TASK_WAITS;
        of = generator_in(newest_of(frame));
    }
    return SPP_TASK_WAITS;
}

/* ---- what a task waits for, and which tasks await it */

#define CALLBACK0 (SPP_OBJECT + 8u) /* of a future, behind its loop; its context follows, and the list of the others */
#define CALLBACKS (SPP_OBJECT + 24u)
#define WAITER (SPP_L_TASK_NAME - 16u) /* of a task: the future that it waits for, its coroutine, its name */
#define CORO (SPP_L_TASK_NAME - 8u)

/* Whether a future is that of a job that another thread does: `_chain_future` in asyncio's futures.py. */
static bool is_job(uintptr_t future) {
    static const char chain[] = "_call_check_cancel";
    uint64_t callback, code, name;
    spp_task text;
    if (!get(&callback, future + CALLBACK0) || type_of(callback) != spp_coroutine_rule.function) return false;
    if (!get(&code, callback + spp_coroutine_rule.function_code) || type_of(code) != spp_py.code_type) return false;
    if (!get(&name, code + SPP_L_CODE_NAME)) return false;
    spp_task_text(name, &text);
    return text.kind == 1 && text.bytes == sizeof chain - 1 && memcmp(text.text, chain, sizeof chain - 1) == 0;
}

static spp_task_state waits_for(uintptr_t future, spp_waiting_task *to) {
    int32_t state;
    to->on.bytes = 0;
    to->reason = SPP_REASON_loop; /* its next step is scheduled, or its future is done */
    if (future == 0 || future == spp_py.none) return SPP_TASK_WAITS;
    to->reason = SPP_REASON_future;
    if (!spp_task_is_future(future)) return SPP_TASK_WAITS; /* one written in Python */
    if (!get_half(&state, future + SPP_L_FUTURE_STATE)) return SPP_TASK_CHANGED;
    if (state != 0) {
        to->reason = SPP_REASON_loop;
    } else if (spp_task_is(future)) {
        to->reason = SPP_REASON_task;
        spp_task_name_of(future, &to->on);
    } else if (is_job(future)) {
        to->reason = SPP_REASON_job;
    }
    return SPP_TASK_WAITS;
}

/* The futures and tasks that await something, from there on: tasks get in the list, futures (as that of `gather`) have awaiters
 * of their own. */
#define FUTURES_MOST 16u

typedef struct {
    uintptr_t at[FUTURES_MOST];
    uint32_t n;
} futures;

static void add_awaiter(uintptr_t object, spp_waiting_task *to, futures *open) {
    if (spp_task_is(object)) {
        if (to->awaiters < SPP_AWAITERS_MOST) spp_task_name_of(object, &to->awaited_by[to->awaiters++]);
    } else if (spp_task_is_future(object)) {
        for (uint32_t i = 0; i < open->n; i++) {
            if (open->at[i] == object) return;
        }
        if (open->n < FUTURES_MOST) open->at[open->n++] = object;
    }
}

/* 3.14+: a future names what awaits it: one, or a set. */
#define SET_LOOKED_AT 128u /* entries of the table */

static bool named_awaiters(uintptr_t future, spp_waiting_task *to, futures *open) {
    uint64_t by, mask, table;
    if (!get(&by, future + (uintptr_t)SPP_L_FUTURE_AWAITED_BY)) return false;
    if (by == 0) return true;
    if (type_of(by) != spp_coroutine_rule.set) {
        add_awaiter(by, to, open);
        return true;
    }
    if (!get(&mask, by + spp_coroutine_rule.set_mask) || !get(&table, by + spp_coroutine_rule.set_table)) return false;
    for (uint32_t i = 0; i <= mask && i < SET_LOOKED_AT && to->awaiters < SPP_AWAITERS_MOST; i++) {
        const uint64_t *entry = see(table + 16u * i, 2); /* and its hash; -1: one that was deleted */
        if (entry == NULL) return false;
        if (entry[0] != 0 && entry[1] != UINT64_MAX) add_awaiter(entry[0], to, open);
    }
    return true;
}

/* Before: what a future wakes up by its callbacks. */
#define KEPT_LOOKED_AT 8u

/* The futures in a tuple, or in the cells there: `gather`, `wait` and `shield` end one from a function whose closure has it,
 * `wait_for` by a partial function. A task that is kept so is one that is cancelled, and awaits nothing. */
static bool kept_in(uintptr_t tuple, bool cells, spp_waiting_task *to, futures *open) {
    uint64_t n, object;
    if (tuple == 0 || type_of(tuple) != spp_coroutine_rule.tuple) return true;
    if (!get(&n, tuple + SPP_L_OB_SIZE)) return false;
    for (uint32_t i = 0; i < n && i < KEPT_LOOKED_AT; i++) {
        if (!get(&object, tuple + SPP_L_OB_SIZE + 8u + 8u * i)) return false;
        if (cells && !get(&object, object + spp_coroutine_rule.cell_content)) return false;
        if (object != 0 && !spp_task_is(object)) add_awaiter(object, to, open);
    }
    return true;
}

static bool woken(uintptr_t callback, spp_waiting_task *to, futures *open) {
    uint64_t word;
    if (callback == 0) return true;
    const uintptr_t type = type_of(callback);
    if (type == spp_coroutine_rule.function)
        return get(&word, callback + spp_coroutine_rule.function_closure) && kept_in(word, true, to, open);
    if (type == spp_coroutine_rule.method) { /* of a task group, which has the task whose `async with` it is */
        if (!get(&word, callback + spp_coroutine_rule.method_self)) return false;
        uintptr_t parent = spp_span_attribute_other(word, spp_coroutine_rule.parent);
        if (spp_task_is(parent)) add_awaiter(parent, to, open);
        return true;
    }
    /* A task's own method; 3.9: an object that has the task first. */
    if (!get(&word, callback + (type == spp_coroutine_rule.builtin ? spp_coroutine_rule.builtin_self : SPP_OBJECT))) return false;
    if (!spp_task_is(word)) return get(&word, callback + SPP_OBJECT + 8u) && kept_in(word, false, to, open);
    add_awaiter(word, to, open);
    return true;
}

#define CALLBACKS_LOOKED_AT 32u

static bool callbacks_awaiters(uintptr_t future, spp_waiting_task *to, futures *open) {
    uint64_t callback, list, items, n, pair;
    if (!get(&callback, future + CALLBACK0) || !woken(callback, to, open)) return false;
    if (!get(&list, future + CALLBACKS)) return false;
    if (list == 0 || type_of(list) != spp_coroutine_rule.list) return true;
    if (!get(&n, list + SPP_L_OB_SIZE) || !get(&items, list + spp_coroutine_rule.list_items)) return false;
    for (uint32_t i = 0; i < n && i < CALLBACKS_LOOKED_AT; i++) {
        if (!get(&pair, items + 8u * i) || type_of(pair) != spp_coroutine_rule.tuple) return false;
        if (!get(&callback, pair + SPP_L_OB_SIZE + 8u) || !woken(callback, to, open)) return false;
    }
    return true;
}

static bool awaiters_of(uintptr_t task, spp_waiting_task *to) {
    futures open = {.at = {task}, .n = 1};
    to->awaiters = 0;
    for (uint32_t i = 0; i < open.n; i++) {
        bool read =
            SPP_L_FUTURE_AWAITED_BY >= 0 ? named_awaiters(open.at[i], to, &open) : callbacks_awaiters(open.at[i], to, &open);
        if (!read) return false;
    }
    return true;
}

/* ---- a task */

static spp_task_state read_task(uintptr_t task, uintptr_t from, uintptr_t tstate, spp_waiting_task *to) {
    uint64_t word, coroutine, future, name, node[2];
    int32_t done;
    if (from != 0 && (!get(&word, from + spp_coroutine_rule.weakref_object) || word != task)) return SPP_TASK_GONE;
    if (!spp_task_is(task)) return SPP_TASK_GONE;
    if (SPP_L_FUTURE_AWAITED_BY >= 0) { /* it is one of a list, which a task that dies leaves first */
        if (spp_os_read(node, task + spp_coroutine_rule.task_node, sizeof node) != 0 || node[0] == 0) return SPP_TASK_GONE;
    }
    see_object(task, SPP_L_TASK_NAME + 8u);
    if (!get(&name, task + SPP_L_TASK_NAME) || !get(&future, task + WAITER) || !get(&coroutine, task + CORO) ||
        !get_half(&done, task + SPP_L_FUTURE_STATE))
        return SPP_TASK_CHANGED;
    if (done != 0) return SPP_TASK_GONE; /* sets have such ones until they die */
    spp_task_name_of(task, &to->name);
    spp_task_state state = chain_of(coroutine, to);
    if (state == SPP_TASK_WAITS) state = waits_for(future, to);
    if (state == SPP_TASK_WAITS && to->reason == SPP_REASON_loop && spp_task_running(tstate) == task) state = SPP_TASK_RUNS;
    if (state == SPP_TASK_WAITS && !awaiters_of(task, to)) state = SPP_TASK_CHANGED;
    return state;
}

uintptr_t spp_coroutines_loop(uintptr_t task) {
    uint64_t loop;
    return spp_task_is(task) && spp_os_read(&loop, task + SPP_OBJECT, sizeof loop) == 0 ? loop : 0;
}

#define TRIES 8 /* of a loop with 50,000 steps a second each second one comes to something */

spp_task_state spp_coroutines_read(uintptr_t task, uintptr_t from, uintptr_t tstate, spp_waiting_task *to) {
    const uintptr_t version = tstate + spp_task_rule.tstate_version;
    uint64_t before, after;
    for (int i = 0; i < TRIES; i++) {
        seen.n = seen.used = 0;
        if (spp_os_read(&before, version, sizeof before) != 0) return SPP_TASK_GONE;
        spp_task_state state = read_task(task, from, tstate, to);
        if (state == SPP_TASK_GONE) return state;
        bool same = state != SPP_TASK_CHANGED && is_unchanged();
        if (same && spp_os_read(&after, version, sizeof after) == 0 && after == before) return state;
    }
    return SPP_TASK_CHANGED;
}
