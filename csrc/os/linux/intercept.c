/* The list of functions of the C library that are intercepted. */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "os/linux/handshake.h"
#include "os/linux/linux.h"

static void *(*real_dlsym)(void *, const char *);

/* A program that loads an object calls dlsym() next: hooks the object first. The last call must be a tail call, since dlsym()
 * looks at its return address. */
static void *own_dlsym(void *handle, const char *name) {
    const spp_linux_import *import = handle != RTLD_NEXT ? spp_linux_import_of(name) : NULL;
    void *found = import != NULL ? real_dlsym(handle, name) : NULL;
    if (found != NULL) return found == import->real ? import->own : found;
    spp_linux_imports_replace();
    return real_dlsym(handle, name);
}

static const spp_linux_import dlsym_row = {"dlsym", (void *)(uintptr_t)own_dlsym, NULL, &real_dlsym};

/* Appends rows. Returns the new length. */
static size_t append(spp_linux_import *list, size_t n, const spp_linux_import *rows, size_t more) {
    memcpy(list + n, rows, more * sizeof *list);
    return n + more;
}

void spp_linux_intercept(const spp_linux_signals_others *others) {
    static spp_linux_import list[SPP_LINUX_IMPORTS_MOST];
    if (real_dlsym == NULL) {
        spp_linux_signals_begin(others);
        size_t n = append(list, 0, spp_linux_signal_calls, SPP_LINUX_SIGNAL_CALLS);
        n = append(list, n, &dlsym_row, 1);
        n = append(list, n, spp_linux_execs, SPP_LINUX_EXECS);
        n = append(list, n, spp_linux_alone, SPP_LINUX_ALONE);
        n = append(list, n, spp_linux_alternate, SPP_LINUX_ALTERNATE);
        n = append(list, n, spp_linux_jumps, SPP_LINUX_JUMPS);
        n = append(list, n, spp_linux_wrappers, spp_linux_wrappers_n);
        spp_linux_jumps_learn();
        for (size_t i = 0; i < n; i++) {
            list[i].real = spp_linux_real_of(list[i].name);
            if (list[i].keep != NULL) *(void **)list[i].keep = list[i].real;
        }
        (void)spp_linux_handshakes_make();
        spp_linux_imports_make(list, n);
    }
    spp_linux_imports_replace();
}
