#include "core/run/adaptive.h"

#include <string.h>

#include "base/spinlock.h"
#include "core/file/write.h"
#include "core/resolve/live.h"
#include "core/resolve/resolve.h"
#include "core/resolve/resolve_table.h"
#include "core/run/named.h"
#include "os/lock.h"

/* Columns of block Q (docs/file-format.md). */
enum { FUNCTION = SPP_NAMED_COLUMNS, LINE, END_LINE, COL, END_COL, NAME, MISSED, RUNS, ABOUT, COLUMNS };

/* Under `lock`. */
static struct {
    bool done;
    uint64_t not_read; /* code objects */
    spp_named named;
    spp_vec64 of[COLUMNS];
} state;
static spp_spinlock lock;

void spp_adaptive_start(void) {
    memset(&state, 0, sizeof state);
    state.named.of = state.of;
}

uint32_t spp_adaptive_codes(uintptr_t *codes, uint32_t most, bool (*hold)(uintptr_t code)) {
    uint32_t all;
    spp_os_lock();
    spp_resolve_sure();
    uint32_t held = spp_live_codes(codes, most, hold, &all);
    spp_os_unlock();
    spp_spin_lock(&lock);
    state.not_read = all - held;
    spp_spin_unlock(&lock);
    return held;
}

static uint32_t shifted(int32_t column) { return column >= 0 ? (uint32_t)column + 1 : 0; }

void spp_adaptive_add(uintptr_t address, const spp_adaptive_instruction *instructions, uint32_t n) {
    spp_code code = {0};
    spp_table lines = {0};
    bool known = spp_code_read(address, &code) == 0 && code.lines_known &&
                 spp_table_open(&lines, code.lines, code.lines_n, code.first_line) == 0;
    spp_spin_lock(&lock);
    for (uint32_t i = 0; known && i < n; i++) {
        const spp_adaptive_instruction *one = &instructions[i];
        spp_place place = spp_table_place(&lines, one->offset);
        const uint64_t row[] = {spp_named_code(&state.named, address),
                                place.line > 0 ? (uint32_t)place.line : 0,
                                place.end_line > 0 ? (uint32_t)place.end_line : 0,
                                shifted(place.col),
                                shifted(place.end_col),
                                spp_named_string(&state.named, one->name, strlen(one->name)),
                                one->missed,
                                one->runs};
        for (int k = FUNCTION; k < ABOUT; k++) (void)spp_vec64_push(&state.of[k], row[k - FUNCTION]);
    }
    spp_spin_unlock(&lock);
    if (known) spp_table_close(&lines);
    spp_bytes_free(&code.name);
    spp_bytes_free(&code.qualname);
    spp_bytes_free(&code.file);
}

void spp_adaptive_done(void) {
    spp_spin_lock(&lock);
    state.done = true;
    spp_spin_unlock(&lock);
}

void spp_adaptive_write(void) {
    spp_spin_lock(&lock);
    if (state.done) {
        (void)spp_vec64_push(&state.of[ABOUT], state.not_read);
        spp_write_exact('Q', &state.named.text, state.of, COLUMNS);
    }
    spp_spin_unlock(&lock);
}

void spp_adaptive_stop(void) {
    spp_spin_lock(&lock);
    state.done = false;
    spp_named_free(&state.named);
    for (int i = 0; i < COLUMNS; i++) spp_vec64_free(&state.of[i]);
    spp_spin_unlock(&lock);
}

void spp_adaptive_child(void) {
    spp_spin_reset(&lock);
    state.done = false;
}
