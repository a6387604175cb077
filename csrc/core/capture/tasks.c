#include "core/capture/tasks.h"

#include "base/peek.h"
#include "os/memory.h"
#include "py/layout.h"

spp_task_rules spp_task_rule;
_Atomic uintptr_t spp_task_type;

#define OBJECT (SPP_L_OB_TYPE + 8u)
#define PAGE_SHIFT 12
#define PAGES 8u

/* ---- reading */

/* `own`: the memory belongs to the interrupted thread and is complete, except for stores that a compiler may have delayed. What
 * is another thread's may be freed meanwhile: then what was read makes no sense, and a check of types finds that out. */
typedef struct {
    bool own;
    bool shared;            /* other threads may free it meanwhile: each word is asked for just before it is read */
    uint32_t next;          /* of these, which is replaced next */
    uintptr_t pages[PAGES]; /* found readable: to ask costs 0.1 us and more */
} reader;

static bool readable(reader *r, uintptr_t from) {
    for (uint32_t i = 0; i < PAGES; i++) {
        if (r->pages[i] == from >> PAGE_SHIFT) return true;
    }
    if (!spp_os_readable(from)) return false;
    if (r->shared) return true;
    r->pages[r->next++ % PAGES] = from >> PAGE_SHIFT;
    return true;
}

static bool get(reader *r, uint64_t *to, uintptr_t from) {
    if (!r->own) return spp_os_read(to, from, sizeof *to) == 0;
    if ((from & 7) || from >> PAGE_SHIFT == 0 || !readable(r, from)) return false;
    *to = spp_peek64(from);
    return true;
}

static bool is_a(reader *r, uintptr_t object, uintptr_t type) {
    uint64_t found;
    return object != 0 && get(r, &found, object + SPP_L_OB_TYPE) && found == type;
}

/* ---- a dict's values. Keys are compared by identity and entries read in turn, the latest first: the dicts of loops are small,
 * and entries are used up one after the other until a new table is made. */

#define ENTRIES_OWN 64u
#define ENTRIES_OTHER 100000u

typedef struct {
    uintptr_t first, step, key; /* the first entry, the distance to the next, where in it the key is; the value follows */
    uint64_t n;
} entries;

static bool entries_of(reader *r, uintptr_t dict, entries *e) {
    uint64_t keys, values, shape;
    if (!get(r, &keys, dict + SPP_L_DICT_KEYS) || !get(r, &values, dict + SPP_L_DICT_KEYS + 8u) || values != 0) return false;
    if (!get(r, &shape, keys + 8u) || !get(r, &e->n, keys + SPP_L_KEYS_USED)) return false;
    uint64_t indices;
    if (SPP_L_KEYS_SHAPE) { /* a byte each: log2 of the slots, log2 of the bytes of all indices, the kind of keys */
        uint64_t kind = shape >> 16 & 0xFF;
        if ((shape >> 8 & 0xFF) > 40 || kind > 1) return false;
        indices = (uint64_t)1 << (shape >> 8 & 0xFF);
        e->key = kind == 0 ? 8 : 0; /* behind its hash */
    } else {                        /* how many slots */
        if (shape > UINT32_MAX) return false;
        indices = shape * (shape <= 0xFF ? 1u : shape <= 0xFFFF ? 2u : 4u);
        e->key = 8;
    }
    e->first = keys + SPP_L_KEYS_USED + 8u + indices;
    e->step = e->key + 16;
    return true;
}

static uintptr_t value_among(reader *r, const entries *e, uintptr_t key) {
    uint64_t most = r->own ? ENTRIES_OWN : ENTRIES_OTHER;
    for (uint64_t i = e->n; i-- > 0 && e->n - i <= most;) {
        uint64_t found, value;
        if (!get(r, &found, e->first + i * e->step + e->key)) return 0;
        if (found == key) return get(r, &value, e->first + i * e->step + e->key + 8u) ? value : 0;
    }
    return 0;
}

/* Another thread may replace the table meanwhile: then the old one may lack the key. */
#define TRIES 4

static uintptr_t value_of(reader *r, uintptr_t dict, uintptr_t key) {
    entries e, after;
    if (dict == 0 || key == 0 || !entries_of(r, dict, &e)) return 0;
    for (int try = 0; try < TRIES; try++, e = after) {
        uintptr_t value = value_among(r, &e, key);
        if (value != 0) return value;
        if (!entries_of(r, dict, &after) || (e.first == after.first && e.n == after.n)) return 0;
    }
    return 0;
}

uintptr_t spp_task_found(uintptr_t dict, uintptr_t key, bool from_outside) {
    reader r = {.own = !from_outside};
    return value_of(&r, dict, key);
}

/* ---- the task that runs */

static uintptr_t current_dict; /* as spp_task_type, before 3.14 */

/* The loop that runs in a thread. */
static uintptr_t loop_of(reader *r, uintptr_t tstate) {
    uint64_t dict, loop;
    const long at = spp_task_rule.tstate_loop;
    if (at >= 0) return get(r, &loop, tstate + (uintptr_t)at) ? loop : 0;
    if (!get(r, &dict, tstate + spp_task_rule.tstate_dict)) return 0;
    uintptr_t held = value_of(r, dict, spp_task_rule.loop);
    if (SPP_L_LOOP_HOLDER < 0 || held == 0) return held;
    return get(r, &loop, held + (uintptr_t)SPP_L_LOOP_HOLDER) ? loop : 0;
}

static uintptr_t running(reader *r, uintptr_t tstate) {
    uint64_t task, used;
    const long at = spp_task_rule.tstate_task;
    if (at >= 0) return get(r, &task, tstate + (uintptr_t)at) ? task : 0;
    if (!get(r, &used, current_dict + OBJECT) || used == 0) return 0;
    reader all_threads = {.own = r->own, .shared = true}; /* the dict is that of all loops */
    return value_of(&all_threads, current_dict, loop_of(r, tstate));
}

#define BASES 8u /* of subclasses of Task */

static bool is_task(reader *r, uintptr_t object) {
    const uintptr_t wanted = atomic_load_explicit(&spp_task_type, memory_order_relaxed);
    uint64_t type;
    if (!get(r, &type, object + SPP_L_OB_TYPE)) return false;
    for (unsigned i = 0; type != wanted; i++) {
        if (type == 0 || i == BASES || !get(r, &type, type + spp_task_rule.base)) return false;
    }
    return true;
}

/* Copies characters. The last word is read whole: an object's memory is of whole words. */
static void copy_name(reader *r, uintptr_t name, spp_task *task) {
    uint64_t length, state;
    if (!get(r, &length, name + SPP_L_STR_LENGTH) || !get(r, &state, name + (SPP_L_STR_STATE & ~7))) return;
    state >>= SPP_L_STR_STATE % 8 * 8;
    uint32_t kind = state >> SPP_L_STR_KIND_SHIFT & SPP_L_STR_KIND_MASK;
    bool compact = state >> SPP_L_STR_COMPACT_BIT & 1u, ascii = state >> SPP_L_STR_ASCII_BIT & 1u;
    if (!compact || (kind != 1 && kind != 2 && kind != 4)) return;
    uint32_t most = (uint32_t)sizeof task->text, bytes = length > most / kind ? most : (uint32_t)length * kind;
    uintptr_t data = name + (ascii ? SPP_L_STR_ASCII_DATA : SPP_L_STR_DATA);
    for (uint32_t i = 0; i * 8 < bytes; i++) {
        if (!get(r, &task->text[i], data + 8u * i)) return;
    }
    task->kind = kind;
    task->bytes = bytes;
}

/* An int of up to 60 bits. */
static void copy_number(reader *r, uintptr_t number, spp_task *task) {
    uint64_t tag, digits;
    if (!get(r, &tag, number + OBJECT) || !get(r, &digits, number + OBJECT + 8u) || tag >> 3 > 2) return;
    task->text[0] = (digits & 0x3FFFFFFF) | (tag >> 3 == 2 ? digits >> 32 << 30 : 0);
    task->kind = SPP_TASK_NUMBERED;
    task->bytes = sizeof task->text[0];
}

static void name_running(reader *r, uintptr_t tstate, spp_task *task) {
    uint64_t name;
    task->bytes = 0;
    if (tstate == 0) return;
    uintptr_t object = running(r, tstate);
    if (object == 0 || !is_task(r, object) || !get(r, &name, object + SPP_L_TASK_NAME)) return;
    if (is_a(r, name, spp_task_rule.str))
        copy_name(r, name, task);
    else if (spp_task_rule.integer != 0 && is_a(r, name, spp_task_rule.integer))
        copy_number(r, name, task);
}

void spp_task_own(uintptr_t tstate, spp_task *task) {
    reader r = {.own = true};
    name_running(&r, tstate, task);
}

void spp_task_other(uintptr_t tstate, spp_task *task) {
    reader r = {.own = false};
    name_running(&r, tstate, task);
}

/* ---- whether asyncio is imported */

static entries modules_seen; /* at the last look that found no asyncio */

/* The dict of the module `_asyncio`. */
static uintptr_t asyncio_dict(reader *r) {
    uint64_t dict;
    uintptr_t module = value_of(r, spp_task_rule.modules, spp_task_rule.asyncio);
    if (!is_a(r, module, spp_task_rule.module) || !get(r, &dict, module + OBJECT)) return 0;
    return is_a(r, dict, spp_task_rule.dict) ? dict : 0;
}

void spp_task_look(void) {
    reader r = {.own = false};
    entries now;
    if (spp_task_rule.modules == 0 || atomic_load_explicit(&spp_task_type, memory_order_relaxed) != 0) return;
    if (!entries_of(&r, spp_task_rule.modules, &now)) return;
    if (now.first == modules_seen.first && now.n == modules_seen.n) return;
    uintptr_t dict = asyncio_dict(&r);
    if (dict == 0) {
        modules_seen = now;
        return;
    }
    /* If the module is still being filled, the next look finds it filled. */
    uint64_t size;
    uintptr_t task = value_of(&r, dict, spp_task_rule.task), current = value_of(&r, dict, spp_task_rule.current);
    if (!is_a(&r, task, spp_task_rule.type) || !get(&r, &size, task + spp_task_rule.basicsize)) return;
    if (spp_task_rule.tstate_task < 0 && !is_a(&r, current, spp_task_rule.dict)) return;
    if (size != SPP_L_TASK_SIZE) { /* a layout that nobody knows: no sample has a task */
        spp_task_rule.modules = 0;
        return;
    }
    current_dict = current;
    atomic_store_explicit(&spp_task_type, task, memory_order_release);
}

void spp_task_forget(void) {
    atomic_store(&spp_task_type, 0);
    spp_task_rule = (spp_task_rules){0};
    modules_seen = (entries){0};
}
