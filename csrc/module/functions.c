/* Names of native functions, from Python objects: each built-in function, method descriptor and
 * slot wrapper holds the address of its C function, and a profile with native frames has the start
 * of each sampled native function. Equal addresses give a name, for stripped libraries too. An
 * address with several names, such as that of `list.__lt__` and `list.__gt__`, gets none. No code
 * of the program runs here: modules and types are read without their own `__getattr__`. */
#include "module/functions.h"

#include <stdbool.h>
#include <stdio.h>

#include "base/json.h"
#include "core/run/run.h"
#include "module/compat.h"
#include "module/header.h"

static PyObject *native_functions(PyObject *self, PyObject *none) {
    (void)self, (void)none;
    spp_vec64 found = spp_run_native_functions();
    PyObject *dict = PyDict_New();
    for (size_t i = 0; i + 1 < found.n && dict != NULL; i += 2) {
        PyObject *address = PyLong_FromUnsignedLongLong(found.at[i]), *code = PyLong_FromUnsignedLongLong(found.at[i + 1]);
        if (address == NULL || code == NULL || PyDict_SetItem(dict, address, code) != 0) Py_CLEAR(dict);
        Py_XDECREF(address);
        Py_XDECREF(code);
    }
    spp_vec64_free(&found);
    return dict;
}

static bool is_method(const PyTypeObject *type) {
    return type == &PyMethodDescr_Type || type == &PyClassMethodDescr_Type || type == &PyWrapperDescr_Type;
}

/* 0: of no C function. */
static uintptr_t address_of(PyObject *object) {
    const PyTypeObject *type = Py_TYPE(object);
    if (type == &PyCFunction_Type) return (uintptr_t)((PyCFunctionObject *)object)->m_ml->ml_meth;
    if (type == &PyWrapperDescr_Type) return (uintptr_t)((PyWrapperDescrObject *)object)->d_wrapped;
    return is_method(type) ? (uintptr_t)((PyMethodDescrObject *)object)->d_method->ml_meth : 0;
}

static PyObject *function_address(PyObject *self, PyObject *object) {
    (void)self;
    return PyLong_FromUnsignedLongLong(address_of(object));
}

/* As the program would write it, with its module if that is not `builtins`. NULL, perhaps with an exception: it has none. */
static PyObject *name_of(PyObject *object) {
    PyObject *owner = is_method(Py_TYPE(object)) ? (PyObject *)PyDescr_TYPE(object) : object, *name = NULL;
    PyObject *module = PyObject_GetAttrString(owner, "__module__");
    PyObject *qualname = PyObject_GetAttrString(object, "__qualname__");
    if (module == NULL) PyErr_Clear();
    if (qualname != NULL && PyUnicode_CheckExact(qualname) && (module == NULL || module == Py_None || PyUnicode_Check(module))) {
        bool plain = module == NULL || module == Py_None || PyUnicode_CompareWithASCIIString(module, "builtins") == 0;
        name = plain ? Py_NewRef(qualname) : PyUnicode_FromFormat("%U.%U", module, qualname);
    }
    Py_XDECREF(module);
    Py_XDECREF(qualname);
    return name;
}

/* Notes its name: names[code] is it, or None if there are several. -1 with an exception. */
static int note(PyObject *object, PyObject *wanted, PyObject *names) {
    uintptr_t address = address_of(object);
    if (address == 0) return 0;
    PyObject *key = PyLong_FromUnsignedLongLong(address), *code = key != NULL ? PyDict_GetItem(wanted, key) : NULL;
    Py_XDECREF(key);
    if (code == NULL) return 0;
    PyObject *name = name_of(object), *known = PyDict_GetItem(names, code);
    if (name == NULL) return PyErr_Clear(), 0;
    bool same = known == NULL || (known != Py_None && PyUnicode_Compare(known, name) == 0);
    int failed = PyDict_SetItem(names, code, same ? name : Py_None);
    Py_DECREF(name);
    return failed;
}

/* All values of a dict, of which some hold a function inside. */
static int note_values(PyObject *dict, bool of_module, PyObject *wanted, PyObject *names) {
    PyObject *values = PyDict_Values(dict); /* a snapshot */
    int failed = values == NULL ? -1 : 0;
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(values); i++) {
        PyObject *value = Py_NewRef(PyList_GET_ITEM(values, i)), *bound = NULL;
        if (of_module && PyCFunction_CheckExact(value)) bound = PyCFunction_GET_SELF(value);
        /* Not the bound method of some object, as `random.random` is. */
        bool usable = !of_module || (PyCFunction_CheckExact(value) && (bound == NULL || PyModule_CheckExact(bound)));
        if (!of_module && (Py_TYPE(value) == &PyStaticMethod_Type || Py_TYPE(value) == &PyClassMethod_Type))
            Py_SETREF(value, PyObject_GetAttrString(value, "__func__"));
        if (value == NULL)
            PyErr_Clear();
        else if (usable)
            failed = note(value, wanted, names);
        Py_XDECREF(value);
    }
    Py_XDECREF(values);
    return failed;
}

static int note_modules(PyObject *wanted, PyObject *names) {
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
    PyObject *list = modules != NULL && PyDict_Check(modules) ? PyDict_Values(modules) : PyList_New(0);
    int failed = list == NULL ? -1 : 0;
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(list); i++) {
        PyObject *module = PyList_GET_ITEM(list, i);
        if (PyModule_CheckExact(module)) failed = note_values(PyModule_GetDict(module), true, wanted, names);
    }
    Py_XDECREF(list);
    return failed;
}

/* The descriptor that returns a type's own dict: type.__dict__["__dict__"]. A new reference. */
static PyObject *dict_of_types(void) {
    PyObject *all = PyObject_GetAttrString((PyObject *)&PyType_Type, "__dict__");
    PyObject *one = all != NULL ? PyMapping_GetItemString(all, "__dict__") : NULL;
    Py_XDECREF(all);
    return one;
}

/* A dict of what the type itself has, by that descriptor. */
static PyObject *contents(PyObject *descriptor, PyObject *type) {
    PyObject *proxy = PyObject_CallMethod(descriptor, "__get__", "O", type), *dict = PyDict_New();
    if (proxy == NULL || dict == NULL || PyDict_Update(dict, proxy) != 0) Py_CLEAR(dict);
    Py_XDECREF(proxy);
    return dict;
}

/* The classes that `type.__subclasses__` returns, whatever their metaclass says; each once. */
static int note_types(PyObject *wanted, PyObject *names) {
    PyObject *descriptor = dict_of_types(), *todo = PyList_New(0), *seen = PyDict_New();
    int failed = descriptor == NULL || todo == NULL || seen == NULL || PyList_Append(todo, (PyObject *)&PyBaseObject_Type) != 0;
    for (Py_ssize_t at = 0; !failed && at < PyList_GET_SIZE(todo); at++) {
        PyObject *type = PyList_GET_ITEM(todo, at), *dict = contents(descriptor, type);
        PyObject *below = PyObject_CallMethod((PyObject *)&PyType_Type, "__subclasses__", "O", type);
        failed = dict == NULL || below == NULL || note_values(dict, false, wanted, names) != 0;
        for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(below); i++) {
            PyObject *one = PyList_GET_ITEM(below, i), *key = PyLong_FromVoidPtr(one); /* a metaclass may have its own __hash__ */
            if (key != NULL && PyDict_GetItem(seen, key) == NULL)
                failed = PyDict_SetItem(seen, key, Py_None) != 0 || PyList_Append(todo, one) != 0;
            Py_XDECREF(key);
        }
        Py_XDECREF(dict);
        Py_XDECREF(below);
    }
    Py_XDECREF(descriptor);
    Py_XDECREF(todo);
    Py_XDECREF(seen);
    return failed ? -1 : 0;
}

/* {code id: name}; NULL with an exception. */
static PyObject *names_of(PyObject *wanted) {
    PyObject *names = PyDict_New();
    if (names == NULL || PyDict_GET_SIZE(wanted) == 0) return names;
    if (note_modules(wanted, names) != 0 || note_types(wanted, names) != 0) Py_CLEAR(names);
    PyObject *codes = names != NULL ? PyDict_Keys(names) : NULL;
    for (Py_ssize_t i = 0; codes != NULL && i < PyList_GET_SIZE(codes); i++) {
        PyObject *code = PyList_GET_ITEM(codes, i);
        if (PyDict_GetItem(names, code) == Py_None) (void)PyDict_DelItem(names, code);
    }
    Py_XDECREF(codes);
    return names;
}

static PyObject *functions(PyObject *self, PyObject *wanted) {
    (void)self;
    if (!PyDict_Check(wanted)) return PyErr_Format(PyExc_TypeError, "functions takes a dict");
    PyObject *own = PyDict_Copy(wanted), *names = own != NULL ? names_of(own) : NULL; /* which no other thread changes */
    Py_XDECREF(own);
    return names;
}

static void write_names(PyObject *names) {
    spp_bytes text = {0};
    PyObject *code, *name;
    Py_ssize_t at = 0;
    spp_json_raw(&text, "{");
    spp_json_key(&text, "names");
    spp_json_raw(&text, "{");
    while (PyDict_Next(names, &at, &code, &name)) {
        char key[24];
        snprintf(key, sizeof key, "%llu", PyLong_AsUnsignedLongLong(code));
        spp_json_key(&text, key);
        spp_header_text(&text, name);
    }
    spp_json_raw(&text, "}}");
    if (PyDict_GET_SIZE(names) > 0) spp_run_native_names((const char *)text.at, text.n);
    spp_bytes_free(&text);
}

void spp_functions_name(void) {
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    PyObject *wanted = native_functions(NULL, NULL), *names = wanted != NULL ? names_of(wanted) : NULL;
    if (names != NULL) write_names(names);
    Py_XDECREF(names);
    Py_XDECREF(wanted);
    PyErr_Clear();
    PyErr_Restore(kind, value, traceback);
}

PyMethodDef spp_functions_methods[] = {
    {"native_functions", native_functions, METH_NOARGS, "Native functions sampled so far."},
    {"function_address", function_address, METH_O, "Where the C function behind a callable begins."},
    {"functions", functions, METH_O, "Names of native functions in Python."},
    {NULL, NULL, 0, NULL},
};
