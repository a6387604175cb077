#include "module/spans.h"

#include <Python.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/capture/contexts.h"
#include "core/capture/spans.h"

/* Where instances of classes have their attributes (Objects/dictobject.c, Include/internal/pycore_object.h): in a dict of their
 * own; from 3.11 on in values before the object, beside a dict or in its place; from 3.13 on behind it. */
#if PY_VERSION_HEX < 0x030B0000
#define INSTANCES .managed = 0
#elif PY_VERSION_HEX < 0x030C0000
#define INSTANCES .managed = 1u << 4, .dict_at = -24, .values_at = -32
#elif PY_VERSION_HEX < 0x030D0000
#define INSTANCES .managed = 1u << 4, .dict_at = -24
#elif defined Py_GIL_DISABLED
#define INSTANCES .managed = 1u << 4, .inlined = 1u << 2, .dict_at = -8, .values_first = 8
#else
#define INSTANCES .managed = 1u << 4, .inlined = 1u << 2, .dict_at = -24, .values_first = 8
#endif

/* Names that live for ever, since the core knows them by their addresses; made once, or each run would hold another reference. */
enum { RUNTIME, VARIABLE, KEY, API, TYPE, CONTEXT, NAMES };
static uintptr_t names[NAMES];

static bool have_names(void) {
    static const char *const texts[NAMES] = {"_RUNTIME_CONTEXT", "_current_context", "_SPAN_KEY",
                                             "context_api",      "SpanContext",      "_context"};
    for (int i = 0; i < NAMES; i++) {
        if (names[i] == 0) names[i] = (uintptr_t)PyUnicode_InternFromString(texts[i]);
        if (names[i] == 0) return false;
    }
    return true;
}

/* ---- contexts */

/* Sets so many variables of the current context; gives the last one, a new reference. NULL: no memory. */
static PyObject *set_variables(int n, PyObject *value) {
    PyObject *variable = NULL;
    for (int i = 0; i < n; i++) {
        char text[24]; /* of names of their own: hashes of addresses alone may fall together */
        snprintf(text, sizeof text, "spprof.%d", i);
        Py_XDECREF(variable); /* the context has it */
        variable = PyContextVar_New(text, NULL);
        PyObject *token = variable != NULL ? PyContextVar_Set(variable, value) : NULL;
        Py_XDECREF(token);
        if (token == NULL) {
            Py_CLEAR(variable);
            break;
        }
    }
    return variable;
}

/* Offset of a variable's hash in it; 0: unknown. */
static uintptr_t hash_in(PyObject *variable, Py_hash_t hash) {
    for (uintptr_t at = sizeof(PyObject); at + 8 <= (uintptr_t)Py_TYPE(variable)->tp_basicsize; at += 8) {
        if (*(const uint64_t *)((uintptr_t)variable + at) == (uint64_t)hash) return at;
    }
    return 0;
}

/* Learns from a context of so many variables what kind of node it has at the top, and looks for the value of one there. */
static bool learn_node(int n, uintptr_t *type) {
    PyObject *context = PyContext_New();
    if (context == NULL || PyContext_Enter(context) != 0) {
        Py_XDECREF(context);
        return false;
    }
    const uintptr_t tstate = (uintptr_t)PyThreadState_Get();
    PyObject *variable = set_variables(n, context);
    bool right = variable != NULL;
    if (right) {
        Py_hash_t hash = PyObject_Hash(variable);
        uint32_t folded = spp_context_fold((uint64_t)hash);
        PyObject *node = (PyObject *)spp_context_root(tstate);
        if (node != NULL) *type = (uintptr_t)Py_TYPE(node);
        spp_span_rule.hash = hash_in(variable, hash);
        /* Deeper nodes of a full context are of the other kind, which is known by then. */
        right =
            node != NULL && spp_span_rule.hash != 0 && spp_context_has(tstate, (uintptr_t)variable, folded, (uintptr_t)context);
    }
    if (PyContext_Exit(context) != 0) right = false;
    Py_XDECREF(variable);
    Py_DECREF(context);
    return right;
}

/* ---- instances, and ints */

static bool has(PyObject *object, PyObject *attribute, PyObject *value) {
    return spp_span_attribute((uintptr_t)object, (uintptr_t)attribute) == (uintptr_t)value;
}

/* Whether attributes are found in an instance, before and after it has a dict. */
static bool proven_attributes(void) {
    PyObject *type = PyObject_CallFunction((PyObject *)&PyType_Type, "s(){}", "probe");
    PyObject *object = type != NULL ? PyObject_CallObject(type, NULL) : NULL;
    PyObject *first = PyUnicode_InternFromString("_first"), *second = PyUnicode_InternFromString("_context");
    bool right = object != NULL && first != NULL && second != NULL;
    right = right && has(object, second, NULL) && PyObject_SetAttr(object, first, Py_None) == 0 && has(object, second, NULL) &&
            PyObject_SetAttr(object, second, type) == 0 && has(object, second, type) && has(object, first, Py_None);
    PyObject *dict = right ? PyObject_GenericGetDict(object, NULL) : NULL;
    right =
        dict != NULL && has(object, second, type) && PyObject_SetAttr(object, second, first) == 0 && has(object, second, first);
    for (int i = 0; right && i < 40; i++) { /* more than instances share */
        PyObject *other = PyUnicode_FromFormat("other_%d", i);
        right = other != NULL && PyDict_SetItem(dict, other, Py_None) == 0;
        Py_XDECREF(other);
    }
    right = right && has(object, second, first);
    Py_XDECREF(dict);
    Py_XDECREF(first);
    Py_XDECREF(second);
    Py_XDECREF(object);
    Py_XDECREF(type);
    return right;
}

static bool proven_ids(const char *trace, const char *id, spp_trace_ids wanted) {
    PyObject *first = PyLong_FromString(trace, NULL, 16), *second = PyLong_FromString(id, NULL, 16);
    PyObject *pair = first != NULL && second != NULL ? PyTuple_Pack(2, first, second) : NULL;
    spp_trace_ids found = {0};
    bool right = pair != NULL && spp_span_ids((uintptr_t)pair, &found) && found.trace_high == wanted.trace_high &&
                 found.trace_low == wanted.trace_low && found.id == wanted.id;
    Py_XDECREF(pair);
    Py_XDECREF(first);
    Py_XDECREF(second);
    return right;
}

static bool found_what_is_there(void) {
    spp_contexts.state = offsetof(PyThreadState, context);
    return learn_node(1, &spp_contexts.bitmap_type) && learn_node(64, &spp_contexts.array_type) && proven_attributes() &&
           proven_ids("0", "0", (spp_trace_ids){0}) && proven_ids("1", "7fffffff", (spp_trace_ids){0, 1, 0x7fffffff}) &&
           proven_ids("fedcba9876543210f123456789abcdef", "8000000000000001",
                      (spp_trace_ids){0xfedcba9876543210, 0xf123456789abcdef, 0x8000000000000001});
}

static bool proven(void) {
    static bool tried, right; /* once: it takes a while */
    static uintptr_t hash;
    if (!tried) {
        tried = true;
        right = found_what_is_there();
        hash = spp_span_rule.hash;
    }
    spp_span_rule.hash = hash;
    return right;
}

void spp_spans_enter(void) {
    spp_span_forget();
    const bool named = have_names();
    spp_span_rule = (spp_span_rules){.runtime = names[RUNTIME],
                                     .variable = names[VARIABLE],
                                     .key = names[KEY],
                                     .api = names[API],
                                     .type = names[TYPE],
                                     .context = names[CONTEXT],
                                     .module = (uintptr_t)&PyModule_Type,
                                     .dict = (uintptr_t)&PyDict_Type,
                                     .integer = (uintptr_t)&PyLong_Type,
                                     .context_var = (uintptr_t)&PyContextVar_Type,
                                     .items = offsetof(PyTupleObject, ob_item),
                                     .flags = offsetof(PyTypeObject, tp_flags),
                                     .dict_offset = offsetof(PyTypeObject, tp_dictoffset),
                                     .basicsize = offsetof(PyTypeObject, tp_basicsize),
                                     .keys = offsetof(PyHeapTypeObject, ht_cached_keys),
                                     .digits_shift = PY_VERSION_HEX >= 0x030C0000 ? 3 : 0,
                                     INSTANCES};
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
    if (named && modules != NULL && PyDict_CheckExact(modules) && proven()) {
        spp_span_rule.modules = (uintptr_t)modules;
        spp_span_look();
    }
    PyErr_Clear();
}
