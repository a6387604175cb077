#include "core/run/executions.h"

#include <string.h>

#include "base/heap.h"
#include "base/hints.h"
#include "core/file/write.h"
#include "core/run/code_table.h"
#include "core/run/named.h"
#include "os/lock.h"

#define INSTRUCTIONS_MOST (1u << 20) /* of a code object */
#define SPAN_MOST (1u << 20)         /* from its first line to its last */
#define WAYS 2u

/* `to`: an instruction + 1; 0: no way yet. */
typedef struct {
    _Atomic uint32_t to;
    uint32_t line;
    _Atomic uint64_t count;
} way;

struct spp_executions {
    uintptr_t code; /* first, as in each entry of a table of code objects */
    uint32_t instructions, first_line, span;
    _Atomic uint64_t calls;
    uint32_t *line_of;       /* of each instruction */
    bool *has;               /* of each line of the span: whether it can be executed */
    _Atomic uint64_t *count; /* likewise: executions */
    way *ways;               /* WAYS for each instruction */
};

_Atomic bool spp_executions_on, spp_executions_open;

static struct {
    spp_code_table codes;
    uint64_t no_space;     /* code objects that are not counted; under the drain lock */
    _Atomic uint64_t lost; /* branches: a third way */
} state;

/* ---- code objects */

SPP_HOT spp_executions *spp_executions_find(uintptr_t code) { return spp_code_table_find(&state.codes, code); }

static void free_lines(spp_executions *of) {
    spp_free(of->line_of);
    spp_free(of->has);
    spp_free(of->count);
    spp_free(of->ways);
    spp_free(of);
}

/* NULL: no memory, or it is too long. */
static spp_executions *make(uintptr_t code, const uint32_t *line_of, uint32_t n, uint32_t first) {
    uint32_t least = UINT32_MAX, most = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (line_of[i] == 0) continue;
        if (line_of[i] < least) least = line_of[i];
        if (line_of[i] > most) most = line_of[i];
    }
    uint32_t span = most >= least ? most - least + 1 : 1;
    if (n == 0 || n > INSTRUCTIONS_MOST || span > SPAN_MOST) return NULL;
    spp_executions *made = spp_alloc_zeroed(1, sizeof *made);
    if (made == NULL) return NULL;
    *made = (spp_executions){.code = code, .instructions = n, .first_line = least, .span = span};
    made->line_of = spp_alloc(n * sizeof *line_of);
    made->has = spp_alloc_zeroed(span, sizeof *made->has);
    made->count = spp_alloc_zeroed(span, sizeof *made->count);
    made->ways = spp_alloc_zeroed((size_t)n * WAYS, sizeof *made->ways);
    if (made->line_of == NULL || made->has == NULL || made->count == NULL || made->ways == NULL) {
        free_lines(made);
        return NULL;
    }
    memcpy(made->line_of, line_of, n * sizeof *line_of);
    for (uint32_t i = first; i < n; i++) {
        if (line_of[i] != 0) made->has[line_of[i] - least] = true;
    }
    return made;
}

static spp_executions *add(uintptr_t code, const uint32_t *line_of, uint32_t n, uint32_t first) {
    spp_executions *made = state.codes.n < SPP_CODES_MOST ? make(code, line_of, n, first) : NULL;
    if (made == NULL) {
        state.no_space++;
        return NULL;
    }
    spp_code_table_add(&state.codes, made);
    return made;
}

spp_executions *spp_executions_add(uintptr_t code, const uint32_t *line_of, uint32_t n, uint32_t first, bool *added) {
    spp_os_lock();
    bool open = atomic_load(&spp_executions_open);
    spp_executions *of = open ? spp_executions_find(code) : NULL;
    *added = open && of == NULL && (of = add(code, line_of, n, first)) != NULL;
    spp_os_unlock();
    return of;
}

void spp_executions_each(void (*see)(uintptr_t code)) { spp_code_table_each(&state.codes, see); }

uint32_t spp_executions_at(const spp_executions *of, uint32_t instruction) {
    return instruction < of->instructions ? of->line_of[instruction] : 0;
}

/* ---- counting */

static inline void count(_Atomic uint64_t *of) { atomic_fetch_add_explicit(of, 1, memory_order_relaxed); }

void spp_executions_call(spp_executions *of) { count(&of->calls); }

SPP_HOT void spp_executions_line(spp_executions *of, uint32_t line) {
    if (spp_usual(line - of->first_line < of->span)) count(&of->count[line - of->first_line]);
}

bool spp_executions_jump(spp_executions *of, uint32_t from, uint32_t to) {
    uint32_t line = spp_executions_at(of, from);
    if (to > from || line == 0 || line != spp_executions_at(of, to)) return false;
    spp_executions_line(of, line);
    return true;
}

/* NULL: it is not known. */
static inline way *way_of(const spp_executions *of, uint32_t from, uint32_t to) {
    way *ways = &of->ways[(size_t)from * WAYS];
    for (uint32_t k = 0; k < WAYS; k++) {
        if (atomic_load_explicit(&ways[k].to, memory_order_acquire) == to + 1) return &ways[k];
    }
    return NULL;
}

SPP_HOT bool spp_executions_branch(spp_executions *of, uint32_t from, uint32_t to) {
    way *taken = spp_usual(from < of->instructions) ? way_of(of, from, to) : NULL;
    if (spp_usual(taken != NULL)) count(&taken->count);
    return taken != NULL;
}

SPP_COLD void spp_executions_add_way(spp_executions *of, uint32_t from, uint32_t to, uint32_t line) {
    way *found = NULL;
    spp_os_lock();
    if (from < of->instructions && way_of(of, from, to) == NULL) {
        for (uint32_t k = 0; k < WAYS && found == NULL; k++) {
            way *one = &of->ways[(size_t)from * WAYS + k];
            if (atomic_load(&one->to) == 0) found = one;
        }
        if (found != NULL) {
            found->line = line;
            atomic_store_explicit(&found->to, to + 1, memory_order_release);
        } else {
            atomic_fetch_add(&state.lost, 1);
        }
    }
    spp_os_unlock();
}

/* ---- a run */

int spp_executions_start(void) {
    state.no_space = 0;
    atomic_store(&state.lost, 0);
    int failed = spp_code_table_start(&state.codes);
    atomic_store(&spp_executions_open, !failed);
    return failed;
}

void spp_executions_follow(bool paused) {
    spp_os_lock();
    atomic_store(&spp_executions_on, atomic_load(&spp_executions_open) && !paused);
    spp_os_unlock();
}

void spp_executions_close(void) {
    atomic_store(&spp_executions_on, false);
    atomic_store(&spp_executions_open, false);
}

void spp_executions_stop(void (*release)(uintptr_t code)) {
    spp_executions_close();
    for (size_t i = 0; i < SPP_CODE_SLOTS; i++) {
        spp_executions *of = spp_code_table_at(&state.codes, i);
        if (of == NULL) continue;
        release(of->code);
        free_lines(of);
    }
    spp_code_table_free(&state.codes);
}

/* ---- the file */

/* Columns of block B. */
enum {
    FUNCTION = SPP_NAMED_COLUMNS, /* one for each code object, up to CALLS */
    CALLS,
    LINE_ROW, /* of a line: which of those; its number; its executions */
    LINE,
    LINE_COUNT,
    WAY_ROW, /* of a way: which of those; instructions from and to, in bytes; the branch's line; where it goes on; how often */
    WAY_FROM,
    WAY_TO,
    WAY_LINE,
    WAY_NEXT,
    WAY_COUNT,
    ABOUT, /* functions that are not counted, branches that were lost */
    COLUMNS
};

typedef struct {
    spp_named named;
    spp_vec64 of[COLUMNS];
} writing;

static void push(writing *w, int column, uint64_t value) { (void)spp_vec64_push(&w->of[column], value); }

static void put_lines(writing *w, uint64_t row, const spp_executions *of) {
    for (uint32_t i = 0; i < of->span; i++) {
        if (!of->has[i]) continue;
        push(w, LINE_ROW, row);
        push(w, LINE, of->first_line + i);
        push(w, LINE_COUNT, atomic_load_explicit(&of->count[i], memory_order_relaxed));
    }
}

static void put_way(writing *w, uint64_t row, const spp_executions *of, uint32_t from, const way *one) {
    uint32_t to = atomic_load_explicit(&one->to, memory_order_acquire);
    if (to == 0) return;
    push(w, WAY_ROW, row);
    push(w, WAY_FROM, 2u * from);
    push(w, WAY_TO, 2u * (to - 1));
    push(w, WAY_LINE, of->line_of[from]);
    push(w, WAY_NEXT, one->line);
    push(w, WAY_COUNT, atomic_load_explicit(&one->count, memory_order_relaxed));
}

void spp_executions_write(bool last) {
    if (!atomic_load(&spp_executions_open)) return;
    writing w = {0};
    uint64_t row = 0;
    w.named.of = w.of;
    if (last) {
        spp_os_lock();
        spp_executions_close();
        spp_os_unlock();
    }
    for (size_t i = 0; i < SPP_CODE_SLOTS; i++) {
        const spp_executions *of = spp_code_table_at(&state.codes, i);
        if (of == NULL) continue;
        push(&w, FUNCTION, spp_named_code(&w.named, of->code));
        push(&w, CALLS, atomic_load_explicit(&of->calls, memory_order_relaxed));
        put_lines(&w, row, of);
        for (uint32_t k = 0; k < of->instructions * WAYS; k++) put_way(&w, row, of, k / WAYS, &of->ways[k]);
        row++;
    }
    spp_os_lock();
    push(&w, ABOUT, state.no_space);
    spp_os_unlock();
    push(&w, ABOUT, atomic_load(&state.lost));
    spp_write_exact('B', &w.named.text, w.of, COLUMNS);
    spp_named_free(&w.named);
    for (int i = 0; i < COLUMNS; i++) spp_vec64_free(&w.of[i]);
}
