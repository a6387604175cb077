#include "core/run/imports.h"

#include <string.h>

#include "base/spinlock.h"
#include "base/vec.h"
#include "core/file/write.h"

/* Columns of block I (docs/file-format.md). */
enum { STRING_LEN, NAME, FILE_NAME, TID, BEGAN, TOOK, FAILED, COLUMNS };

_Atomic bool spp_imports_on;

/* Under `lock`, which is held for microseconds, but while the block is written. */
static struct {
    bool started, closed;
    spp_bytes text;
    spp_vec64 of[COLUMNS];
} state;
static spp_spinlock lock;

static uint64_t add_string(const char *text) {
    size_t n = strlen(text);
    spp_bytes_append(&state.text, text, n);
    spp_vec64_push(&state.of[STRING_LEN], n);
    return state.of[STRING_LEN].n - 1;
}

void spp_imports_start(void) {
    state.started = true;
    state.closed = false;
}

void spp_imports_add(const spp_import *import) {
    spp_spin_lock(&lock);
    if (state.started && !state.closed) {
        const uint64_t words[COLUMNS] = {[NAME] = add_string(import->name), [FILE_NAME] = add_string(import->file),
                                         [TID] = (uint32_t)import->tid,     [BEGAN] = import->began_ns,
                                         [TOOK] = import->took_ns,          [FAILED] = import->failed};
        for (int i = NAME; i < COLUMNS; i++) spp_vec64_push(&state.of[i], words[i]);
    }
    spp_spin_unlock(&lock);
}

void spp_imports_follow(bool paused) {
    spp_spin_lock(&lock);
    atomic_store(&spp_imports_on, state.started && !state.closed && !paused);
    spp_spin_unlock(&lock);
}

void spp_imports_write(bool last) {
    spp_spin_lock(&lock);
    if (state.started && !state.closed) spp_write_exact('I', &state.text, state.of, COLUMNS);
    if (last) {
        state.closed = true;
        atomic_store(&spp_imports_on, false);
    }
    spp_spin_unlock(&lock);
}

void spp_imports_stop(void) {
    atomic_store(&spp_imports_on, false);
    spp_spin_lock(&lock);
    state.started = false;
    spp_bytes_free(&state.text);
    for (int i = 0; i < COLUMNS; i++) spp_vec64_free(&state.of[i]);
    spp_spin_unlock(&lock);
}

void spp_imports_child(void) {
    spp_spin_reset(&lock);
    atomic_store(&spp_imports_on, false);
    state.closed = true;
}
