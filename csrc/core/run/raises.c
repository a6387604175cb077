#include "core/run/raises.h"

#include <string.h>

#include "base/heap.h"
#include "base/hints.h"
#include "base/map.h"
#include "base/sample.h"
#include "base/spinlock.h"
#include "core/file/write.h"
#include "core/run/named.h"
#include "os/clock.h"

#define ROWS_MOST 65536u
#define FLIGHTS_MOST 32768u
#define NONE UINT32_MAX

/* How a flight ends, or would if no more events of it came. */
typedef enum {
    BY_C,       /* in C code that the line called: `hasattr`, a `for` that an iterator ended, ... */
    BY_HANDLER, /* in a handler of Python code */
    LEFT        /* no Python code was left on the thread */
} how;

typedef struct {
    uintptr_t type, raised, ended; /* the type is held by its name; ended 0: LEFT */
    uint32_t raised_at, ended_at, how;
    uint64_t count, frames, ns;
    uint32_t next; /* of the same hash; NONE: the last */
} row;

typedef struct {
    uint32_t row; /* NONE: not counted: raised before the start, or the table was full */
    uint32_t caller_at;
    uintptr_t caller; /* the frame that it enters next; 0: it is where it was raised */
    uint64_t since_ns, ns, frames;
} flight;

_Atomic bool spp_raises_on;

/* All under `lock`, which is held for less than a microsecond, but while the drain thread copies the rows. */
static struct {
    bool started, closed;
    void (*hold)(uintptr_t object);
    row *rows;
    uint32_t rows_n, rows_capacity;
    spp_map row_of; /* hash -> first row of it */
    flight *flights;
    uint32_t flights_n, flights_capacity;
    spp_map flight_of; /* exception and thread: on its way; exception and frame: in a handler of that frame */
    spp_map names;     /* type -> where its name is in `text` */
    spp_bytes text;    /* names, each with a zero byte */
    uint64_t uncounted, forgotten;
} state;
static spp_spinlock lock;

/* ---- rows */

static bool is_row(const row *r, const row *key) {
    return r->type == key->type && r->raised == key->raised && r->raised_at == key->raised_at && r->ended == key->ended &&
           r->ended_at == key->ended_at && r->how == key->how;
}

/* Room for one more of `size` bytes; false: there is none. */
static bool capacity(void **array, uint32_t n, uint32_t *has, size_t size, uint32_t most) {
    if (n < *has) return true;
    uint32_t more = *has == 0 ? 64 : 2 * *has;
    void *made = more <= most ? spp_realloc(*array, more * size) : NULL;
    if (made == NULL) return false;
    *array = made;
    *has = more;
    return true;
}

static SPP_COLD uint32_t add_row(const row *key, uint64_t a, uint64_t b, uint32_t first) {
    if (!capacity((void **)&state.rows, state.rows_n, &state.rows_capacity, sizeof *state.rows, ROWS_MOST)) return NONE;
    uint32_t id = state.rows_n;
    state.rows[id] = *key;
    state.rows[id].next = NONE;
    if (first != SPP_MAP_NONE) {
        state.rows[id].next = state.rows[first].next;
        state.rows[first].next = id;
    } else if (spp_map_add(&state.row_of, a, b, id) != 0) {
        return NONE;
    }
    state.rows_n++;
    state.hold(key->raised);
    if (key->ended != 0) state.hold(key->ended);
    return id;
}

static uint32_t row_of(const row *key) {
    uint64_t a = key->raised << 20 ^ key->type >> 4 ^ (uint64_t)key->raised_at << 44;
    uint64_t b = key->ended << 20 ^ key->ended_at ^ (uint64_t)key->how << 60;
    uint32_t first = spp_map_get(&state.row_of, a, b);
    for (uint32_t id = first; id != SPP_MAP_NONE; id = state.rows[id].next) {
        if (spp_usual(is_row(&state.rows[id], key))) return id;
    }
    return add_row(key, a, b, first);
}

/* ---- flights */

static void forget_flights(void) {
    spp_map_free(&state.flight_of);
    state.flights_n = 0;
}

/* A new one in the place of whichever was there. */
static flight *begin(uintptr_t exception, uintptr_t where) {
    uint32_t id = spp_map_get(&state.flight_of, exception, where);
    if (id == SPP_MAP_NONE) {
        if (!capacity((void **)&state.flights, state.flights_n, &state.flights_capacity, sizeof *state.flights, FLIGHTS_MOST)) {
            if (state.flights_capacity == 0) return NULL;
            forget_flights();
            state.forgotten++;
        }
        id = state.flights_n;
        if (spp_map_add(&state.flight_of, exception, where, id) != 0) return NULL;
        state.flights_n++;
    }
    state.flights[id] = (flight){.row = NONE};
    return &state.flights[id];
}

static flight *flight_of(uintptr_t exception, uintptr_t where) {
    uint32_t id = spp_map_get(&state.flight_of, exception, where);
    return id != SPP_MAP_NONE ? &state.flights[id] : NULL;
}

/* Takes a flight out of the row where it is counted, with the time since its last event. */
static void lift(flight *f, uint64_t now_ns) {
    if (f->row != NONE) {
        row *r = &state.rows[f->row];
        r->count--;
        r->frames -= f->frames;
        r->ns -= f->ns;
    }
    f->ns += now_ns - f->since_ns;
    f->since_ns = now_ns;
}

static void land(flight *f) {
    if (f->row == NONE) return;
    row *r = &state.rows[f->row];
    r->count++;
    r->frames += f->frames;
    r->ns += f->ns;
}

static void land_at(flight *f, const spp_flight_at *now, how ends) {
    if (f->row == NONE) return;
    const row *was = &state.rows[f->row];
    const row key = {was->type, was->raised, now->code, was->raised_at, now->at, ends, 0, 0, 0, 0};
    if (!is_row(was, &key)) f->row = row_of(&key);
    if (f->row == NONE) state.uncounted++;
    land(f);
}

bool spp_raises_knows(uintptr_t type) {
    spp_spin_lock(&lock);
    bool knows = spp_map_get(&state.names, type, 0) != SPP_MAP_NONE;
    spp_spin_unlock(&lock);
    return knows;
}

void spp_raises_name(uintptr_t type, const char *name) {
    spp_spin_lock(&lock);
    size_t at = state.text.n;
    bool may = state.started && !state.closed && spp_map_get(&state.names, type, 0) == SPP_MAP_NONE;
    if (may && spp_bytes_append(&state.text, name, strlen(name) + 1) == 0 &&
        spp_map_add(&state.names, type, 0, (uint32_t)at) == 0)
        state.hold(type);
    spp_spin_unlock(&lock);
}

/* The type's name holds it, so the same address is the same type. */
static bool goes_on(const flight *f, const spp_flight_at *now) {
    return f->caller != 0 && f->caller == now->frame && f->caller_at == now->at &&
           (f->row == NONE || state.rows[f->row].type == now->type);
}

void spp_raises_raised(const spp_flight_at *now) {
    uint64_t now_ns = spp_os_now_ns();
    spp_spin_lock(&lock);
    flight *f = flight_of(now->exception, now->thread);
    if (f != NULL && goes_on(f, now)) {
        lift(f, now_ns);
        land(f);
        f->caller = 0; /* once: the next one there is another exception, whose object has the same place */
    } else if (!state.closed) {
        const row key = {now->type, now->code, now->code, now->at, now->at, BY_C, 0, 0, 0, 0};
        f = begin(now->exception, now->thread);
        uint32_t id = f != NULL ? row_of(&key) : NONE;
        if (id != NONE) {
            *f = (flight){.row = id, .since_ns = now_ns};
            land(f);
        } else {
            state.uncounted++;
        }
    }
    spp_spin_unlock(&lock);
}

void spp_raises_left(const spp_flight_at *now) {
    uint64_t now_ns = spp_os_now_ns();
    spp_spin_lock(&lock);
    flight *f = flight_of(now->exception, now->thread);
    if (f != NULL) {
        lift(f, now_ns);
        f->frames++;
        land_at(f, now, now->frame != 0 ? BY_C : LEFT);
        f->caller = now->frame;
        f->caller_at = now->at;
    }
    spp_spin_unlock(&lock);
}

void spp_raises_handled(const spp_flight_at *now) {
    uint64_t now_ns = spp_os_now_ns();
    spp_spin_lock(&lock);
    flight *f = flight_of(now->exception, now->thread);
    if (f != NULL) {
        lift(f, now_ns);
        land_at(f, now, BY_HANDLER);
        flight kept = *f;
        f->row = NONE;
        f->caller = 0;
        f = begin(now->exception, now->frame);
        if (f != NULL) *f = kept;
    }
    spp_spin_unlock(&lock);
}

void spp_raises_again(const spp_flight_at *now) {
    uint64_t now_ns = spp_os_now_ns();
    spp_spin_lock(&lock);
    flight *f = flight_of(now->exception, now->frame), kept = {.row = NONE};
    if (f != NULL) {
        kept = *f;
        f->row = NONE;
    }
    kept.since_ns = now_ns;
    kept.caller = 0;
    f = begin(now->exception, now->thread);
    if (f != NULL) *f = kept;
    spp_spin_unlock(&lock);
}

/* ---- a run */

void spp_raises_start(void (*hold)(uintptr_t object)) {
    state.hold = hold;
    state.started = true;
    state.closed = false;
    state.uncounted = state.forgotten = 0;
}

void spp_raises_follow(bool paused) {
    spp_spin_lock(&lock);
    if (paused) forget_flights(); /* no events come until the resume */
    atomic_store(&spp_raises_on, state.started && !state.closed && !paused);
    spp_spin_unlock(&lock);
}

void spp_raises_child(void) {
    spp_spin_reset(&lock);
    atomic_store(&spp_raises_on, false);
    state.closed = true;
}

void spp_raises_stop(void (*release)(uintptr_t object)) {
    atomic_store(&spp_raises_on, false);
    state.started = false;
    for (uint32_t i = 0; i < state.rows_n; i++) {
        release(state.rows[i].raised);
        if (state.rows[i].ended != 0) release(state.rows[i].ended);
    }
    for (size_t i = 0; i < (state.names.slots != NULL ? state.names.mask + 1 : 0); i++) {
        if (state.names.slots[i].used) release((uintptr_t)state.names.slots[i].a);
    }
    spp_free(state.rows);
    spp_free(state.flights);
    spp_map_free(&state.row_of);
    spp_map_free(&state.flight_of);
    spp_map_free(&state.names);
    spp_bytes_free(&state.text);
    memset(&state, 0, sizeof state);
}

/* ---- the file */

/* Columns of block K (docs/file-format.md). */
enum {
    TYPE = SPP_NAMED_COLUMNS, /* of a row: string, function, line, function + 1, line, how, count, frames, ns */
    ROW_WORDS = 9,
    ABOUT = TYPE + ROW_WORDS,
    COLUMNS
};

typedef struct {
    row *rows; /* a copy of all */
    uint32_t n;
    spp_map names;
    spp_bytes text;
    spp_named named;
    spp_vec64 of[COLUMNS];
} writing;

static bool copy(writing *w) {
    w->rows = spp_alloc((state.rows_n + 1) * sizeof *w->rows);
    if (w->rows == NULL || spp_bytes_append(&w->text, state.text.at, state.text.n) != 0) return false;
    for (uint32_t i = 0; i < state.rows_n; i++) {
        if (state.rows[i].count > 0) w->rows[w->n++] = state.rows[i];
    }
    for (size_t i = 0; i < (state.names.slots != NULL ? state.names.mask + 1 : 0); i++) {
        const spp_map_slot *slot = &state.names.slots[i];
        if (slot->used && spp_map_add(&w->names, slot->a, slot->b, slot->value) != 0) return false;
    }
    spp_vec64_push(&w->of[ABOUT], state.uncounted);
    spp_vec64_push(&w->of[ABOUT], state.forgotten);
    return true;
}

#define LOOK_ON 64u /* bytes: a handler begins with instructions that have no line */

static void add(writing *w, const row *r) {
    uint32_t at = spp_map_get(&w->names, r->type, 0);
    const char *name = at != SPP_MAP_NONE ? (const char *)w->text.at + at : "?";
    const uint64_t words[ROW_WORDS] = {
        spp_named_string(&w->named, name, strlen(name)),
        spp_named_code(&w->named, r->raised),
        spp_named_line(&w->named, r->raised, r->raised_at, 0),
        r->ended != 0 ? spp_named_code(&w->named, r->ended) + 1u : 0,
        r->ended != 0 ? spp_named_line(&w->named, r->ended, r->ended_at, r->how == BY_HANDLER ? LOOK_ON : 0) : 0,
        r->how,
        r->count,
        r->frames,
        r->ns,
    };
    for (int i = 0; i < ROW_WORDS; i++) spp_vec64_push(&w->of[TYPE + i], words[i]);
}

void spp_raises_write(bool last) {
    writing w = {0};
    w.named.of = w.of;
    spp_spin_lock(&lock);
    bool counts = state.started && !state.closed;
    if (counts && last) {
        state.closed = true;
        atomic_store(&spp_raises_on, false);
    }
    counts = counts && copy(&w);
    spp_spin_unlock(&lock);
    if (counts) {
        for (uint32_t i = 0; i < w.n; i++) add(&w, &w.rows[i]);
        spp_write_exact('K', &w.named.text, w.of, COLUMNS);
    }
    spp_free(w.rows);
    spp_map_free(&w.names);
    spp_bytes_free(&w.text);
    spp_named_free(&w.named);
    for (int i = 0; i < COLUMNS; i++) spp_vec64_free(&w.of[i]);
}
