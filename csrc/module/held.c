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
