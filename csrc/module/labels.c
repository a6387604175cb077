#include "module/labels.h"

#include <stdatomic.h>
#include <stddef.h>

#include "core/capture/contexts.h"
#include "core/capture/labels.h"
#include "core/run/run.h"
#include "module/compat.h"
#include "os/lock.h"

#if PY_VERSION_HEX < 0x030C0000
#include <structmember.h>
#define SPP_T_OBJECT T_OBJECT_EX
#define SPP_READONLY READONLY
#else
#define SPP_T_OBJECT Py_T_OBJECT_EX
#define SPP_READONLY Py_READONLY
#endif

/* A set of labels: what `spprof.label` keeps in its ContextVar. */
typedef struct {
    PyObject_HEAD uint64_t number;
    PyObject *labels; /* a dict */
} label_set;

/* LabelSet(labels, text): the labels, and the same as JSON. */
static PyObject *label_set_new(PyTypeObject *type, PyObject *args, PyObject *keywords) {
    PyObject *labels;
    const char *text;
    Py_ssize_t n;
    if (keywords != NULL && PyDict_GET_SIZE(keywords) != 0) return PyErr_Format(PyExc_TypeError, "LabelSet takes no keywords");
    if (!PyArg_ParseTuple(args, "O!y#", &PyDict_Type, &labels, &text, &n)) return NULL;
    label_set *set = (label_set *)type->tp_alloc(type, 0);
    if (set == NULL) return NULL;
    set->labels = Py_NewRef(labels);
    spp_os_lock();
    set->number = spp_label_add(text, (size_t)n);
    spp_os_unlock();
    if (set->number == 0) {
        Py_DECREF(set);
        return PyErr_NoMemory();
    }
    return (PyObject *)set;
}

static void label_set_dealloc(PyObject *self) {
    label_set *set = (label_set *)self;
    spp_os_lock();
    spp_label_drop(set->number, spp_run_active());
    spp_os_unlock();
    Py_XDECREF(set->labels);
    Py_TYPE(self)->tp_free(self);
}

static PyMemberDef label_set_members[] = {
    {"labels", SPP_T_OBJECT, offsetof(label_set, labels), SPP_READONLY, "The labels, a dict of str to str."},
    {NULL, 0, 0, 0, NULL},
};

static PyTypeObject label_set_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "spprof._core.LabelSet",
    .tp_basicsize = sizeof(label_set),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "A set of labels.",
    .tp_new = label_set_new,
    .tp_dealloc = label_set_dealloc,
    .tp_members = label_set_members,
};

/* label_rules(variable): the rules by which the sets are found; gives the type of sets. In one interpreter only. */
static PyObject *label_rules(PyObject *self, PyObject *variable) {
    (void)self;
    Py_hash_t hash = PyObject_Hash(variable);
    if (hash == -1 && PyErr_Occurred()) return NULL;
    if (spp_labels.variable != 0 && spp_labels.variable != (uintptr_t)variable) {
        return PyErr_Format(PyExc_RuntimeError, "labels belong to the interpreter that used them first");
    }
    const char *why;
    if (spp_run_prepare(&why) != 0) return PyErr_Format(PyExc_RuntimeError, "%s", why);
    if (PyType_Ready(&label_set_type) != 0) return NULL;
    Py_INCREF(variable); /* for ever: samples name it by its address */
    spp_contexts.state = offsetof(PyThreadState, context);
    spp_labels.variable = (uintptr_t)variable;
    spp_labels.hash = spp_context_fold((uint64_t)hash);
    spp_labels.set_type = (uintptr_t)&label_set_type;
    spp_labels.number = offsetof(label_set, number);
    return Py_NewRef((PyObject *)&label_set_type);
}

/* label_node(array): the type of the node at the top of the current context is that of an array node, or of a bitmap node. */
static PyObject *label_node(PyObject *self, PyObject *array) {
    (void)self;
    PyObject *node = (PyObject *)spp_context_root((uintptr_t)PyThreadState_Get());
    if (node == NULL) return PyErr_Format(PyExc_RuntimeError, "this interpreter's contexts are kept in another way");
    *(PyObject_IsTrue(array) ? &spp_contexts.array_type : &spp_contexts.bitmap_type) = (uintptr_t)Py_TYPE(node);
    Py_RETURN_NONE;
}

/* label_found(set): whether both ways find this set, or for None no set, in the current context. */
static PyObject *label_found(PyObject *self, PyObject *set) {
    (void)self;
    uintptr_t state = (uintptr_t)PyThreadState_Get();
    uint64_t number = Py_TYPE(set) == &label_set_type ? ((label_set *)set)->number : 0;
    return PyBool_FromLong(spp_label_own(state) == number && spp_label_other(state) == number);
}

/* label_use(used): samples carry labels from now on, or no longer. */
static PyObject *label_use(PyObject *self, PyObject *used) {
    (void)self;
    atomic_store(&spp_labels.used, PyObject_IsTrue(used) == 1);
    Py_RETURN_NONE;
}

/* request(set, began, ended): a request with these labels is over; nothing while no run is active. */
static PyObject *request(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *set;
    unsigned long long began, ended;
    if (!PyArg_ParseTuple(args, "O!KK", &label_set_type, &set, &began, &ended)) return NULL;
    if (spp_run_active() && ended >= began) spp_run_request(began, ended - began, ((label_set *)set)->number);
    Py_RETURN_NONE;
}

PyMethodDef spp_label_methods[] = {
    {"label_rules", label_rules, METH_O, "The ContextVar that holds the current labels."},
    {"label_node", label_node, METH_O, "Learns a type of CPython's."},
    {"label_found", label_found, METH_O, "Whether the core finds these labels."},
    {"request", request, METH_VARARGS, "A request is over."},
    {"label_use", label_use, METH_O, "Samples carry labels, or not."},
    {NULL, NULL, 0, NULL},
};
