#include "module/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/run/run.h"
#include "module/compat.h"
#include "module/hooks.h"
#include "os/clock.h"
#include "os/files.h"
#include "os/process.h"

#define OPENINGS 8 /* attempts, since a file may be removed while it is opened */
#define LOCKINGS 50
#define LOCKING_NS 5000000u

/* A field is cleared before its value is released: without the GIL two threads may close one object
 * at once. */
typedef struct {
    PyObject ob_base;
    _Atomic int fd;           /* -1: closed */
    _Atomic(PyObject *) made; /* path of a file that was not there before and is not kept yet; or NULL */
    PyObject *is;             /* (device, number) of the file, as os.stat returns them */
    struct stat
        opened; /* the file behind the descriptor: a program may close all descriptors, and get the number for another file */
    _Atomic(void *) hold; /* of the file's number */
    pid_t holder;         /* the process that holds it */
} output;

static bool is_its(const output *self, int fd) {
    struct stat now;
    return fd >= 0 && fstat(fd, &now) == 0 && now.st_dev == self->opened.st_dev && now.st_ino == self->opened.st_ino;
}

static bool is_open(const output *self) { return is_its(self, self->fd); }

/* A call of one of the functions that the module `os` has from the system's module. They know of every system's paths, of
 * interrupted calls and of audit hooks; and a program that was started with -S has no `os` until it asks for it. */
static PyObject *os_call(const char *name, PyObject *args) {
    PyObject *os = args != NULL ? PyImport_ImportModule(spp_os_family) : NULL;
    PyObject *function = os != NULL ? PyObject_GetAttrString(os, name) : NULL;
    PyObject *result = function != NULL ? PyObject_CallObject(function, args) : NULL;
    Py_XDECREF(function);
    Py_XDECREF(os);
    Py_XDECREF(args);
    return result;
}

/* What identifies a file, by os.stat of a path or os.fstat of a descriptor; NULL with an exception. */
static PyObject *identity(const char *stat, PyObject *args) {
    PyObject *result = os_call(stat, args), *pair = NULL;
    PyObject *device = result != NULL ? PyObject_GetAttrString(result, "st_dev") : NULL;
    PyObject *number = device != NULL ? PyObject_GetAttrString(result, "st_ino") : NULL;
    if (number != NULL) pair = PyTuple_Pack(2, device, number);
    Py_XDECREF(result);
    Py_XDECREF(device);
    Py_XDECREF(number);
    return pair;
}

/* Whether a path names the file, which the program may have closed. */
static bool is_at(const output *self, PyObject *path) {
    PyObject *there = identity("stat", Py_BuildValue("(O)", path));
    bool same = there != NULL && self->is != NULL && PyObject_RichCompareBool(there, self->is, Py_EQ) == 1;
    Py_XDECREF(there);
    PyErr_Clear();
    return same;
}

static bool removed(PyObject *path) {
    PyObject *done = os_call("unlink", Py_BuildValue("(O)", path));
    bool good = done != NULL;
    Py_XDECREF(done);
    PyErr_Clear();
    return good;
}

static void hold(output *self) {
    self->hold = spp_os_file_hold(self->fd);
    self->holder = getpid();
}

static void release(output *self) {
    void *held = atomic_exchange(&self->hold, NULL);
    if (self->holder == getpid()) spp_os_file_release(held);
}

static void close_fd(output *self) {
    int fd = atomic_exchange(&self->fd, -1);
    bool ours = is_its(self, fd);
    if (fd >= 0) spp_os_file_forget(fd);
    if (ours) {
        Py_BEGIN_ALLOW_THREADS;
        close(fd);
        Py_END_ALLOW_THREADS;
    }
    release(self);
}

/* A file that was made for a start that failed goes, while it is locked still: nobody else has taken it. Windows removes no file
 * that is open. */
static void let_go(output *self) {
    PyObject *made = atomic_exchange(&self->made, NULL);
    bool again = made != NULL && is_open(self) && is_at(self, made) && !removed(made);
    close_fd(self);
    if (again) (void)removed(made);
    Py_XDECREF(made);
}

static void output_dealloc(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    PyObject *kind, *value, *traceback;
    PyErr_Fetch(&kind, &value, &traceback);
    let_go((output *)object);
    Py_CLEAR(((output *)object)->is);
    PyErr_Restore(kind, value, traceback);
    type->tp_free(object);
    Py_DECREF(type);
}

static PyObject *output_close(PyObject *self, PyObject *none) {
    (void)none;
    let_go((output *)self);
    Py_RETURN_NONE;
}

static PyObject *output_keep(PyObject *self, PyObject *none) {
    (void)none;
    spp_output_keep(self);
    Py_RETURN_NONE;
}

/* Closing may take as long as writing. */
static PyObject *output_leave(PyObject *object, PyObject *none) {
    output *self = (output *)object;
    if (S_ISREG(self->opened.st_mode)) self->fd = -1; /* and what holds it stays */
    if (self->fd < 0) self->hold = NULL;
    return output_close(object, none);
}

static PyObject *output_fileno(PyObject *self, PyObject *none) {
    (void)none;
    return PyLong_FromLong(((output *)self)->fd);
}

static PyObject *output_is_open(PyObject *self, PyObject *none) {
    (void)none;
    return PyBool_FromLong(is_open((output *)self));
}

static PyObject *output_is_at(PyObject *self, PyObject *path) { return PyBool_FromLong(is_at((output *)self, path)); }

static PyMethodDef methods[] = {
    {"close", output_close, METH_NOARGS, "Closes it, unless the program did."},
    {"keep", output_keep, METH_NOARGS, "A file that was made for it stays."},
    {"leave", output_leave, METH_NOARGS, "Closes it, unless it is a regular file, which may not answer."},
    {"fileno", output_fileno, METH_NOARGS, "The descriptor; -1: closed."},
    {"is_open", output_is_open, METH_NOARGS, "Whether the descriptor is still that of the profile."},
    {"is_at", output_is_at, METH_O, "Whether a path names this file."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, (void *)output_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_doc, (void *)"An open file that is closed when nobody has it any more."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "spprof._core.Output",
    .basicsize = sizeof(output),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

PyObject *spp_output_type(void) { return PyType_FromSpec(&spec); }
int spp_output_fd(PyObject *object) { return is_open((output *)object) ? ((output *)object)->fd : -1; }

/* GIL held. Every start has an output first. So a child that is forked later, even while a start has begun, knows that nobody
 * starts there and that no file of its parent's is its own. */
static output *make(PyObject *module) {
    const char *why;
    (void)spp_run_prepare(&why); /* the start reports a failure */
    PyObject *type = PyObject_GetAttrString(module, "Output");
    output *self =
        type != NULL && PyType_Check(type) ? (output *)((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, 0) : NULL;
    Py_XDECREF(type);
    if (self != NULL) self->fd = -1;
    return self;
}

/* Moves the descriptor out of the range that the program expects for its own files. If it has
 * closed its standard output, say, a new file would get that number, and output of C code would go
 * there. */
static int above_standard(int fd) {
#ifdef F_DUPFD_CLOEXEC
    int up = fcntl(fd, F_DUPFD_CLOEXEC, SPP_OS_FILES_FROM);
    if (up < 0) up = fcntl(fd, F_DUPFD_CLOEXEC, 3); /* `ulimit -n` is that low */
    if (up < 0) PyErr_SetFromErrno(PyExc_OSError);
    close(fd);
    return up;
#else
    return fd; /* a writer has a handle */
#endif
}

/* Takes over the descriptor that os.open or os.dup returned. -1 with an exception. */
static int take(output *self, PyObject *number) {
    if (number == NULL) return -1;
    int fd = (int)PyLong_AsLong(number);
    Py_DECREF(number);
    if (fd >= 0) fd = above_standard(fd);
    if (fd < 0) return -1;
    self->fd = fd;
    Py_XSETREF(self->is, identity("fstat", Py_BuildValue("(i)", fd)));
    if (self->is == NULL) PyErr_Clear();
    if (fstat(fd, &self->opened) == 0) {
        hold(self);
        return 0;
    }
    PyErr_SetFromErrno(PyExc_OSError);
    close(fd);
    self->fd = -1;
    return -1;
}

/* Opens an existing file, or creates it. */
static int open_or_make(output *self, PyObject *path, int flags) {
    for (int i = 0; i < OPENINGS; i++) {
        if (take(self, os_call("open", Py_BuildValue("(Oi)", path, flags))) == 0) return 0;
        if (!PyErr_ExceptionMatches(PyExc_FileNotFoundError)) return -1;
        PyErr_Clear();
        if (take(self, os_call("open", Py_BuildValue("(Oii)", path, flags | O_CREAT | O_EXCL, 0666))) == 0) {
            Py_INCREF(path);
            self->made = path;
            return 0;
        }
        if (!PyErr_ExceptionMatches(PyExc_FileExistsError)) return -1;
        PyErr_Clear();
    }
    return take(self, os_call("open", Py_BuildValue("(Oii)", path, flags | O_CREAT, 0666))); /* a link that leads nowhere */
}

/* A reader that checks whether the file is being written holds the lock for a moment, longer if it
 * is interrupted just then. */
static int lock(const output *self) {
    int failed = spp_os_file_lock(self->fd);
    for (int i = 0; failed && i < LOCKINGS; i++) {
        Py_BEGIN_ALLOW_THREADS;
        spp_os_sleep_until(spp_os_now_ns() + LOCKING_NS);
        Py_END_ALLOW_THREADS;
        failed = spp_os_file_lock(self->fd);
    }
    return failed;
}

/* Opens it and takes it for this process; its last user may have removed it. */
static int open_and_lock(output *self, PyObject *path, int flags) {
    for (int i = 0; i < OPENINGS; i++) {
        if (open_or_make(self, path, flags) != 0) return -1;
        if (lock(self) != 0) {
            spp_output_keep((PyObject *)self); /* it belongs to its last user */
            errno = EWOULDBLOCK;
            PyErr_SetFromErrno(PyExc_OSError);
            return -1;
        }
        if (!S_ISREG(self->opened.st_mode) || is_at(self, path)) return 0;
        spp_output_keep((PyObject *)self);
        close_fd(self);
    }
    errno = EAGAIN;
    PyErr_SetFromErrno(PyExc_OSError);
    return -1;
}

#ifndef O_CLOEXEC
#define O_CLOEXEC 0
#endif
#ifndef O_BINARY
#define O_BINARY 0
#endif
#define NAMES_MOST 10000
#define ENDING ".spprof"

/* X.N.spprof; a new reference. */
static PyObject *numbered(PyObject *path, int number) {
    Py_ssize_t n = PyUnicode_GetLength(path), end = (Py_ssize_t)strlen(ENDING);
    PyObject *tail = PyUnicode_FromString(ENDING);
    bool ends = tail != NULL && PyUnicode_Tailmatch(path, tail, 0, n, 1) == 1;
    PyObject *stem = PyUnicode_Substring(path, 0, ends ? n - end : n);
    PyObject *made = stem != NULL ? PyUnicode_FromFormat("%U.%d%s", stem, number, ENDING) : NULL;
    Py_XDECREF(tail);
    Py_XDECREF(stem);
    return made;
}

PyObject *spp_output_first_free(PyObject *module, PyObject **path) {
    const int flags = O_RDWR | O_CLOEXEC | O_BINARY | O_CREAT | O_EXCL;
    output *self = make(module);
    PyObject *name = Py_NewRef(*path);
    for (int number = 2; self != NULL && name != NULL && number < NAMES_MOST; number++) {
        if (take(self, os_call("open", Py_BuildValue("(Oii)", name, flags, 0666))) == 0) {
            self->made = Py_NewRef(name);
            Py_SETREF(*path, name);
            (void)lock(self); /* another process holds it only for a moment */
            return (PyObject *)self;
        }
        if (!PyErr_ExceptionMatches(PyExc_FileExistsError)) break;
        PyErr_Clear();
        Py_SETREF(name, numbered(*path, number));
    }
    Py_XDECREF(name);
    Py_XDECREF(self);
    return NULL;
}

void spp_output_keep(PyObject *self) {
    PyObject *made = atomic_exchange(&((output *)self)->made, NULL);
    Py_XDECREF(made);
}

void spp_output_close(PyObject *self) {
    spp_output_keep(self);
    let_go((output *)self);
}

static PyObject *open_output(PyObject *module, PyObject *args) {
    PyObject *path;
    int flags, named;
    if (!PyArg_ParseTuple(args, "Oip", &path, &flags, &named)) return NULL;
    output *self = make(module);
    if (self == NULL) return NULL;
    int failed =
        named ? open_and_lock(self, path, flags) : take(self, os_call("open", Py_BuildValue("(Oii)", path, flags, 0600)));
    if (failed) Py_CLEAR(self);
    return (PyObject *)self;
}

static PyObject *copy_output(PyObject *module, PyObject *fd) {
    output *self = make(module);
    if (self != NULL && take(self, os_call("dup", Py_BuildValue("(O)", fd))) != 0) Py_CLEAR(self);
    return (PyObject *)self;
}

PyMethodDef spp_output_methods[] = {
    {"open_output", open_output, METH_VARARGS, "Opens the file of a profile."},
    {"copy_output", copy_output, METH_O, "A copy of an open descriptor."},
    {NULL, NULL, 0, NULL},
};
