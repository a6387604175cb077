#include "os/windows/windows.h"

uintptr_t spp_windows_find(const wchar_t *library, const char *name) {
    HMODULE module = GetModuleHandleW(library);
    return module != NULL ? (uintptr_t)(void *)GetProcAddress(module, name) : 0;
}

/* How many leading units of the text fit into `limit` bytes of UTF-8. A surrogate pair (4 bytes) is
 * not split; a lone surrogate becomes U+FFFD, which has 3 bytes as a lone unit would. */
static int units_that_fit(const wchar_t *from, size_t limit) {
    int n = 0;
    for (size_t bytes = 0; from[n] != 0;) {
        bool pair = IS_HIGH_SURROGATE(from[n]) && IS_LOW_SURROGATE(from[n + 1]);
        bytes += pair ? 4 : from[n] < 0x80 ? 1 : from[n] < 0x800 ? 2 : 3;
        if (bytes > limit) break;
        n += pair ? 2 : 1;
    }
    return n;
}

/* WideCharToMultiByte writes half of what does not fit, and says that nothing was written. */
void spp_windows_utf8(const wchar_t *from, char *to, size_t size) {
    int n = units_that_fit(from, size - 1), bytes = 0;
    if (n > 0) bytes = WideCharToMultiByte(CP_UTF8, 0, from, n, to, (int)size - 1, NULL, NULL);
    to[bytes] = 0;
}

/* A thread that has ended is in the system's lists, and can be opened, while anybody has a handle of it: we do of each that is
 * armed. */
bool spp_windows_has_ended(HANDLE thread) { return WaitForSingleObject(thread, 0) == WAIT_OBJECT_0; }
