#include "module/names.h"

#include "core/run/run.h"
#include "module/held.h"
#include "os/threads.h"

#define NAMES_STEP 256

/* Names on their way to the core. GIL held. */
typedef struct {
    bool lets_go; /* of the GIL, while names are given to the core, which may wait for its lock */
    uint32_t n;
    int32_t tids[NAMES_STEP];
    const char *names[NAMES_STEP];
    PyObject *texts[NAMES_STEP];
} some_names;

static void give(some_names *some) {
    if (some->lets_go) {
        Py_BEGIN_ALLOW_THREADS;
        spp_run_names(some->tids, some->names, some->n);
        Py_END_ALLOW_THREADS;
    } else {
        spp_run_names(some->tids, some->names, some->n);
    }
    while (some->n > 0) Py_DECREF(some->texts[--some->n]);
}

static void name(some_names *some, unsigned long long tid, PyObject *text) {
    PyObject *utf8 = PyUnicode_Check(text) ? PyUnicode_AsEncodedString(text, "utf-8", "replace") : NULL;
    if (utf8 == NULL) return;
    some->tids[some->n] = (int32_t)(tid & INT32_MAX);
    some->names[some->n] = PyBytes_AS_STRING(utf8);
    some->texts[some->n++] = utf8;
    if (some->n == NAMES_STEP) give(some);
}

/* The Python function that runs, if it has this name: a borrowed frame, or NULL. Leaves an exception as it is. */
static PyFrameObject *running(const char *function) {
    PyFrameObject *frame = PyEval_GetFrame();
    PyCodeObject *code = frame != NULL ? PyFrame_GetCode(frame) : NULL;
    bool is_it = code != NULL && PyUnicode_CompareWithASCIIString(code->co_name, function) == 0;
    Py_XDECREF(code);
    return is_it ? frame : NULL;
}

/* Names a thread as the local variable `self` of a method of `threading.Thread` says. */
static void name_self(PyFrameObject *frame, unsigned long long tid) {
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    PyObject *locals = PyObject_GetAttrString((PyObject *)frame, "f_locals");
    PyObject *thread = locals != NULL ? PyMapping_GetItemString(locals, "self") : NULL;
    PyObject *text = thread != NULL ? PyObject_GetAttrString(thread, "_name") : NULL;
    some_names one;
    one.lets_go = false;
    one.n = 0;
    if (text != NULL) name(&one, tid, text);
    give(&one);
    Py_XDECREF(text);
    Py_XDECREF(thread);
    Py_XDECREF(locals);
    PyErr_Clear();
    PyErr_Restore(kind, value, traceback);
}

/* macOS's ids have 64 bits, of which a tid has the lower ones. */
static int32_t tid_of(PyObject *id) { return (int32_t)(PyLong_AsUnsignedLongLongMask(id) & INT32_MAX); }

void spp_names_born(PyObject *id) {
    if (running("_spprof_threads_change") != NULL) spp_names_ours();
    if (running("_spprof_thread_ends") != NULL) spp_run_ours_leave(tid_of(id));
    if (!spp_run_active()) return;
    PyFrameObject *frame = running("_set_native_id");
    if (frame == NULL) return;
    unsigned long long tid = PyLong_AsUnsignedLongLongMask(id);
    spp_run_born(tid_of(id));
    name_self(frame, tid);
}

/* For every get_ident of the program: what is no end costs the look at a function's name (30 ns). */
void spp_names_ended(void) {
#if PY_VERSION_HEX >= 0x030B0000
    PyFrameObject *frame = running("_delete");
#else
    PyFrameObject *frame = running("_bootstrap_inner"); /* which does it itself there */
#endif
    if (frame == NULL) return;
    name_self(frame, (unsigned long long)spp_os_tid());
    spp_run_ends(spp_os_tid());
}

#define OURS_MOST 64

void spp_names_ours(void) {
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    uint64_t look = spp_run_ours_look();
    PyObject *ours = spp_held_by_module("spprof.listening", "ours"), *all = ours != NULL ? PySequence_List(ours) : NULL;
    int32_t tids[OURS_MOST];
    uint32_t n = 0, births = 0;
    for (Py_ssize_t i = 0; all != NULL && i < PyList_GET_SIZE(all); i++) {
        PyObject *one = PyList_GET_ITEM(all, i);
        if (!PyLong_Check(one))
            births++;
        else if (n < OURS_MOST)
            tids[n++] = tid_of(one);
    }
    if (all != NULL) spp_run_ours_found(look, tids, n, births);
    Py_XDECREF(all);
    Py_XDECREF(ours);
    PyErr_Clear();
    PyErr_Restore(kind, value, traceback);
}

/* In a forked child `threading` keeps the parent's id of the thread that forked (up to 3.13.0). */
static void name_thread(some_names *some, PyObject *ident, PyObject *thread) {
    bool here = PyLong_Check(ident) && PyLong_AsUnsignedLongMask(ident) == PyThread_get_thread_ident();
    PyObject *id = PyObject_GetAttrString(thread, "_native_id"), *text = PyObject_GetAttrString(thread, "_name");
    if (text != NULL && (here || (id != NULL && PyLong_Check(id))))
        name(some, here ? (unsigned long long)spp_os_tid() : PyLong_AsUnsignedLongLongMask(id), text);
    Py_XDECREF(id);
    Py_XDECREF(text);
    PyErr_Clear();
}

/* `threading._active`, threads by their ident: a new reference; NULL: the program has not imported it, or it is none. */
static PyObject *active(void) {
    PyObject *all = spp_held_by_module("threading", "_active");
    if (all != NULL && !PyDict_Check(all)) Py_CLEAR(all);
    return all;
}

void spp_names_all(bool lets_go) {
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    some_names some;
    some.lets_go = lets_go;
    some.n = 0;
    PyObject *all = active(), *pairs = all != NULL ? PyDict_Items(all) : NULL;
    if (all == NULL && spp_os_is_first_thread() && spp_run_active()) spp_run_name(spp_os_tid(), "MainThread");
    for (Py_ssize_t i = 0; pairs != NULL && i < PyList_GET_SIZE(pairs); i++) {
        PyObject *pair = PyList_GET_ITEM(pairs, i);
        name_thread(&some, PyTuple_GET_ITEM(pair, 0), PyTuple_GET_ITEM(pair, 1));
    }
    give(&some);
    Py_XDECREF(pairs);
    Py_XDECREF(all);
    PyErr_Clear();
    PyErr_Restore(kind, value, traceback);
}
