/* Where Python notes that a signal came. */
#include "module/note.h"

#include <Python.h>

#include "os/os.h"

PyAPI_DATA(char) _PyRuntime; /* of which the headers for everybody do not tell */
#define RUNTIME_BYTES 8192u  /* looked through, of the runtime's state */

static uintptr_t word(uintptr_t at) {
    uintptr_t value;
    return spp_os_read(&value, at, sizeof value) == 0 ? value : 0;
}

/* Where Python's handler notes that a signal waits for the main thread, told by what stands behind it in the runtime's state:
 * since 3.12 the two objects that stand for SIG_DFL and SIG_IGN; before, the GIL's interval and who held it last. 0: not found.
 * With the GIL. */
uintptr_t spp_note_find(void) {
    const uintptr_t at = (uintptr_t)&_PyRuntime;
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
    for (uint32_t i = 8; i < RUNTIME_BYTES && first != 0 && second != 0; i += 8) {
        if (word(at + i) != first || word(at + i + 8) != second) continue;
        if (found != 0) return found = 0;
        found = at + i - 8;
    }
    return found;
}
