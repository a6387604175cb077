#include "core/resolve/resolve_native.h"

#include <stdio.h>
#include <string.h>

#include "core/capture/capture.h"

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

bool spp_resolve_native_name(spp_frame frame, spp_native_place *place, spp_bytes *name) {
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
