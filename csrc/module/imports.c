/* All imports of modules that are not there yet go through one function of importlib: the statement's and import_module's. -X
 * importtime times that call, too. During the run ours replaces it, and calls it. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "module/imports.h"

#include "core/run/imports.h"
#include "module/compat.h"
#include "module/held.h"
#include "os/clock.h"
#include "os/threads.h"

#define LOADER "_frozen_importlib"
#define FIND "_find_and_load"

static bool timed;

static const char *text_of(PyObject *text) {
    const char *utf8 = text != NULL && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : NULL;
    if (utf8 == NULL) PyErr_Clear();
    return utf8 != NULL ? utf8 : "";
}

/* Runs nothing of the program's. */
static void note(PyObject *name, PyObject *module, uint64_t began_ns, uint64_t ended_ns) {
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    PyObject *dict = module != NULL && PyModule_Check(module) ? PyModule_GetDict(module) : NULL; /* borrowed */
    PyObject *file = spp_held(dict, "__file__");
    const spp_import import = {began_ns, ended_ns - began_ns, spp_os_tid(), module == NULL, text_of(name), text_of(file)};
    spp_imports_add(&import);
    Py_XDECREF(file);
    PyErr_Restore(kind, value, traceback);
}

static PyObject *find(PyObject *original, PyObject *const *args, Py_ssize_t n) {
    bool notes = atomic_load(&spp_imports_on);
    uint64_t began = spp_os_now_ns();
    PyObject *module = PyObject_Vectorcall(original, args, (size_t)n, NULL);
    if (notes && n > 0) note(args[0], module, began, spp_os_now_ns());
    return module;
}

static PyMethodDef finder = {FIND, (PyCFunction)(void (*)(void))find, METH_FASTCALL,
                             "Finds and loads a module; spprof times it."};

static PyObject *loader_dict(void) {
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed, as what it gives */
    PyObject *loader = modules != NULL && PyDict_Check(modules) ? PyDict_GetItemString(modules, LOADER) : NULL;
    return loader != NULL && PyModule_Check(loader) ? PyModule_GetDict(loader) : NULL;
}

int spp_importing_enter(bool asked) {
    if (!asked) return 0;
    PyObject *dict = loader_dict(), *original = spp_held(dict, FIND);
    PyObject *ours = original != NULL ? PyCFunction_New(&finder, original) : NULL;
    int failed = ours == NULL || PyDict_SetItemString(dict, FIND, ours) != 0;
    Py_XDECREF(ours);
    Py_XDECREF(original);
    if (!failed) spp_imports_start();
    if (failed && !PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "imports cannot be timed: importlib is not CPython's");
    timed = !failed;
    return failed ? -1 : 0;
}

void spp_importing_leave(void) {
    if (!timed) return;
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    timed = false;
    PyObject *dict = loader_dict(), *now = spp_held(dict, FIND);
    if (now != NULL && PyCFunction_CheckExact(now) && PyCFunction_GET_FUNCTION(now) == (PyCFunction)(void (*)(void))find)
        (void)PyDict_SetItemString(dict, FIND, PyCFunction_GET_SELF(now));
    Py_XDECREF(now);
    spp_imports_stop();
    PyErr_Clear();
    PyErr_Restore(kind, value, traceback);
}
