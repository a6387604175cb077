#include "module/profile.h"

#include <string.h>

#include "base/reasons.h"
#include "core/file/read.h"
#include "module/compat.h"

/* Of a type of Python's array. */
static size_t size_of(char type) { return type == 'B' ? 1 : type == 'q' ? 8 : 4; }

/* A column as bytes of `size`-byte integers, `add` added to each. */
static PyObject *column(const spp_vec64 *from, size_t size, int64_t add) {
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(from->n * size));
    if (bytes == NULL) return NULL;
    char *to = PyBytes_AS_STRING(bytes);
    for (size_t i = 0; i < from->n; i++) {
        uint64_t value = from->at[i] + (uint64_t)add;
        memcpy(to + i * size, &value, size); /* little-endian machines only, as are all that spprof runs on */
    }
    return bytes;
}

static PyObject *span_bytes(spp_span span) {
    if (span.at == NULL) Py_RETURN_NONE;
    return PyBytes_FromStringAndSize((const char *)span.at, (Py_ssize_t)span.n);
}

static PyObject *strings_of(const spp_profile *p) {
    const spp_vec64 *lengths = &p->columns[SPP_COL_STRING_LEN];
    PyObject *list = PyList_New((Py_ssize_t)lengths->n);
    const char *at = (const char *)p->strings.at;
    for (size_t i = 0; list != NULL && i < lengths->n; i++) {
        PyObject *text = PyUnicode_DecodeUTF8(lengths->at[i] ? at : "", (Py_ssize_t)lengths->at[i], "surrogatepass");
        if (text == NULL) { /* not UTF-8 at all: a damaged file that its checksum did not reveal */
            PyErr_Clear();
            text = PyUnicode_DecodeUTF8(at, (Py_ssize_t)lengths->at[i], "replace");
        }
        if (text == NULL) {
            Py_CLEAR(list);
        } else {
            PyList_SET_ITEM(list, (Py_ssize_t)i, text);
            at += lengths->at[i];
        }
    }
    return list;
}

static PyObject *threads_of(const spp_profile *p) {
    PyObject *list = PyList_New((Py_ssize_t)p->threads_n);
    for (size_t i = 0; list != NULL && i < p->threads_n; i++) {
        PyObject *text = span_bytes(p->threads[i]);
        if (text == NULL) {
            Py_CLEAR(list);
        } else {
            PyList_SET_ITEM(list, (Py_ssize_t)i, text);
        }
    }
    return list;
}

/* The header's start_ns, microseconds only, or 0; -1 with an exception. */
static int64_t start_of(const spp_profile *p) {
    if (p->header.at == NULL) return 0;
    PyObject *json = PyImport_ImportModule("json");
    PyObject *dict = json ? PyObject_CallMethod(json, "loads", "y#", (const char *)p->header.at, (Py_ssize_t)p->header.n) : NULL;
    Py_XDECREF(json);
    if (dict == NULL) return -1;
    PyObject *start = PyDict_Check(dict) ? PyDict_GetItemString(dict, "start_ns") : NULL;
    long long ns = start && PyLong_Check(start) ? PyLong_AsLongLong(start) : 0;
    Py_DECREF(dict);
    if (ns < 0) {
        PyErr_Format(PyExc_ValueError, "the header's start_ns does not make sense");
        return -1;
    }
    return ns / 1000 * 1000;
}

bool spp_put(PyObject *dict, const char *key, PyObject *value) {
    bool good = value != NULL && PyDict_SetItemString(dict, key, value) == 0;
    Py_XDECREF(value);
    return good;
}

static PyObject *profile_dict(const spp_profile *p) {
    int64_t start = start_of(p);
    PyObject *dict = start < 0 ? NULL : PyDict_New();
    if (dict == NULL) return NULL;
    bool good = spp_put(dict, "header", span_bytes(p->header)) && spp_put(dict, "tick_stats", span_bytes(p->tick_stats)) &&
                spp_put(dict, "end", span_bytes(p->end)) && spp_put(dict, "threads", threads_of(p)) &&
                spp_put(dict, "strings", strings_of(p)) &&
                spp_put(dict, "warning", p->warning ? PyUnicode_FromString(p->warning) : Py_NewRef(Py_None));
    for (int k = 0; good && k < SPP_COLS; k++) {
        const spp_column_row *row = &spp_column_rows[k];
        if (row->key[0] == 0) continue;
        good = spp_put(dict, row->key,
                       column(&p->columns[k], size_of(row->type), k == SPP_COL_TIME || k == SPP_COL_VALUE_TIME ? start : 0));
    }
    if (!good) Py_CLEAR(dict);
    return dict;
}

PyObject *spp_profile_reasons(void) {
    static const char *const names[] = {
#define NAME(name) #name,
        SPP_REASONS(NAME)
#undef NAME
    };
    PyObject *made = PyTuple_New(SPP_REASON_COUNT);
    for (int k = 0; made != NULL && k < SPP_REASON_COUNT; k++) {
        PyObject *name = PyUnicode_FromString(names[k]);
        if (name == NULL) {
            Py_CLEAR(made);
        } else {
            PyTuple_SET_ITEM(made, k, name);
        }
    }
    return made;
}

PyObject *spp_profile_columns(void) {
    static const char *const tables[] = {"string", "byte", "code", "frame", "node", "sample", "value"};
    PyObject *rows = PyTuple_New(SPP_COLS);
    for (int k = 0; rows != NULL && k < SPP_COLS; k++) {
        const spp_column_row *is = &spp_column_rows[k];
        PyObject *row = Py_BuildValue("(ssC)", is->key, tables[is->table], is->type);
        if (row == NULL) {
            Py_CLEAR(rows);
        } else {
            PyTuple_SET_ITEM(rows, k, row);
        }
    }
    return rows;
}

PyObject *spp_profile_read(PyObject *self, PyObject *data) {
    (void)self;
    Py_buffer view;
    spp_profile profile;
    const char *why;
    int failed;
    if (PyObject_GetBuffer(data, &view, PyBUF_SIMPLE) != 0) return NULL;
    Py_BEGIN_ALLOW_THREADS;
    failed = spp_read(view.buf, (size_t)view.len, &profile, &why);
    Py_END_ALLOW_THREADS;
    PyObject *dict = failed ? PyErr_Format(PyExc_ValueError, "%s", why) : profile_dict(&profile);
    spp_profile_free(&profile);
    PyBuffer_Release(&view);
    return dict;
}
