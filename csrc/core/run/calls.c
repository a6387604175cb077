#include "core/run/calls.h"

#include <string.h>

#include "base/heap.h"
#include "base/hints.h"
#include "base/map.h"
#include "base/sample.h"
#include "core/file/write.h"
#include "core/resolve/resolve_table.h"
#include "core/run/named.h"
#include "os/lock.h"

#define SLOTS_FIRST 256u
#define SLOTS_MOST ((size_t)1 << 21) /* of all tables together: 64 MB, and at the least twice as many places as are counted */

_Atomic bool spp_calls_on;

static struct {
    bool started, closed;
    spp_calls *tables; /* under the drain lock */
    size_t slots;      /* of all of them; under the drain lock */
    spp_map names;     /* function in C -> where its name is in `text`; under the drain lock */
    spp_bytes text;    /* MODULE-OR-TYPE, zero, NAME, zero */
    _Atomic uint64_t taken;
} state;

/* ---- counting */

static inline size_t first_slot(const spp_calls *t, uintptr_t callee, uintptr_t caller, uint32_t at, uint32_t kind) {
    uint64_t hash = (callee >> 4) * 0x9E3779B97F4A7C15u ^ (caller >> 4) * 0xC2B2AE3D27D4EB4Fu;
    hash += (at * 4u + kind) * 0xD6E8FEB86659FD93u;
    return (size_t)(hash >> 32 ^ hash) & t->mask;
}

/* The slot of a key, or the empty one where it would be. */
static inline spp_call *slot_of(const spp_calls *t, uintptr_t callee, uintptr_t caller, uint32_t at, uint32_t kind) {
    size_t i = first_slot(t, callee, caller, at, kind);
    for (;; i = (i + 1) & t->mask) {
        spp_call *slot = &t->slots[i];
        if (slot->callee == 0) return slot;
        if (slot->callee == callee && slot->caller == caller && slot->at == at && slot->kind == kind) return slot;
    }
}

/* One writer: a load and a store, and no locked instruction. */
static inline void count_one(_Atomic uint64_t *count) {
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1, memory_order_relaxed);
}

SPP_HOT bool spp_calls_count(spp_calls *t, uintptr_t callee, uintptr_t caller, uint32_t at, spp_call_kind kind) {
    spp_call *slot = slot_of(t, callee, caller, at, kind);
    if (spp_rare(slot->callee == 0)) return false;
    count_one(&slot->count);
    return true;
}

/* So many more slots for all tables, if they may have them. */
static bool reserve(size_t more) {
    spp_os_lock();
    bool may = !state.closed && state.slots + more <= SLOTS_MOST;
    if (may) state.slots += more;
    spp_os_unlock();
    return may;
}

static void fill(spp_calls *to, const spp_calls *from) {
    for (size_t i = 0; i < (from->slots != NULL ? from->mask + 1 : 0); i++) {
        const spp_call *call = &from->slots[i];
        if (call->callee == 0) continue;
        spp_call *slot = slot_of(to, call->callee, call->caller, call->at, call->kind);
        *slot = (spp_call){call->callee, call->caller, call->at, call->kind, 0};
        atomic_store_explicit(&slot->count, atomic_load_explicit(&call->count, memory_order_relaxed), memory_order_relaxed);
    }
}

/* The drain thread reads slots under its lock, which is taken only to exchange them. */
static bool grow(spp_calls *t) {
    size_t before = t->slots == NULL ? 0 : t->mask + 1, more = before == 0 ? SLOTS_FIRST : 2 * before;
    if (!reserve(more - before)) return false;
    spp_calls made = {.slots = spp_alloc_zeroed(more, sizeof *made.slots), .mask = more - 1};
    if (made.slots != NULL) fill(&made, t);
    spp_os_lock();
    spp_call *old = made.slots != NULL ? t->slots : NULL;
    if (made.slots != NULL) {
        t->slots = made.slots;
        t->mask = made.mask;
    } else {
        state.slots -= more - before;
    }
    spp_os_unlock();
    spp_free(old);
    return made.slots != NULL;
}

static bool add_name(uintptr_t function, const char *name) {
    if (spp_map_get(&state.names, function, 0) != SPP_MAP_NONE) return true;
    size_t at = state.text.n, n = strlen(name) + 1;
    n += strlen(name + n) + 1;
    return spp_bytes_append(&state.text, name, n) == 0 && spp_map_add(&state.names, function, 0, (uint32_t)at) == 0;
}

bool spp_calls_add(spp_calls *t, uintptr_t callee, uintptr_t caller, uint32_t at, spp_call_kind kind, const char *name) {
    if (spp_rare(t->full)) {
        count_one(&t->uncounted);
        return false;
    }
    bool fits = (t->n + 1) * 2 <= t->mask + 1 || grow(t);
    spp_os_lock();
    if (fits && kind == SPP_CALL_C) fits = add_name(callee, name);
    fits = fits && !state.closed;
    if (fits) {
        spp_call *slot = slot_of(t, callee, caller, at, kind);
        *slot = (spp_call){callee, caller, at, kind, 1};
        t->n++;
    } else if (!state.closed) {
        t->full = true;
        count_one(&t->uncounted);
    }
    spp_os_unlock();
    return fits;
}

spp_calls *spp_calls_table(void) {
    spp_calls *made = spp_alloc_zeroed(1, sizeof *made);
    if (made != NULL && !grow(made)) {
        spp_free(made);
        made = NULL;
    }
    if (made == NULL) return NULL;
    spp_os_lock();
    made->next = state.tables;
    state.tables = made;
    spp_os_unlock();
    return made;
}

void spp_calls_taken(void) { atomic_fetch_add(&state.taken, 1); }

/* ---- a run */

void spp_calls_start(void) {
    state.started = true;
    state.closed = false;
    atomic_store(&state.taken, 0);
}

void spp_calls_follow(bool paused) {
    spp_os_lock();
    atomic_store(&spp_calls_on, state.started && !state.closed && !paused);
    spp_os_unlock();
}

void spp_calls_child(void) {
    atomic_store(&spp_calls_on, false);
    state.closed = true;
}

void spp_calls_stop(void (*release)(uintptr_t code)) {
    atomic_store(&spp_calls_on, false);
    spp_calls *tables = state.tables;
    state.tables = NULL;
    state.slots = 0;
    state.started = false;
    while (tables != NULL) {
        spp_calls *t = tables;
        tables = t->next;
        for (size_t i = 0; i <= t->mask; i++) {
            if (t->slots[i].callee == 0) continue;
            if (t->slots[i].kind != SPP_CALL_C) release(t->slots[i].callee);
            if (t->slots[i].caller != 0) release(t->slots[i].caller);
        }
        spp_free(t->slots);
        spp_free(t);
    }
    spp_map_free(&state.names);
    spp_bytes_free(&state.text);
}

/* ---- the file */

/* Columns of block C. */
enum {
    CALLEE = SPP_NAMED_COLUMNS, /* of a place: function, caller + 1, line, calls, resumes */
    CALLS = CALLEE + 3,
    RESUMES,
    EDGE_WORDS = 5,
    ABOUT = CALLEE + EDGE_WORDS, /* calls not counted, threads that another profiler took */
    COLUMNS
};

/* What is written: tables of strings, functions and places (docs/file-format.md, block C). */
typedef struct {
    spp_call *calls; /* a copy of all */
    size_t n;
    spp_bytes text; /* of functions in C, as `state.text` */
    spp_map names;  /* as `state.names` */
    spp_map edges;
    spp_named named;
    spp_vec64 of[COLUMNS];
} writing;

/* Under the drain lock: what others change meanwhile. */
static bool copy(writing *w) {
    size_t n = 0;
    for (const spp_calls *t = state.tables; t != NULL; t = t->next) n += t->n;
    w->calls = spp_alloc((n + 1) * sizeof *w->calls);
    if (w->calls == NULL || spp_bytes_append(&w->text, state.text.at, state.text.n) != 0) return false;
    uint64_t uncounted = 0;
    for (const spp_calls *t = state.tables; t != NULL; t = t->next) {
        uncounted += atomic_load_explicit(&t->uncounted, memory_order_relaxed);
        for (size_t i = 0; i <= t->mask; i++) {
            const spp_call *from = &t->slots[i];
            if (from->callee == 0) continue;
            w->calls[w->n] = (spp_call){from->callee, from->caller, from->at, from->kind, 0};
            atomic_init(&w->calls[w->n].count, atomic_load_explicit(&from->count, memory_order_relaxed));
            w->n++;
        }
    }
    for (size_t i = 0; i < (state.names.slots != NULL ? state.names.mask + 1 : 0); i++) {
        const spp_map_slot *slot = &state.names.slots[i];
        if (slot->used && spp_map_add(&w->names, slot->a, slot->b, slot->value) != 0) return false;
    }
    spp_vec64_push(&w->of[ABOUT], uncounted);
    spp_vec64_push(&w->of[ABOUT], atomic_load(&state.taken));
    return true;
}

static uint32_t function_in_c(writing *w, uintptr_t address) {
    uint32_t at = spp_map_get(&w->names, address, 0);
    const char *home = at != SPP_MAP_NONE ? (const char *)w->text.at + at : "\0", *name = home + strlen(home) + 1;
    spp_bytes full = {0};
    if (*home != 0) spp_bytes_append(&full, home, strlen(home));
    if (*home != 0) spp_bytes_append(&full, ".", 1);
    spp_bytes_append(&full, name, strlen(name));
    const uint64_t row[] = {spp_named_string(&w->named, name, strlen(name)), spp_named_string(&w->named, full.at, full.n),
                            spp_named_string(&w->named, "", 0), 0, 1};
    spp_bytes_free(&full);
    return spp_named_function(&w->named, row);
}

static uint32_t function_of(writing *w, uintptr_t address, bool in_c) {
    if (!in_c) return spp_named_code(&w->named, address);
    uint32_t id = spp_map_get(&w->named.codes, address, 0);
    if (id != SPP_MAP_NONE) return id;
    id = function_in_c(w, address);
    (void)spp_map_add(&w->named.codes, address, 0, id);
    return id;
}

static void add_edge(writing *w, const spp_call *call, uint64_t caller, uint64_t line) {
    uint64_t callee = function_of(w, call->callee, call->kind == SPP_CALL_C), count = atomic_load(&call->count);
    uint32_t id = spp_map_get(&w->edges, callee << 32 | caller, line);
    spp_vec64 *of = w->of;
    if (id == SPP_MAP_NONE) {
        id = (uint32_t)of[CALLEE].n;
        (void)spp_map_add(&w->edges, callee << 32 | caller, line, id);
        const uint64_t row[] = {callee, caller, line, 0, 0};
        for (int i = 0; i < EDGE_WORDS; i++) spp_vec64_push(&of[CALLEE + i], row[i]);
    }
    spp_vec64 *to = &of[call->kind == SPP_CALL_RESUME ? RESUMES : CALLS];
    if (id < to->n) to->at[id] += count;
}

/* The calls of one caller after the other, so that the table of its lines is opened once. They are sorted by linking those of
 * each: first[caller's number + 1] begins a list in `next`. */
static void add_edges(writing *w) {
    spp_code code = {0};
    spp_map lists = {0};
    spp_vec64 firsts = {0}, next = {0};
    for (size_t i = 0; i < w->n; i++) {
        uint32_t list = spp_map_get(&lists, w->calls[i].caller, 1);
        if (list == SPP_MAP_NONE) {
            list = (uint32_t)firsts.n;
            if (spp_map_add(&lists, w->calls[i].caller, 1, list) != 0 || spp_vec64_push(&firsts, 0) != 0) break;
        }
        if (spp_vec64_push(&next, firsts.at[list]) != 0) break;
        firsts.at[list] = i + 1;
    }
    for (size_t list = 0; list < firsts.n; list++) {
        uintptr_t address = w->calls[firsts.at[list] - 1].caller;
        spp_table lines = {0};
        uint64_t caller = address != 0 ? function_of(w, address, false) + 1u : 0;
        bool open = address != 0 && spp_code_read(address, &code) == 0 && code.lines_known &&
                    spp_table_open(&lines, code.lines, code.lines_n, code.first_line) == 0;
        for (size_t i = firsts.at[list]; i != 0; i = next.at[i - 1]) {
            const spp_call *call = &w->calls[i - 1];
            int32_t line = open && call->at != SPP_OFFSET_NONE ? spp_table_place(&lines, call->at).line : 0;
            add_edge(w, call, caller, line > 0 ? (uint32_t)line : 0);
        }
        if (open) spp_table_close(&lines);
    }
    spp_vec64_free(&firsts);
    spp_vec64_free(&next);
    spp_map_free(&lists);
    spp_bytes_free(&code.name);
    spp_bytes_free(&code.qualname);
    spp_bytes_free(&code.file);
}

void spp_calls_write(bool last) {
    writing w = {0};
    w.named.of = w.of;
    spp_os_lock();
    bool counts = state.started && !state.closed;
    if (counts && last) {
        state.closed = true;
        atomic_store(&spp_calls_on, false);
    }
    counts = counts && copy(&w);
    spp_os_unlock();
    if (counts) {
        add_edges(&w);
        spp_write_exact('C', &w.named.text, w.of, COLUMNS);
    }
    spp_free(w.calls);
    spp_bytes_free(&w.text);
    spp_map_free(&w.names);
    spp_map_free(&w.edges);
    spp_named_free(&w.named);
    for (int i = 0; i < COLUMNS; i++) spp_vec64_free(&w.of[i]);
}
