#include "module/locks.h"

#include <Python.h>

#include <stddef.h>
#include <string.h>

#include "core/capture/locks.h"
#include "module/held.h"
#include "os/memory.h"
#include "py/layout.h"
#if SPP_L_CHAIN == 1
#include <frameobject.h>
#endif

#define FIRST sizeof(PyObject)                       /* Modules/_threadmodule.c */
#define OWNER (sizeof(PyObject) + sizeof(uintptr_t)) /* rlock_owner; from 3.14 on `thread` of a _PyRecursiveMutex */

static uintptr_t word(uintptr_t at) {
    uintptr_t value;
    return spp_os_read(&value, at, sizeof value) == 0 ? value : UINTPTR_MAX;
}

/* Of the mutex, or of the semaphore that a lock has the address of; both say by their lowest bit whether it is taken, the one by
 * 1, the other by 0. -1: it cannot be read. */
static int lowest_bit(const PyObject *lock, bool is_mutex) {
    uint8_t bits;
    uintptr_t at = is_mutex ? (uintptr_t)lock + FIRST : word((uintptr_t)lock + FIRST);
    return spp_os_read(&bits, at, sizeof bits) == 0 ? bits & 1 : -1;
}

static bool does(PyObject *lock, const char *method) {
    PyObject *result = PyObject_CallMethod(lock, method, NULL);
    Py_XDECREF(result);
    return result != NULL;
}

/* Not one that the program has put in its place, whose code would run. */
static bool is_type(PyObject *type, const char *name) {
    return type != NULL && PyType_Check(type) && strcmp(((PyTypeObject *)type)->tp_name, name) == 0;
}

static bool proven(PyObject *make, bool is_mutex, bool has_owner) {
    PyObject *lock = PyObject_CallNoArgs(make);
    int unlocked = is_mutex ? 0 : 1;
    uintptr_t mine = has_owner ? PyThread_get_thread_ident() : 0;
    bool right = lock != NULL && lowest_bit(lock, is_mutex) == unlocked && (!has_owner || word((uintptr_t)lock + OWNER) == 0) &&
                 does(lock, "acquire") && lowest_bit(lock, is_mutex) == !unlocked &&
                 (!has_owner || word((uintptr_t)lock + OWNER) == mine) && does(lock, "release") &&
                 lowest_bit(lock, is_mutex) == unlocked && (!has_owner || word((uintptr_t)lock + OWNER) == 0);
    Py_XDECREF(lock);
    return right;
}

void spp_locks_enter(void) {
    spp_lock_rule = (spp_lock_rules){0};
    PyObject *lock = spp_held_by_module("_thread", "LockType"), *rlock = spp_held_by_module("_thread", "RLock");
    if (is_type(lock, "_thread.lock") && is_type(rlock, "_thread.RLock")) {
        PyObject *make = spp_held_by_module("_thread", "allocate_lock");
        bool has_semaphore = make != NULL && PyCFunction_Check(make) && proven(make, false, false);
        bool has_mutex = make != NULL && PyCFunction_Check(make) && !has_semaphore && proven(make, true, false);
        bool rlock_has_semaphore = proven(rlock, false, true);
        if ((has_semaphore || has_mutex) && (rlock_has_semaphore || proven(rlock, true, true))) {
            spp_lock_rule = (spp_lock_rules) {
                .lock = (uintptr_t)lock, .rlock = (uintptr_t)rlock, .builtin = (uintptr_t)&PyCFunction_Type,
                .method = (uintptr_t)&PyMethod_Type, .function = (uintptr_t)&PyFunction_Type,
                .self = offsetof(PyCFunctionObject, m_self), .first = FIRST, .lock_is_mutex = has_mutex,
                .rlock_is_mutex = !rlock_has_semaphore, .owner = OWNER, .stacksize = offsetof(PyCodeObject, co_stacksize),
#if SPP_L_CHAIN == 1
                .stack = offsetof(PyFrameObject, f_valuestack), .block = offsetof(PyFrameObject, f_iblock),
                .blocks = offsetof(PyFrameObject, f_blockstack), .block_level = offsetof(PyTryBlock, b_level),
                .block_bytes = sizeof(PyTryBlock),
#else
                .exceptions = offsetof(PyCodeObject, co_exceptiontable), .nlocalsplus = offsetof(PyCodeObject, co_nlocalsplus),
#endif
            };
        }
        Py_XDECREF(make);
    }
    /* Types of a module that the interpreter keeps: the core knows them by their addresses. */
    Py_XDECREF(lock);
    Py_XDECREF(rlock);
    PyErr_Clear();
}
