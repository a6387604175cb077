/* Where Python notes that a signal came. */
#include "module/note.h"

#include <Python.h>
#include <string.h>

#include "os/memory.h"

PyAPI_DATA(char) _PyRuntime[]; /* not declared in the public headers */
#define RUNTIME_BYTES 8192u    /* looked through, of the runtime's state */

#define PIECE 512u /* read at once */

/* All of it, and zeroes where nothing can be read. */
static void copy(uintptr_t to[RUNTIME_BYTES / 8], uintptr_t at) {
    if (spp_os_read(to, at, RUNTIME_BYTES) == 0) return;
    for (uint32_t i = 0; i < RUNTIME_BYTES; i += PIECE) {
        if (spp_os_read(to + i / 8, at + i, PIECE) != 0) memset(to + i / 8, 0, PIECE);
    }
}

/* Where Python's signal handler notes that a signal waits for the main thread. It is found by what
 * follows it in the runtime's state: since 3.12 the two objects for SIG_DFL and SIG_IGN; before,
 * the GIL's switch interval and last holder. 0: not found. With the GIL. */
uintptr_t spp_note_find(void) {
    const uintptr_t at = (uintptr_t)_PyRuntime;
    static uintptr_t found;
    uintptr_t first, second;
    if (found != 0) return found;
#if PY_VERSION_HEX >= 0x030C0000
    PyObject *module = PyImport_ImportModule("_signal");
    PyObject *usual = module != NULL ? PyObject_GetAttrString(module, "SIG_DFL") : NULL;
    PyObject *ignored = module != NULL ? PyObject_GetAttrString(module, "SIG_IGN") : NULL;
    PyErr_Clear();
    first = (uintptr_t)usual, second = (uintptr_t)ignored;
    Py_XDECREF(usual);
    Py_XDECREF(ignored);
    Py_XDECREF(module);
#else
    first = _PyEval_GetSwitchInterval(), second = (uintptr_t)PyThreadState_Get();
#endif
    if (first == 0 || second == 0) return 0;
    uintptr_t words[RUNTIME_BYTES / 8];
    copy(words, at);
    for (uint32_t i = 1; i + 1 < RUNTIME_BYTES / 8; i++) {
        if (words[i] != first || words[i + 1] != second) continue;
        if (found != 0) return found = 0;
        found = at + (i - 1) * 8;
    }
    return found;
}
