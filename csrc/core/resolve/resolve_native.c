#include "core/resolve/resolve_native.h"

#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "core/capture/threads.h"
#include "core/native/native.h"
#include "core/resolve/intern.h"

static spp_map frames; /* by address */
static spp_map codes;  /* by the address at which the function begins */
static spp_code scratch;

/* Without what compilers add to copies and parts of a function: f.isra.0, f.constprop.1, f.cold. */
static void set_function(spp_bytes *to, const char *name) {
    static const char *const added[] = {".isra.", ".constprop.", ".part.", ".cold", ".lto_priv.", ".llvm."};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof added / sizeof *added; i++) {
        const char *at = strstr(name, added[i]);
        if (at != NULL && at != name && (size_t)(at - name) < n) n = (size_t)(at - name);
    }
    to->n = 0;
    spp_bytes_append(to, name, n);
}

/* CPython's own functions between a caller and what it calls: those that start with Py or _Py. Those without a symbol cannot be
 * distinguished from the rest of the interpreter. */
static bool is_plumbing(const spp_native_place *place) {
    if (!place->python || spp_cap.native_full) return false;
    static const char *const begins[] = {"Py", "_Py", "py::", "py_trampoline_"};
    for (size_t i = 0; place->function != NULL && i < sizeof begins / sizeof *begins; i++) {
        if (strncmp(place->function, begins[i], strlen(begins[i])) == 0) return true;
    }
    return place->function == NULL;
}

/* The function at a native frame's address, and what is known of the place; false: it is not to be shown. */
static bool function_at(spp_frame frame, spp_native_place *place, spp_bytes *name) {
    uintptr_t pc = spp_frame_pc(frame);
    char text[64];
    if (pc == 0) {
        place->function = "[native unpaired]";
    } else if (frame == SPP_UNKNOWN_STACK) {
        place->function = "[unknown stack]";
    } else if (!spp_native_place_of(pc, place)) {
        place->function = "[unknown]"; /* code that some program made: a JIT's, a trampoline */
    } else if (is_plumbing(place)) {
        return false;
    }
    /* Stripped, with a part of it split off: Debian's 3.14 and 3.15. */
    if (place->function == NULL && (frame & SPP_NATIVE_EVALUATOR)) place->function = "_PyEval_EvalFrameDefault";
    if (place->function == NULL) {
        const char *file = strrchr(place->file, '/');
        snprintf(text, sizeof text, "[%.32s+0x%llx]", file != NULL ? file + 1 : place->file, (unsigned long long)place->start);
        place->function = text;
    }
    set_function(name, place->function);
    place->function = NULL; /* it may be in `text` */
    return true;
}

#define NOWHERE spp_frame_native(1) /* an address that no object holds */

static uint32_t name_native(spp_frame frame) {
    spp_native_place place = {.file = ""};
    if (!function_at(frame, &place, &scratch.name)) return SPP_INTERN_HIDDEN;
    scratch.qualname.n = 0;
    spp_bytes_append(&scratch.qualname, scratch.name.at, scratch.name.n);
    scratch.file.n = 0;
    spp_bytes_append(&scratch.file, place.file, strlen(place.file));
    scratch.first_line = place.start <= INT32_MAX ? (int32_t)place.start : 0;
    uint32_t code = spp_intern_code(&scratch, SPP_KIND_NATIVE);
    uintptr_t begins = spp_frame_pc(frame) - (uintptr_t)(place.at - place.start);
    if (place.file[0] != 0 && spp_map_get(&codes, begins, 0) == SPP_MAP_NONE) {
        (void)spp_map_add(&codes, begins, 0, code);
    }
    int32_t at = place.at <= INT32_MAX ? (int32_t)place.at : 0;
    return spp_intern_frame(code, scratch.first_line, (spp_place){at, at, -1, -1});
}

uint32_t spp_resolve_native(spp_frame frame, uint64_t sampled_ns) {
    if (spp_native_doubtful(spp_frame_pc(frame), sampled_ns)) return name_native(NOWHERE);
    uint32_t id = spp_map_get(&frames, frame, 0);
    if (id != SPP_MAP_NONE) return id - 1;
    id = name_native(frame);
    (void)spp_map_add(&frames, frame, 0, id + 1); /* SPP_INTERN_HIDDEN becomes 0; no memory: named again next time */
    return id;
}

void spp_resolve_native_moved(bool (*stays)(uintptr_t address)) {
    spp_map_free(&frames);
    if (stays == NULL) return;
    spp_map kept = {0};
    for (size_t i = 0; codes.slots != NULL && i <= codes.mask; i++) {
        const spp_map_slot *slot = &codes.slots[i];
        if (slot->used && stays(slot->a)) (void)spp_map_add(&kept, slot->a, 0, slot->value);
    }
    spp_map_free(&codes);
    codes = kept;
}

void spp_resolve_native_codes(spp_vec64 *to) {
    for (size_t i = 0; codes.slots != NULL && i <= codes.mask; i++) {
        const spp_map_slot *slot = &codes.slots[i];
        if (!slot->used || spp_vec64_reserve(to, 2) != 0) continue;
        spp_vec64_push(to, slot->a);
        spp_vec64_push(to, slot->value);
    }
}

bool spp_resolve_native_is_full(void) { return frames.n > SPP_INTERN_MOST; }

void spp_resolve_native_forget(void) {
    spp_map_free(&frames);
    spp_map_free(&codes);
}

void spp_resolve_native_abandon(void) {
    memset(&frames, 0, sizeof frames);
    memset(&codes, 0, sizeof codes);
    memset(&scratch, 0, sizeof scratch);
}
