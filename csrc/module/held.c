#include "module/held.h"

PyObject *spp_held(PyObject *dict, const char *key) {
    PyObject *value = NULL;
    if (dict == NULL || !PyDict_Check(dict)) return NULL;
#if PY_VERSION_HEX >= 0x030D0000
    if (PyDict_GetItemStringRef(dict, key, &value) < 0) PyErr_Clear();
#else
    value = PyDict_GetItemString(dict, key);
    Py_XINCREF(value);
#endif
    return value;
}

PyObject *spp_held_by_module(const char *module, const char *name) {
    PyObject *holder = spp_held(PyImport_GetModuleDict(), module); /* which the interpreter keeps */
    PyObject *value = holder != NULL && PyModule_Check(holder) ? spp_held(PyModule_GetDict(holder), name) : NULL;
    Py_XDECREF(holder);
    return value;
}

void spp_held_release(uintptr_t object) { Py_DECREF((PyObject *)object); }

#if PY_VERSION_HEX >= 0x030B0000

/* The core samples all interpreters, and does not know whose a code object is; the others' are not ours to touch. New ones come
 * before the main one in CPython's list. */
static bool is_alone(void) { return PyInterpreterState_Head() == PyInterpreterState_Main(); }

#ifdef Py_GIL_DISABLED

/* The core knows the code object, but refers to it no more than anybody: it may be dying, and then waits in tp_dealloc for the
 * drain lock, which the caller has. Code objects have a deferred reference count, so their shared one is not 0 while they live.
 */
bool spp_held_code(uintptr_t code) {
    if (!is_alone()) return false;
    if (_Py_IsImmortal((PyObject *)code)) return true;
    Py_ssize_t *shared = &((PyObject *)code)->ob_ref_shared, now = __atomic_load_n(shared, __ATOMIC_RELAXED);
    do {
        if (now == 0 || now == _Py_REF_MERGED) return false;
    } while (
        !__atomic_compare_exchange_n(shared, &now, now + (1 << _Py_REF_SHARED_SHIFT), true, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
    return true;
}

#else

/* With the GIL a code object that the core knows has not begun to die. */
bool spp_held_code(uintptr_t code) {
    if (!is_alone()) return false;
    Py_INCREF((PyObject *)code);
    return true;
}

#endif
#endif
