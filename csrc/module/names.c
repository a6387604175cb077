#include "module/names.h"

#include "core/run.h"

/* macOS's ids have 64 bits, of which a tid has the lower ones. */
static void name(unsigned long long tid, PyObject *text) {
    PyObject *utf8 = PyUnicode_Check(text) ? PyUnicode_AsEncodedString(text, "utf-8", "replace") : NULL;
    if (utf8 != NULL && spp_run_active()) spp_run_name((int32_t)(tid & INT32_MAX), PyBytes_AS_STRING(utf8));
    Py_XDECREF(utf8);
}

/* The local variable `self` of the function that runs, if that is `_set_native_id`. */
static PyObject *thread_born(void) {
    PyFrameObject *frame = PyEval_GetFrame(); /* borrowed */
    PyObject *code = frame != NULL ? (PyObject *)PyFrame_GetCode(frame) : NULL, *locals = NULL, *thread = NULL;
    PyObject *function = code != NULL ? PyObject_GetAttrString(code, "co_name") : NULL;
    if (function != NULL && PyUnicode_CompareWithASCIIString(function, "_set_native_id") == 0)
        locals = PyObject_GetAttrString((PyObject *)frame, "f_locals");
    if (locals != NULL) thread = PyMapping_GetItemString(locals, "self");
    Py_XDECREF(locals);
    Py_XDECREF(function);
    Py_XDECREF(code);
    return thread;
}

void spp_names_born(PyObject *id) {
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    PyObject *thread = thread_born(), *text = thread != NULL ? PyObject_GetAttrString(thread, "_name") : NULL;
    if (text != NULL) name(PyLong_AsUnsignedLongLongMask(id), text);
    Py_XDECREF(text);
    Py_XDECREF(thread);
    PyErr_Restore(kind, value, traceback);
}

/* In a forked child `threading` keeps the parent's id of the thread that forked (up to 3.13.0). */
static void name_thread(PyObject *ident, PyObject *thread) {
    bool here = PyLong_Check(ident) && PyLong_AsUnsignedLongMask(ident) == PyThread_get_thread_ident();
    PyObject *id = PyObject_GetAttrString(thread, "_native_id"), *text = PyObject_GetAttrString(thread, "_name");
    if (text != NULL && (here || (id != NULL && PyLong_Check(id))))
        name(here ? (unsigned long long)spp_os_tid() : PyLong_AsUnsignedLongLongMask(id), text);
    Py_XDECREF(id);
    Py_XDECREF(text);
    PyErr_Clear();
}

/* A borrowed reference: `threading._active`, threads by their ident; NULL: the program has not imported it, or it is none. */
static PyObject *active(void) {
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed, as all of these */
    PyObject *threading = modules != NULL && PyDict_Check(modules) ? PyDict_GetItemString(modules, "threading") : NULL;
    PyObject *all =
        threading != NULL && PyModule_Check(threading) ? PyDict_GetItemString(PyModule_GetDict(threading), "_active") : NULL;
    return all != NULL && PyDict_Check(all) ? all : NULL;
}

void spp_names_all(void) {
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    PyObject *all = active(), *pairs = all != NULL ? PyDict_Items(all) : NULL;
    for (Py_ssize_t i = 0; pairs != NULL && i < PyList_GET_SIZE(pairs); i++) {
        PyObject *pair = PyList_GET_ITEM(pairs, i);
        name_thread(PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
    }
    Py_XDECREF(pairs);
    PyErr_Clear();
    PyErr_Restore(kind, value, traceback);
}
