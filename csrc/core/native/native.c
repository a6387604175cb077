#include "core/native/native.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "core/native/symbols.h"
#include "core/native/unwind_compact.h"
#include "core/native/unwind_seh.h"
#include "os/clock.h"
#include "os/lock.h"
#include "os/memory.h"
#include "os/objects.h"

#define OBJECTS_MAX 4096u
#define SECTION_MAX ((size_t)1 << 28)
#define FUNCTION_MAX ((size_t)1 << 20)

typedef struct {
    spp_unwind_object rows; /* first: the view's list points here */
    spp_os_object facts;
    spp_symbols symbols;
    bool kept; /* in the list that is being made */
} object;

typedef struct view {
    spp_native_view shown;
    object **objects; /* sorted by address */
    uint32_t n;
} view;

_Atomic(const spp_native_view *) spp_native_now;

static spp_unwind_rules rules;
static view *current; /* changed under the drain lock, by the drain thread */
_Atomic uint64_t spp_native_sure_ns = UINT64_MAX;
static uint64_t current_stamp;
/* Some objects came and went unseen, so those that are still there may have been away meanwhile. */
static bool hidden_changes;
static bool leaving; /* what was sampled before a change is being named */
static uintptr_t evaluator_address;
static const spp_native_users *users;
static uint32_t serial;
static spp_symbols jit;                /* under the drain lock: code that is in no object */
static uint64_t jit_known, jit_looked; /* bytes of its map that were read, and when */
static spp_bytes news;                 /* of objects that were read: entries of an O block */

/* ---- one object */

static void report(const spp_os_object *facts) {
    char digits[2 * sizeof facts->build_id + 2];
    int n = 0;
    for (int i = 0; i < facts->build_id_n; i++) n += snprintf(digits + n, sizeof digits - (size_t)n, "%02x", facts->build_id[i]);
    digits[n++] = ' ';
    if (spp_bytes_append(&news, digits, (size_t)n) == 0) (void)spp_bytes_append(&news, facts->path, strlen(facts->path) + 1);
}

/* A copy of memory that may go away meanwhile. */
static uint8_t *copy_of(uintptr_t from, uintptr_t end) {
    if (end <= from || end - from > SECTION_MAX) return NULL;
    uint8_t *bytes = spp_alloc(end - from);
    if (bytes != NULL && spp_os_read(bytes, from, end - from) == 0) return bytes;
    spp_free(bytes);
    return NULL;
}

/* The functions of an object, in the order of their addresses. */
typedef struct {
    const object *o;
    size_t i; /* symbols before it begin before what is asked for */
    uint8_t *code;
    size_t capacity;
} functions;

static bool next_function(void *arg, uintptr_t low, uintptr_t high, spp_unwind_section *code) {
    functions *of = arg;
    const spp_symbols *symbols = &of->o->symbols;
    uintptr_t base = of->o->facts.base;
    while (of->i < symbols->n && base + symbols->list[of->i].at < low) of->i++;
    for (; of->i < symbols->n && base + symbols->list[of->i].at < high; of->i++) {
        uintptr_t at = base + symbols->list[of->i].at, end = high;
        if (of->i + 1 < symbols->n && base + symbols->list[of->i + 1].at < end) end = base + symbols->list[of->i + 1].at;
        if (symbols->list[of->i].size != 0 && symbols->list[of->i].size < end - at) end = at + symbols->list[of->i].size;
        size_t n = end - at;
        if (n == 0 || n > FUNCTION_MAX) continue;
        if (n > of->capacity) {
            uint8_t *larger = spp_realloc(of->code, n);
            if (larger == NULL) return false;
            of->code = larger;
            of->capacity = n;
        }
        if (spp_os_read(of->code, at, n) != 0) continue;
        *code = (spp_unwind_section){of->code, n, at};
        return true;
    }
    return false;
}

/* Its tables lie anywhere in it, so all of it is copied. */
static void read_rows_of_image(object *o) {
    const spp_os_object *facts = &o->facts;
    uint8_t *bytes = copy_of(facts->base, facts->end);
    if (bytes == NULL) return;
    spp_unwind_image image = {
        bytes,        facts->end - facts->base, facts->base, facts->functions - facts->base, facts->functions_end - facts->base,
        SPP_SEH_WORDS};
    spp_unwind_read_seh(&o->rows, &rules, &image);
    spp_free(bytes);
}

static spp_unwind_section section_of(uintptr_t from, uintptr_t end) {
    spp_unwind_section s = {copy_of(from, end), 0, from};
    if (s.at != NULL) s.n = end - from;
    return s;
}

/* Mach-O's. */
static void read_compact_rows(object *o) {
    const spp_os_object *f = &o->facts;
    spp_unwind_compact image = {section_of(f->compact, f->compact_end), section_of(f->frames, f->frames_end),
                                section_of(f->low, f->high), section_of(f->starts, f->starts_end)};
    spp_unwind_read_compact(&o->rows, &rules, &image);
    spp_free((void *)(uintptr_t)image.compact.at);
    spp_free((void *)(uintptr_t)image.frames.at);
    spp_free((void *)(uintptr_t)image.code.at);
    spp_free((void *)(uintptr_t)image.starts.at);
}

/* Its symbols are known. The frames begin where the index says (LSB, .eh_frame_hdr: eh_frame_ptr, a 32-bit distance from itself
 * with every linker), and lie in its segment. */
static void read_rows(object *o) {
    int32_t distance;
    uintptr_t index = o->facts.index, end = o->facts.index_end;
    if (o->facts.functions != 0) read_rows_of_image(o);
    if (o->facts.compact != 0) read_compact_rows(o);
    if (index == 0 || spp_os_read(&distance, index + 4, sizeof distance) != 0) return;
    uintptr_t frames = index + 4 + (uintptr_t)(intptr_t)distance, low = frames < index ? frames : index;
    if (frames >= end) return;
    uint8_t *bytes = copy_of(low, end);
    if (bytes == NULL) return;
    spp_unwind_section i = {bytes + (index - low), end - index, index}, f = {bytes + (frames - low), end - frames, frames};
    functions all = {.o = o};
    spp_unwind_read(&o->rows, &rules, i, f, &(spp_unwind_gaps){next_function, &all});
    spp_free(all.code);
    spp_free(bytes);
}

/* Where distributions put what they stripped: /usr/lib/debug/.build-id/ab/cdef.debug. */
static void *debug_file(const spp_os_object *facts, size_t *n) {
    char path[160];
    int at = snprintf(path, sizeof path, "/usr/lib/debug/.build-id/");
    if (facts->build_id_n < 2) return NULL;
    for (int i = 0; i < facts->build_id_n; i++) {
        at += snprintf(path + at, sizeof path - (size_t)at, i == 0 ? "%02x/" : "%02x", facts->build_id[i]);
    }
    snprintf(path + at, sizeof path - (size_t)at, ".debug");
    return spp_os_symbol_file(path, n);
}

/* An export has no length: it is taken to reach to the end of its function. */
static void add_symbol(void *arg, uint64_t at, uint32_t size, const char *name) {
    object *o = arg;
    uintptr_t address = o->facts.base + at;
    if (address < o->facts.low || address >= o->facts.high) return;
    if (size == 0) size = (uint32_t)(spp_unwind_end_of(&o->rows, address) - address);
    spp_symbols_add(&o->symbols, at, size, name);
}

static void read_symbols(object *o) {
    size_t n = 0;
    if (spp_os_symbols(&o->facts, add_symbol, o) == 0) {
        spp_symbols_sort(&o->symbols);
        return;
    }
    void *file = strchr(o->facts.path, '/') != NULL ? spp_os_symbol_file(o->facts.path, &n) : NULL;
    if (file == NULL) { /* the vDSO is a whole file in memory */
        uintptr_t end = (o->facts.high + 4095) & ~(uintptr_t)4095;
        uint8_t *image = copy_of(o->facts.base, end);
        if (image != NULL) (void)spp_symbols_read(&o->symbols, image, end - o->facts.base);
        spp_free(image);
        return;
    }
    if (!spp_symbols_whole(file, n)) {
        size_t debug_n = 0;
        void *debug = debug_file(&o->facts, &debug_n);
        if (debug != NULL) (void)spp_symbols_read(&o->symbols, debug, debug_n);
        spp_os_pages_free(debug, debug_n);
    }
    if (o->symbols.n == 0) (void)spp_symbols_read(&o->symbols, file, n);
    spp_os_pages_free(file, n);
}

static object *make_object(const spp_os_object *facts) {
    object *o = spp_alloc_zeroed(1, sizeof *o);
    if (o == NULL) return NULL;
    o->facts = *facts;
    o->rows.low = facts->low;
    o->rows.high = facts->high;
    read_symbols(o);
    read_rows(o);
    report(facts);
    return o;
}

static void free_object(object *o) {
    spp_unwind_object_free(&o->rows);
    spp_symbols_free(&o->symbols);
    spp_free(o);
}

/* ---- the view */

typedef struct {
    spp_os_object *at;
    uint32_t n;
} found;

static void see_object(void *arg, const spp_os_object *o) {
    found *f = arg;
    if (f->n < OBJECTS_MAX) f->at[f->n++] = *o;
}

static int by_address(const void *a, const void *b) {
    const spp_os_object *x = a, *y = b;
    return x->low < y->low ? -1 : x->low > y->low;
}

static bool same_object(const spp_os_object *a, const spp_os_object *b) {
    return a->base == b->base && a->low == b->low && a->high == b->high && a->index == b->index &&
           a->build_id_n == b->build_id_n && memcmp(a->build_id, b->build_id, a->build_id_n) == 0 &&
           strcmp(a->path, b->path) == 0;
}

static object *object_at(const view *v, uintptr_t address) {
    return v != NULL ? (object *)(uintptr_t)spp_unwind_object_of(&v->shown.map, address) : NULL; /* its rows come first */
}

/* A part of the evaluator. What Windows and macOS name has no size: then as far as the unwind tables say that the function goes.
 */
static spp_range part_at(const object *o, uintptr_t at, uint64_t size) {
    bool known = spp_unwind_function_of(&o->rows, at + 1) == at;
    uintptr_t end = known ? spp_unwind_end_of(&o->rows, at) : at;
    return (spp_range){at, end > at + size ? end : at + size};
}

/* The evaluator's parts: compilers move what is rarely run to a place of its own, NAME.cold. */
static void find_evaluator(const view *v, spp_range *parts) {
    const object *o = object_at(v, evaluator_address);
    const spp_symbol *whole = o != NULL ? spp_symbols_find(&o->symbols, evaluator_address - o->facts.base) : NULL;
    parts[0] = o != NULL ? part_at(o, evaluator_address, 1) : (spp_range){evaluator_address, evaluator_address + 1};
    if (whole == NULL) return;
    const char *name = spp_symbols_name(&o->symbols, whole);
    size_t length = strlen(name);
    uint32_t n = 0;
    for (size_t i = 0; i < o->symbols.n && n < SPP_EVALUATOR_PARTS; i++) {
        const spp_symbol *s = &o->symbols.list[i];
        const char *part = spp_symbols_name(&o->symbols, s);
        if (strncmp(part, name, length) != 0 || (part[length] != 0 && part[length] != '.')) continue;
        parts[n++] = part_at(o, o->facts.base + s->at, s->size);
    }
}

static view *make_view(found *f) {
    view *v = spp_alloc_zeroed(1, sizeof *v);
    if (v == NULL) return NULL;
    v->objects = spp_alloc_zeroed(f->n + 1, sizeof(object *));
    if (v->objects == NULL) {
        spp_free(v);
        return NULL;
    }
    qsort(f->at, f->n, sizeof *f->at, by_address);
    for (uint32_t i = 0; i < f->n; i++) {
        object *known = object_at(current, f->at[i].low);
        object *o = known != NULL && same_object(&known->facts, &f->at[i]) ? known : make_object(&f->at[i]);
        if (o == NULL) continue;
        o->kept = true;
        v->objects[v->n++] = o;
    }
    if (++serial == 0) serial = 1;
    v->shown.map = (spp_unwind_map){rules.at, (const spp_unwind_object *const *)(const void *)v->objects, v->n, serial};
    find_evaluator(v, v->shown.evaluator);
    const object *own = object_at(v, (uintptr_t)make_view);
    if (own != NULL) v->shown.own = (spp_range){own->facts.low, own->facts.high};
    return v;
}

/* Lets go of a view, and of its objects that are in no other. */
static void free_view(view *v) {
    if (v == NULL) return;
    for (uint32_t i = 0; i < v->n; i++) {
        if (!v->objects[i]->kept) free_object(v->objects[i]);
    }
    spp_free(v->objects);
    spp_free(v);
}

static const view *before; /* while a new one takes its place */

static bool stays(uintptr_t address) {
    const object *o = object_at(before, address);
    return o != NULL && o->kept;
}

/* Under the drain lock. Resolves the names of native frames again, those of blocked stacks too.
 * `old`: the objects shown before; NULL: the same. */
static void names_changed(const view *old) {
    before = old;
    if (users != NULL) users->after(old != NULL ? stays : NULL);
    before = NULL;
}

static int renew(void) {
    found f = {.at = spp_os_pages(OBJECTS_MAX * sizeof *f.at)};
    if (f.at == NULL) return -1;
    uint64_t began, stamp;
    do { /* what is found stands for the stamp */
        f.n = 0;
        began = spp_os_now_ns();
        stamp = spp_os_objects_stamp();
        spp_os_objects(see_object, &f);
    } while (spp_os_objects_stamp() != stamp);
    for (uint32_t i = 0; current != NULL && i < current->n; i++) current->objects[i]->kept = false;
    view *v = make_view(&f), *old = current;
    spp_os_pages_free(f.at, OBJECTS_MAX * sizeof *f.at);
    if (v == NULL) return -1;
    spp_os_lock();
    uint32_t gone = 0;
    for (uint32_t i = 0; old != NULL && i < old->n; i++) gone += !old->objects[i]->kept;
    hidden_changes = old != NULL && (uint32_t)(stamp - current_stamp) != gone;
    leaving = true;
    if (old != NULL && users != NULL) users->before(); /* addresses that were taken by the old view get their names by it */
    leaving = false;
    current = v;
    atomic_store(&spp_native_now, &v->shown);
    names_changed(old);
    current_stamp = stamp;
    atomic_store(&spp_native_sure_ns, began);
    spp_os_unlock();
    if (users != NULL) users->wait();
    free_view(old);
    return 0;
}

/* A large one a second apart, since what has grown is read as a whole. */
static void look_at_jit(uint64_t now) {
    if (jit_known > 200000 && now - jit_looked < 1000000000u) return;
    jit_looked = now;
    size_t n;
    char *text = spp_os_jit_map(&jit_known, &n);
    if (text == NULL) return;
    spp_symbols read = {0};
    (void)spp_symbols_read_map(&read, text, n); /* no memory: what there is serves */
    spp_os_pages_free(text, n);
    spp_os_lock();
    spp_symbols old = jit;
    jit = read;
    names_changed(NULL); /* what had no name may have one now */
    spp_os_unlock();
    spp_symbols_free(&old);
}

void spp_native_look(void) {
    if (current == NULL) return;
    uint64_t now = spp_os_now_ns();
    look_at_jit(now);
    if (spp_os_objects_stamp() != current_stamp)
        (void)renew();
    else
        atomic_store(&spp_native_sure_ns, now);
}

int spp_native_start(uintptr_t evaluator, const spp_native_users *given) {
    users = given;
    evaluator_address = evaluator;
    look_at_jit(spp_os_now_ns());
    if (spp_unwind_rules_make(&rules) != 0 || renew() != 0) {
        spp_native_stop();
        return -1;
    }
    return 0;
}

void spp_native_stop(void) {
    atomic_store(&spp_native_now, NULL);
    atomic_store(&spp_native_sure_ns, UINT64_MAX);
    for (uint32_t i = 0; current != NULL && i < current->n; i++) current->objects[i]->kept = false;
    free_view(current);
    current = NULL;
    spp_unwind_rules_free(&rules);
    spp_bytes_free(&news);
    spp_symbols_free(&jit);
    jit_known = jit_looked = 0;
}

spp_bytes spp_native_news(void) {
    spp_bytes given = news;
    news = (spp_bytes){0};
    return given;
}

void spp_native_abandon(void) {
    news = (spp_bytes){0};
    jit = (spp_symbols){0};
    jit_known = jit_looked = 0;
    atomic_store(&spp_native_now, NULL);
    atomic_store(&spp_native_sure_ns, UINT64_MAX);
    current = NULL;
    current_stamp = 0;
    hidden_changes = leaving = false;
    memset(&rules, 0, sizeof rules);
}

static bool is_python(const object *o) { return o->facts.low <= evaluator_address && evaluator_address < o->facts.high; }

bool spp_native_doubtful(uintptr_t address, uint64_t ns) {
    if (!leaving || ns <= atomic_load(&spp_native_sure_ns)) return false;
    const object *o = object_at(current, address);
    return o != NULL && (!o->kept || (hidden_changes && !is_python(o)));
}

bool spp_native_place_of(uintptr_t address, spp_native_place *place) {
    const object *o = object_at(current, address);
    if (o == NULL) {
        const spp_symbol *made = spp_symbols_find(&jit, address);
        if (made == NULL) return false;
        const char *name = spp_symbols_name(&jit, made);
        bool trampoline = strncmp(name, "py::", 4) == 0; /* of CPython's: one for each Python function (-X perf) */
        *place = (spp_native_place){name, "", made->at, address, trampoline};
        return true;
    }
    uint64_t at = address - o->facts.base;
    const spp_symbol *symbol = spp_symbols_find(&o->symbols, at);
    *place = (spp_native_place){
        .function = symbol != NULL ? spp_symbols_name(&o->symbols, symbol) : NULL,
        .file = o->facts.path,
        .start = symbol != NULL ? symbol->at : spp_unwind_function_of(&o->rows, address) - o->facts.base,
        .at = at,
        .python = is_python(o),
    };
    return true;
}
