#include "core/run/hot.h"

#include "base/heap.h"
#include "base/hints.h"
#include "core/file/write.h"
#include "core/resolve/live.h"
#include "core/resolve/resolve.h"
#include "core/run/code_table.h"
#include "core/run/named.h"
#include "os/clock.h"
#include "os/lock.h"

#define HOTTEST 20u /* so many functions are counted at a time */
#define STAYS 30u   /* and one that is remains so while it is among these, so that the last ones do not take turns */
#define FUNCTIONS_MOST 1024u
#define WINDOWS 8u /* the latest ones of a function, for samples that are resolved later */
#define TURN_LEAST_NS 20000000u
/* So many calls are counted in a second, of all functions together. Each takes some 35 ns longer. */
#define CALLS_A_SECOND 500000u
#define SECOND_NS 1000000000u

typedef struct {
    uint64_t since, until; /* since 0: none; until UINT64_MAX: it is open */
} window;

typedef struct {
    uintptr_t code; /* first, as in each entry of a table of code objects */
    _Atomic uint64_t calls;
    _Atomic bool counts; /* a window is open */
    /* under the drain lock, all below */
    bool chosen, armed, failed, has_all; /* has_all: see fair_share */
    uint32_t rank;
    uint64_t rests_until_ns; /* it was called too often */
    uint64_t seen, recent;   /* calls up to the last turn, and since the one before */
    uint64_t rate;           /* calls a second in the last turn in which it was counted */
    uint32_t latest;         /* of `windows` */
    window windows[WINDOWS];
    uint64_t counted_ns; /* how long all closed windows were open */
    uint64_t samples, self_ns;
    double squares; /* of weights in us, by tick */
} function;

_Atomic bool spp_hot_open;
_Static_assert(FUNCTIONS_MOST <= SPP_CODES_MOST, "a table has space for them");

static struct {
    spp_code_table functions;
    function **all; /* under the drain lock, as all below */
    uint32_t n;
    bool paused, closed, asks;
    uint64_t turned_ns;
    void (*ask)(void);
} state;

/* ---- counting */

static inline function *find(uintptr_t code) { return spp_code_table_find(&state.functions, code); }

SPP_HOT void spp_hot_count(uintptr_t code) {
    if (spp_rare(!atomic_load_explicit(&spp_hot_open, memory_order_acquire))) return;
    function *f = find(code);
    if (spp_rare(f == NULL || !atomic_load_explicit(&f->counts, memory_order_relaxed))) return;
    atomic_fetch_add_explicit(&f->calls, 1, memory_order_relaxed);
}

/* ---- windows. Under the drain lock */

static bool is_to_be_armed(const function *f, uint64_t now) { return f->chosen && !f->failed && now >= f->rests_until_ns; }

static void set_window(function *f, uint64_t now) {
    bool counts = f->armed && is_to_be_armed(f, now) && !state.paused && !state.closed;
    if (counts == atomic_load(&f->counts)) return;
    atomic_store(&f->counts, counts);
    if (counts) {
        f->latest = (f->latest + 1) % WINDOWS;
        f->windows[f->latest] = (window){now, UINT64_MAX};
    } else {
        window *open = &f->windows[f->latest];
        open->until = now;
        f->counted_ns += now - open->since;
    }
}

static void set_windows(void) {
    uint64_t now = spp_os_now_ns();
    for (uint32_t i = 0; i < state.n; i++) set_window(state.all[i], now);
}

/* For each sample. */
static void see(uintptr_t code, uint64_t time_ns, uint64_t weight, uint32_t count) {
    spp_live_add_self(code, weight);
    function *f = find(code);
    for (uint32_t i = 0; f != NULL && i < WINDOWS; i++) {
        const window *w = &f->windows[i];
        if (w->since == 0 || time_ns < w->since || time_ns >= w->until) continue;
        f->samples += count;
        f->self_ns += weight;
        f->squares += (double)weight * 1e-3 * (double)weight * 1e-3 / count;
    }
}

/* ---- which functions are counted. Under the drain lock */

static function *add(uintptr_t code) {
    function *made = state.n < FUNCTIONS_MOST ? spp_alloc_zeroed(1, sizeof *made) : NULL;
    if (made == NULL) return NULL;
    made->code = code;
    made->chosen = true;
    spp_code_table_add(&state.functions, made);
    state.all[state.n++] = made;
    return made;
}

/* How many calls of a function may be counted in a second. Those that are called less often leave the rest to the others. */
static uint64_t fair_share(void) {
    uint64_t left = CALLS_A_SECOND, n = 0;
    for (uint32_t i = 0; i < state.n; i++) {
        state.all[i]->has_all = false;
        n += state.all[i]->chosen;
    }
    for (bool more = true; more && n > 0;) {
        uint64_t share = left / n;
        more = false;
        for (uint32_t i = 0; i < state.n; i++) {
            function *f = state.all[i];
            if (!f->chosen || f->has_all || f->rate > share) continue;
            f->has_all = more = true;
            left -= f->rate;
            n--;
        }
    }
    return n > 0 ? left / n : CALLS_A_SECOND;
}

/* One whose calls since the last turn were more than its share rests so long that they are its share in the mean. */
static void limit(uint64_t now) {
    uint64_t took = now - state.turned_ns;
    if (took < TURN_LEAST_NS) return;
    state.turned_ns = now;
    for (uint32_t i = 0; i < state.n; i++) {
        function *f = state.all[i];
        uint64_t calls = atomic_load_explicit(&f->calls, memory_order_relaxed);
        f->recent = calls - f->seen;
        f->seen = calls;
        if (f->recent > 0 || atomic_load(&f->counts)) f->rate = f->recent * SECOND_NS / took;
    }
    uint64_t share = fair_share();
    for (uint32_t i = 0; i < state.n; i++) {
        function *f = state.all[i];
        uint64_t enough_ns = f->recent * SECOND_NS / (share > 0 ? share : 1);
        if (enough_ns > took) f->rests_until_ns = now + enough_ns - took;
    }
}

/* The hottest ones that are new here, and how many there are. */
static uint32_t choose(uintptr_t codes[HOTTEST]) {
    spp_live_self hottest[STAYS];
    uint32_t n = spp_live_hottest(hottest, STAYS), new_n = 0;
    for (uint32_t i = 0; i < state.n; i++) state.all[i]->rank = STAYS;
    for (uint32_t i = 0; i < n; i++) {
        function *f = find(hottest[i].code);
        if (f != NULL)
            f->rank = i;
        else if (i < HOTTEST && state.n < FUNCTIONS_MOST)
            codes[new_n++] = hottest[i].code;
    }
    for (uint32_t i = 0; i < state.n; i++) {
        function *f = state.all[i];
        f->chosen = f->rank < HOTTEST || (f->chosen && f->rank < STAYS);
    }
    return new_n;
}

/* Without memory one that is held lives on, unseen. */
static function *choose_new(bool (*hold)(uintptr_t code)) {
    uintptr_t codes[HOTTEST];
    uint32_t n = choose(codes);
    for (uint32_t i = 0; i < n; i++) {
        if (hold(codes[i])) return add(codes[i]);
    }
    return NULL;
}

static function *to_change(uint64_t now) {
    for (uint32_t i = 0; i < state.n; i++) {
        if (state.all[i]->armed != is_to_be_armed(state.all[i], now)) return state.all[i];
    }
    return NULL;
}

void spp_hot_turn(bool chooses) {
    if (!atomic_load(&spp_hot_open)) return;
    uintptr_t codes[HOTTEST];
    spp_os_lock();
    uint64_t now = spp_os_now_ns();
    uint32_t new_n = chooses ? choose(codes) : 0;
    limit(now);
    set_windows();
    state.asks = !state.closed && (new_n > 0 || to_change(now) != NULL);
    spp_os_unlock();
}

void spp_hot_ask(void) {
    if (state.asks) state.ask();
    state.asks = false;
}

bool spp_hot_next(bool (*hold)(uintptr_t code), uintptr_t *code, bool *armed) {
    if (!atomic_load(&spp_hot_open)) return false;
    spp_os_lock();
    function *f = state.closed ? NULL : to_change(spp_os_now_ns());
    if (f == NULL && !state.closed) f = choose_new(hold);
    if (f != NULL) *code = f->code;
    if (f != NULL) *armed = !f->armed;
    spp_os_unlock();
    return f != NULL;
}

void spp_hot_done(uintptr_t code, bool armed, bool failed) {
    spp_os_lock();
    function *f = find(code);
    f->failed = failed;
    f->armed = armed && !failed;
    set_window(f, spp_os_now_ns());
    spp_os_unlock();
}

/* ---- a run */

static void free_tables(void) {
    spp_code_table_free(&state.functions);
    spp_free(state.all);
    state.all = NULL;
    state.n = 0;
}

int spp_hot_start(void (*ask)(void)) {
    int failed = spp_code_table_start(&state.functions);
    state.all = spp_alloc_zeroed(FUNCTIONS_MOST, sizeof *state.all);
    state.n = 0;
    state.closed = state.asks = false;
    state.paused = true;
    state.turned_ns = spp_os_now_ns();
    state.ask = ask;
    bool made = !failed && state.all != NULL;
    atomic_store(&spp_hot_open, made);
    if (made) spp_resolve_leaves(see);
    if (made) return 0;
    free_tables();
    return -1;
}

void spp_hot_follow(bool paused) {
    spp_os_lock();
    state.paused = paused;
    if (atomic_load(&spp_hot_open)) set_windows();
    spp_os_unlock();
}

void spp_hot_close(void) {
    spp_os_lock();
    state.closed = true;
    if (atomic_load(&spp_hot_open)) set_windows();
    spp_os_unlock();
}

void spp_hot_child(void) {
    spp_resolve_leaves(NULL);
    state.closed = true;
    for (uint32_t i = 0; i < state.n; i++) atomic_store(&state.all[i]->counts, false);
}

void spp_hot_each(void (*see_code)(uintptr_t code)) {
    for (uint32_t i = 0; i < state.n; i++) {
        if (state.all[i]->armed) see_code(state.all[i]->code);
    }
}

void spp_hot_stop(void (*release)(uintptr_t code)) {
    atomic_store(&spp_hot_open, false);
    spp_resolve_leaves(NULL);
    for (uint32_t i = 0; i < state.n; i++) {
        release(state.all[i]->code);
        spp_free(state.all[i]);
    }
    free_tables();
}

/* ---- the file */

/* Columns of block W: of each function that was counted. */
enum { FUNCTION = SPP_NAMED_COLUMNS, CALLS, COUNTED_NS, SAMPLES, SELF_NS, SQUARES, COLUMNS };

void spp_hot_write(void) {
    if (!atomic_load(&spp_hot_open)) return;
    spp_vec64 of[COLUMNS] = {{0}};
    spp_named named = {.of = of};
    spp_os_lock();
    uint64_t now = spp_os_now_ns();
    for (uint32_t i = 0; i < state.n; i++) {
        const function *f = state.all[i];
        const window *latest = &f->windows[f->latest];
        uint64_t open_ns = atomic_load(&f->counts) ? now - latest->since : 0;
        const uint64_t row[] = {f->code,    atomic_load(&f->calls), f->counted_ns + open_ns, f->samples,
                                f->self_ns, (uint64_t)f->squares};
        for (int k = 0; k < COLUMNS - FUNCTION; k++) (void)spp_vec64_push(&of[FUNCTION + k], row[k]);
    }
    spp_os_unlock();
    for (size_t i = 0; i < of[FUNCTION].n; i++) of[FUNCTION].at[i] = spp_named_code(&named, (uintptr_t)of[FUNCTION].at[i]);
    spp_write_exact('W', &named.text, of, COLUMNS);
    spp_named_free(&named);
    for (int i = 0; i < COLUMNS; i++) spp_vec64_free(&of[i]);
}
