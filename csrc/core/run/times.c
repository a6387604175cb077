#include "core/run/times.h"

#include <string.h>

#include "base/heap.h"
#include "base/hints.h"
#include "base/histogram.h"
#include "base/map.h"
#include "base/spinlock.h"
#include "core/capture/labels.h"
#include "core/file/write.h"
#include "core/run/code_table.h"
#include "core/run/named.h"
#include "os/clock.h"
#include "os/lock.h"
#include "os/threads.h"

#define PARTS 1024u /* of the table of calls that have begun; a part is searched from its end */
#define CALLS_FIRST 8u
#define SLOW_MOST 8u      /* calls that are kept of a function */
#define NAMES_MOST 65536u /* code objects that stacks refer to */

typedef struct {
    spp_timed_call call;
    int32_t tid;
    bool more;
    uint32_t n;
    spp_frame *frames;
    spp_bytes labels; /* a JSON object; empty: none */
} slow_call;

enum { TOOK, RAN, CPU, HISTOGRAMS };

struct spp_timed {
    uintptr_t code; /* first, as in each entry of a table of code objects */
    bool steps;
    spp_spinlock lock;            /* of all below */
    uint64_t calls, raised, lost; /* lost: no memory */
    spp_histogram of[HISTOGRAMS];
    uint32_t slow_n;
    uint64_t slow_least; /* what a call must have taken to be kept; 0 until so many are */
    slow_call slow[SLOW_MOST];
};

/* A call that has begun. `step`: since when it runs; 0: it waits. */
typedef struct {
    uintptr_t frame;
    spp_timed *function;
    uint64_t began, ran, step, cpu, cpu_step;
} begun;

typedef struct {
    spp_spinlock lock;
    uint32_t n, capacity;
    begun *calls;
} part;

_Atomic bool spp_times_on, spp_times_open;

static struct {
    bool cpu;
    spp_code_table functions;
    part *parts;
    spp_map names;         /* under the drain lock, as all below */
    uint64_t untimed;      /* functions that are not timed */
    _Atomic uint64_t lost; /* calls: no memory, or not seen to end */
} state;

/* ---- functions */

SPP_HOT spp_timed *spp_times_find(uintptr_t code) { return spp_code_table_find(&state.functions, code); }

static spp_timed *add(uintptr_t code, bool steps) {
    spp_timed *made = state.functions.n < SPP_CODES_MOST ? spp_alloc_zeroed(1, sizeof *made) : NULL;
    if (made == NULL) {
        state.untimed++;
        return NULL;
    }
    made->code = code;
    made->steps = steps;
    spp_code_table_add(&state.functions, made);
    return made;
}

spp_timed *spp_times_add(uintptr_t code, bool steps, bool *added) {
    spp_os_lock();
    bool open = atomic_load(&spp_times_open);
    spp_timed *function = open ? spp_times_find(code) : NULL;
    *added = open && function == NULL && (function = add(code, steps)) != NULL;
    spp_os_unlock();
    return function;
}

void spp_times_each(void (*see)(uintptr_t code)) { spp_code_table_each(&state.functions, see); }

bool spp_times_name(uintptr_t code, bool *added) {
    spp_os_lock();
    bool known = spp_map_get(&state.names, code, 0) != SPP_MAP_NONE;
    *added = !known && state.names.n < NAMES_MOST && spp_map_add(&state.names, code, 0, 0) == 0;
    spp_os_unlock();
    return known || *added;
}

/* ---- calls */

static inline part *part_of(uintptr_t frame) { return &state.parts[(size_t)((frame >> 3) * 0x9E3779B97F4A7C15u >> 40) % PARTS]; }

/* The call of a frame; NULL: it has none. Under the part's lock. */
static inline begun *call_of(const part *in, uintptr_t frame) {
    for (uint32_t i = in->n; i-- > 0;) {
        if (spp_usual(in->calls[i].frame == frame)) return &in->calls[i];
    }
    return NULL;
}

static SPP_COLD bool grow(part *in) {
    uint32_t capacity = in->capacity != 0 ? 2 * in->capacity : CALLS_FIRST;
    begun *calls = spp_realloc(in->calls, capacity * sizeof *calls);
    if (calls == NULL) return false;
    in->calls = calls;
    in->capacity = capacity;
    return true;
}

static inline void begin_step(begun *call) {
    if (spp_rare(state.cpu)) call->cpu_step = spp_os_own_cpu_ns();
    call->step = spp_os_now_ns();
}

/* The clocks as they are at the end of a step, which are read before anything else. */
typedef struct {
    uint64_t now, cpu;
} instant;

static inline instant instant_now(void) {
    instant at = {.now = spp_os_now_ns()};
    if (spp_rare(state.cpu)) at.cpu = spp_os_own_cpu_ns();
    return at;
}

static inline void end_step(begun *call, instant at) {
    if (call->step == 0) return;
    call->ran += at.now - call->step;
    call->cpu += at.cpu - call->cpu_step;
    call->step = 0;
}

SPP_HOT void spp_times_begin(spp_timed *function, uintptr_t frame) {
    part *in = part_of(frame);
    spp_spin_lock(&in->lock);
    begun *call = NULL;
    /* A frame that has a call already is another one's, which was not seen to end. */
    if (spp_rare(in->n != 0) && (call = call_of(in, frame)) != NULL) atomic_fetch_add(&state.lost, 1);
    if (spp_usual(call == NULL) && (spp_usual(in->n < in->capacity) || grow(in))) call = &in->calls[in->n++];
    if (spp_usual(call != NULL)) {
        *call = (begun){.frame = frame, .function = function};
        begin_step(call);
        call->began = call->step;
    } else {
        atomic_fetch_add(&state.lost, 1);
    }
    spp_spin_unlock(&in->lock);
}

void spp_times_resume(uintptr_t frame) {
    part *in = part_of(frame);
    spp_spin_lock(&in->lock);
    begun *call = call_of(in, frame);
    if (call != NULL) begin_step(call);
    spp_spin_unlock(&in->lock);
}

void spp_times_suspend(uintptr_t frame) {
    instant at = instant_now();
    part *in = part_of(frame);
    spp_spin_lock(&in->lock);
    begun *call = call_of(in, frame);
    if (call != NULL) end_step(call, at);
    spp_spin_unlock(&in->lock);
}

static inline void count(spp_timed *function, const spp_timed_call *call) {
    function->calls++;
    if (spp_rare(call->raised)) function->raised++;
    int failed = spp_histogram_add(&function->of[TOOK], call->took);
    if (function->steps) failed |= spp_histogram_add(&function->of[RAN], call->ran);
    if (spp_rare(state.cpu)) failed |= spp_histogram_add(&function->of[CPU], call->cpu);
    if (spp_rare(failed != 0)) function->lost++;
}

/* Under the part's lock, so that with the locks of all parts every call is either open or counted. */
static inline bool take(part *in, uintptr_t frame, bool raised, instant at, spp_timed_call *to) {
    begun *call = call_of(in, frame);
    if (spp_rare(call == NULL || !atomic_load_explicit(&spp_times_open, memory_order_relaxed))) return false;
    end_step(call, at);
    *to = (spp_timed_call){call->began, at.now - call->began, call->ran, call->cpu, raised};
    spp_timed *function = call->function;
    *call = in->calls[--in->n];
    spp_spin_lock(&function->lock);
    count(function, to);
    bool slow = function->slow_n < SLOW_MOST || to->took > function->slow_least;
    spp_spin_unlock(&function->lock);
    return slow;
}

SPP_HOT bool spp_times_end(uintptr_t frame, bool raised, spp_timed_call *to) {
    instant at = instant_now();
    part *in = part_of(frame);
    spp_spin_lock(&in->lock);
    bool slow = take(in, frame, raised, at, to);
    spp_spin_unlock(&in->lock);
    return slow;
}

/* The place of a call among the slowest, whose memory is free; NULL: it is none of them any more. */
static slow_call *place_of(spp_timed *function, uint64_t took, slow_call *gone) {
    if (function->slow_n < SLOW_MOST) return &function->slow[function->slow_n++];
    if (took <= function->slow_least) return NULL;
    slow_call *least = function->slow;
    for (uint32_t i = 1; i < SLOW_MOST; i++) {
        if (function->slow[i].call.took < least->call.took) least = &function->slow[i];
    }
    *gone = *least;
    return least;
}

static void set_least(spp_timed *function) {
    uint64_t least = function->slow[0].call.took;
    for (uint32_t i = 1; i < function->slow_n; i++) {
        if (function->slow[i].call.took < least) least = function->slow[i].call.took;
    }
    function->slow_least = function->slow_n == SLOW_MOST ? least : 0;
}

static void free_slow(slow_call *slow) {
    spp_free(slow->frames);
    spp_bytes_free(&slow->labels);
}

SPP_COLD void spp_times_slow(spp_timed *function, const spp_timed_call *call, const spp_frame *frames, uint32_t n, bool more,
                             uint64_t labels) {
    slow_call made = {.call = *call, .tid = spp_os_tid(), .more = more, .n = n}, gone = {0};
    made.frames = spp_alloc((n + 1) * sizeof *frames);
    if (made.frames == NULL) return;
    if (n > 0) memcpy(made.frames, frames, n * sizeof *frames);
    size_t text_n = 0;
    spp_os_lock();
    const char *text = labels != 0 ? spp_label_text(labels, &text_n) : NULL;
    if (text != NULL) spp_bytes_append(&made.labels, text, text_n);
    spp_os_unlock();
    spp_spin_lock(&function->lock);
    slow_call *to = place_of(function, call->took, &gone);
    if (to != NULL) *to = made;
    set_least(function);
    spp_spin_unlock(&function->lock);
    free_slow(to != NULL ? &gone : &made);
}

/* ---- a run */

int spp_times_start(bool cpu) {
    state.cpu = cpu;
    state.untimed = 0;
    atomic_store(&state.lost, 0);
    int failed = spp_code_table_start(&state.functions);
    state.parts = spp_alloc_zeroed(PARTS, sizeof *state.parts);
    bool made = !failed && state.parts != NULL;
    atomic_store(&spp_times_open, made);
    if (made) return 0;
    spp_times_stop(NULL);
    return -1;
}

void spp_times_follow(bool paused) {
    spp_os_lock();
    atomic_store(&spp_times_on, atomic_load(&spp_times_open) && !paused);
    spp_os_unlock();
}

void spp_times_close(void) {
    atomic_store(&spp_times_on, false);
    atomic_store(&spp_times_open, false);
}

void spp_times_stop(void (*release)(uintptr_t code)) {
    spp_times_close();
    for (size_t i = 0; i < SPP_CODE_SLOTS; i++) {
        spp_timed *function = spp_code_table_at(&state.functions, i);
        if (function == NULL) continue;
        for (int k = 0; k < HISTOGRAMS; k++) spp_histogram_free(&function->of[k]);
        for (uint32_t k = 0; k < function->slow_n; k++) free_slow(&function->slow[k]);
        release(function->code);
        spp_free(function);
    }
    for (size_t i = 0; state.parts != NULL && i < PARTS; i++) spp_free(state.parts[i].calls);
    for (size_t i = 0; i < (state.names.slots != NULL ? state.names.mask + 1 : 0); i++) {
        if (state.names.slots[i].used) release((uintptr_t)state.names.slots[i].a);
    }
    spp_map_free(&state.names);
    spp_code_table_free(&state.functions);
    spp_free(state.parts);
    state.parts = NULL;
}

/* ---- the file */

/* Columns of block M. */
enum {
    FUNCTION = SPP_NAMED_COLUMNS, /* one for each that is timed, up to MOST */
    STEPS,
    CALLS,
    RAISED,
    OPEN,
    SUM,
    MOST = SUM + HISTOGRAMS,
    ROW = MOST + HISTOGRAMS, /* of a bucket: which of those; of what; its number; its count */
    WHAT,
    BUCKET,
    COUNT,
    SLOW_ROW, /* of a slow call: which of those; when it began, its times, its thread, its flags, its labels, its frames */
    BEGAN,
    SLOW_TIMES,
    TID = SLOW_TIMES + HISTOGRAMS,
    FLAGS, /* 1: an exception ended it; 2: there were more frames */
    LABELS,
    DEPTH,
    FRAME_FUNCTION, /* of a frame, root first */
    FRAME_LINE,
    ABOUT, /* functions that are not timed, calls that were lost, whether there is CPU time */
    COLUMNS
};

typedef struct {
    spp_named named;
    spp_vec64 of[COLUMNS];
    spp_map open; /* function's address -> index in `opens` */
    spp_vec64 opens;
    uint64_t row, what, lost;
} writing;

static void push(writing *w, int column, uint64_t value) { (void)spp_vec64_push(&w->of[column], value); }

/* How many calls of each function have begun and not ended. */
static void count_open(writing *w) {
    for (size_t i = 0; i < PARTS; i++) {
        part *in = &state.parts[i];
        spp_spin_lock(&in->lock);
        for (uint32_t k = 0; k < in->n; k++) {
            uintptr_t function = (uintptr_t)in->calls[k].function;
            uint32_t at = spp_map_get(&w->open, function, 0);
            if (at == SPP_MAP_NONE) {
                at = (uint32_t)w->opens.n;
                if (spp_vec64_push(&w->opens, 0) != 0 || spp_map_add(&w->open, function, 0, at) != 0) continue;
            }
            w->opens.at[at]++;
        }
        spp_spin_unlock(&in->lock);
    }
}

static void put_bucket(void *arg, uint32_t bucket, uint64_t n) {
    writing *w = arg;
    push(w, ROW, w->row);
    push(w, WHAT, w->what);
    push(w, BUCKET, bucket);
    push(w, COUNT, n);
}

static void put_slow(writing *w, const slow_call *slow, const uint64_t times[HISTOGRAMS]) {
    push(w, SLOW_ROW, w->row);
    push(w, BEGAN, slow->call.began_ns);
    for (int k = 0; k < HISTOGRAMS; k++) push(w, SLOW_TIMES + k, times[k]);
    push(w, TID, (uint32_t)slow->tid);
    push(w, FLAGS, (slow->call.raised ? 1u : 0u) | (slow->more ? 2u : 0u));
    push(w, LABELS, slow->labels.n != 0 ? spp_named_string(&w->named, slow->labels.at, slow->labels.n) + 1 : 0);
    push(w, DEPTH, slow->n);
    for (uint32_t i = slow->n; i-- > 0;) {
        push(w, FRAME_FUNCTION, spp_named_code(&w->named, spp_frame_code(slow->frames[i])));
        push(w, FRAME_LINE, spp_named_line(&w->named, spp_frame_code(slow->frames[i]), spp_frame_offset(slow->frames[i]), 0));
    }
}

/* Under the function's lock no time is spent on names: copies of its slow calls are named later. */
static void put_function(writing *w, spp_timed *function) {
    slow_call slow[SLOW_MOST];
    uint32_t slow_n = 0;
    uint32_t open = spp_map_get(&w->open, (uintptr_t)function, 0);
    spp_spin_lock(&function->lock);
    uint64_t calls = function->calls, raised = function->raised;
    if (calls == 0 && open == SPP_MAP_NONE) { /* it was marked, and not called */
        spp_spin_unlock(&function->lock);
        return;
    }
    w->lost += function->lost;
    for (int k = 0; k < HISTOGRAMS; k++) {
        w->what = (uint64_t)k;
        spp_histogram_each(&function->of[k], put_bucket, w);
        push(w, SUM + k, function->of[k].sum);
        push(w, MOST + k, function->of[k].most);
    }
    for (uint32_t i = 0; i < function->slow_n; i++) {
        slow_call *copy = &slow[slow_n], *from = &function->slow[i];
        *copy = *from;
        copy->labels = (spp_bytes){0};
        copy->frames = spp_alloc((from->n + 1) * sizeof *copy->frames);
        if (copy->frames == NULL) continue;
        memcpy(copy->frames, from->frames, from->n * sizeof *copy->frames);
        if (from->labels.n != 0) (void)spp_bytes_append(&copy->labels, from->labels.at, from->labels.n);
        slow_n++;
    }
    spp_spin_unlock(&function->lock);
    push(w, FUNCTION, spp_named_code(&w->named, function->code));
    push(w, STEPS, function->steps);
    push(w, CALLS, calls);
    push(w, RAISED, raised);
    push(w, OPEN, open != SPP_MAP_NONE ? w->opens.at[open] : 0);
    for (uint32_t i = 0; i < slow_n; i++) {
        const uint64_t times[] = {slow[i].call.took, slow[i].call.ran, slow[i].call.cpu};
        put_slow(w, &slow[i], times);
        free_slow(&slow[i]);
    }
    w->row++;
}

void spp_times_write(bool last) {
    if (!atomic_load(&spp_times_open)) return;
    writing w = {0};
    w.named.of = w.of;
    if (last) {
        spp_os_lock();
        spp_times_close();
        spp_os_unlock();
    }
    count_open(&w);
    for (size_t i = 0; i < SPP_CODE_SLOTS; i++) {
        spp_timed *function = spp_code_table_at(&state.functions, i);
        if (function != NULL) put_function(&w, function);
    }
    spp_os_lock();
    push(&w, ABOUT, state.untimed);
    spp_os_unlock();
    push(&w, ABOUT, w.lost + atomic_load(&state.lost));
    push(&w, ABOUT, state.cpu);
    spp_write_exact('M', &w.named.text, w.of, COLUMNS);
    spp_named_free(&w.named);
    spp_map_free(&w.open);
    spp_vec64_free(&w.opens);
    for (int i = 0; i < COLUMNS; i++) spp_vec64_free(&w.of[i]);
}
