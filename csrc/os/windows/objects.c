/* The objects that Windows' loader has mapped. */
#include "os/windows/windows.h"

#include <psapi.h>

#include "os/os.h"

#define MODULES_MAX 1024

const bool spp_os_native = false;

uintptr_t spp_os_symbol(const char *name) {
    static HMODULE modules[MODULES_MAX];
    DWORD bytes = 0;
    if (!K32EnumProcessModules(GetCurrentProcess(), modules, sizeof modules, &bytes)) return 0;
    for (DWORD i = 0; i < bytes / sizeof *modules && i < MODULES_MAX; i++) {
        FARPROC at = GetProcAddress(modules[i], name);
        if (at != NULL) return (uintptr_t)(void *)at;
    }
    return 0;
}

/* Native frames are not there yet on Windows. */
void spp_os_objects(void (*see)(void *arg, const spp_os_object *object), void *arg) { (void)see, (void)arg; }
uint64_t spp_os_objects_stamp(void) { return 0; }

bool spp_os_object_symbols(const spp_os_object *object, spp_os_see_symbol see, void *arg) {
    (void)object, (void)see, (void)arg;
    return true;
}

void *spp_os_symbol_file(const char *path, size_t *n) {
    (void)path;
    *n = 0;
    return NULL;
}

char *spp_os_jit_map(uint64_t *known, size_t *n) {
    (void)known, (void)n;
    return NULL;
}
