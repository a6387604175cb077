/* Why at run time too: the headers of a build and the interpreter that loads it may be of different patch releases, or
 * of a patched one. Never guess: what differs is named and spprof refuses to start. */
#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#endif
#ifndef Py_BUILD_CORE_MODULE
#define Py_BUILD_CORE_MODULE 1
#endif
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "layout_proof.h"

#include <Python.h>

#include <frameobject.h>

#if PY_VERSION_HEX >= 0x030D0000
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>
#endif
#if PY_VERSION_HEX >= 0x030B0000
#include <internal/pycore_frame.h>
#endif

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "layout.h"
#include "os/memory.h"

#define MAX_FRAMES 100000

/* The offset of a constant that this version lacks (-1) is never read: the callers are under a plain if on a constant,
 * which keeps one source for all versions. */
typedef struct {
    uintptr_t frame; /* 0 at the end */
    uintptr_t code;
    long byte_offset; /* of the instruction; negative: not started */
    int owner;
} raw_frame;

static const char k_cannot[] = "out of memory or at the recursion limit";
/* Of the thread that proves: interpreters with a GIL each may do so at once. */
static _Thread_local const char *s_failed; /* what the probe, called from Python, found wrong */
static _Thread_local bool s_probed;
static _Thread_local bool s_has_cached_chunk;
#ifdef Py_GIL_DISABLED
static const bool s_free_threaded = true;
#else
static const bool s_free_threaded = false;
#endif
static _Thread_local spp_os_reader s_reader;

/* Always LEN bytes or false. */
static bool read_raw(uintptr_t base, long offset, void *to, size_t len) {
    return offset >= 0 && spp_os_reader_read(&s_reader, to, base + (uintptr_t)offset, len) == 0;
}

static uintptr_t word_at(uintptr_t base, long offset) {
    uintptr_t v = 0;
    return read_raw(base, offset, &v, sizeof v) ? v : 0;
}

/* As CPython declares the ids of threads: 4 bytes on Windows. */
static unsigned long id_at(uintptr_t base, long offset) {
    unsigned long v = 0;
    return read_raw(base, offset, &v, sizeof v) ? v : 0;
}

static uint32_t u32_at(uintptr_t base, long offset) {
    uint32_t v = 0;
    return read_raw(base, offset, &v, sizeof v) ? v : 0;
}

static int i8_at(uintptr_t base, long offset) {
    int8_t v = 127;
    return read_raw(base, offset, &v, sizeof v) ? v : 127;
}

static bool same_bytes(uintptr_t base, long offset, const void *want, size_t len) {
    unsigned char got[64];
    return len <= sizeof got && read_raw(base, offset, got, len) && memcmp(got, want, len) == 0;
}

/* --- str, bytes and object header ------------------------------------------------------------------------------ */

/* The last four bytes of a str's state: layout_check.c says why. */
#define STATE_BEFORE_BITS (sizeof(((PyASCIIObject *)0)->state) - sizeof(uint32_t))

static uint32_t state_bits(const PyASCIIObject *o) {
    uint32_t bits;
    memcpy(&bits, (const char *)&o->state + STATE_BEFORE_BITS, sizeof bits);
    return bits;
}

static const char *prove_state_bits(void) {
    PyASCIIObject o;
    memset(&o, 0, sizeof o);
    o.state.kind = 5;
    uint32_t bits = state_bits(&o);
    if (bits != 5u << SPP_L_STR_KIND_SHIFT || ((bits >> SPP_L_STR_KIND_SHIFT) & SPP_L_STR_KIND_MASK) != 5) {
        return "STR_KIND_SHIFT";
    }
    o.state.kind = 7;
    if (state_bits(&o) != (uint32_t)SPP_L_STR_KIND_MASK << SPP_L_STR_KIND_SHIFT) {
        return "STR_KIND_MASK";
    }
    memset(&o, 0, sizeof o);
    o.state.compact = 1;
    if (state_bits(&o) != 1u << SPP_L_STR_COMPACT_BIT) {
        return "STR_COMPACT_BIT";
    }
    memset(&o, 0, sizeof o);
    o.state.ascii = 1;
    return state_bits(&o) == 1u << SPP_L_STR_ASCII_BIT ? NULL : "STR_ASCII_BIT";
}

static const char *prove_header(PyObject *o, PyTypeObject *type) {
    if (word_at((uintptr_t)o, SPP_L_OB_TYPE) != (uintptr_t)type) {
        return "OB_TYPE";
    }
    return u32_at((uintptr_t)o, SPP_L_OB_REFCNT) == (uint32_t)Py_REFCNT(o) ? NULL : "OB_REFCNT";
}

static const char *prove_one_str(const char *utf8, uint32_t kind, bool ascii) {
    PyObject *o = PyUnicode_FromString(utf8);
    if (!o) {
        return k_cannot;
    }
    uintptr_t p = (uintptr_t)o;
    const char *bad = prove_header(o, &PyUnicode_Type);
    size_t length = (size_t)PyUnicode_GET_LENGTH(o);
    uint32_t state = u32_at(p, SPP_L_STR_STATE);
    if (!bad && word_at(p, SPP_L_STR_LENGTH) != length) {
        bad = "STR_LENGTH";
    }
    if (!bad && (((state >> SPP_L_STR_KIND_SHIFT) & SPP_L_STR_KIND_MASK) != kind || ((state >> SPP_L_STR_COMPACT_BIT) & 1) != 1 ||
                 ((state >> SPP_L_STR_ASCII_BIT) & 1) != ascii)) {
        bad = "STR_STATE";
    }
    if (!bad && !same_bytes(p, ascii ? SPP_L_STR_ASCII_DATA : SPP_L_STR_DATA, PyUnicode_DATA(o), length * kind)) {
        bad = ascii ? "STR_ASCII_DATA" : "STR_DATA";
    }
    Py_DECREF(o);
    return bad;
}

static const char *prove_strings(void) {
    static const char text[] = "spprof bytes";
    const char *bad = prove_state_bits();
    bad = bad ? bad : prove_one_str("spprof ascii", 1, true);
    bad = bad ? bad : prove_one_str("spprof \xc3\xa9", 1, false);
    bad = bad ? bad : prove_one_str("spprof \xe2\x82\xac", 2, false);
    bad = bad ? bad : prove_one_str("spprof \xf0\x9f\x90\x8d", 4, false);
    if (bad) {
        return bad;
    }
    PyObject *o = PyBytes_FromStringAndSize(text, sizeof text - 1);
    if (!o) {
        return k_cannot;
    }
    bad = prove_header(o, &PyBytes_Type);
    if (!bad && word_at((uintptr_t)o, SPP_L_OB_SIZE) != sizeof text - 1) {
        bad = "OB_SIZE";
    }
    if (!bad && !same_bytes((uintptr_t)o, SPP_L_BYTES_DATA, text, sizeof text)) {
        bad = "BYTES_DATA";
    }
    Py_DECREF(o);
    return bad;
}

/* --- code objects ---------------------------------------------------------------------------------------------- */

static bool attr_is_at(PyObject *o, const char *name, long offset) {
    PyObject *a = PyObject_GetAttrString(o, name);
    bool same = a && word_at((uintptr_t)o, offset) == (uintptr_t)a;
    Py_XDECREF(a);
    return same;
}

static long long_attr(PyObject *o, const char *name) {
    PyObject *a = PyObject_GetAttrString(o, name);
    long v = a ? PyLong_AsLong(a) : -1;
    Py_XDECREF(a);
    return v;
}

/* The first code unit only: the rest has inline caches, which the attribute shows as they were compiled. */
static const char *prove_bytecode(PyObject *code) {
    if (SPP_L_CODE_CODEOBJ >= 0) {
        return attr_is_at(code, "co_code", SPP_L_CODE_CODEOBJ) ? NULL : "CODE_CODEOBJ";
    }
    PyObject *text = PyObject_GetAttrString(code, "co_code");
    bool same = text && PyBytes_Check(text) && PyBytes_GET_SIZE(text) >= 2 &&
                same_bytes((uintptr_t)code, SPP_L_CODE_BYTECODE, PyBytes_AS_STRING(text), 1) &&
                word_at((uintptr_t)code, SPP_L_OB_SIZE) * 2 == (uintptr_t)PyBytes_GET_SIZE(text);
    Py_XDECREF(text);
    return same ? NULL : "CODE_BYTECODE";
}

static const char *prove_code(PyObject *code) {
    if (word_at((uintptr_t)code, SPP_L_OB_TYPE) != (uintptr_t)&PyCode_Type) {
        return "OB_TYPE";
    }
    if (!attr_is_at(code, "co_name", SPP_L_CODE_NAME)) {
        return "CODE_NAME";
    }
    if (SPP_L_CODE_QUALNAME >= 0 && !attr_is_at(code, "co_qualname", SPP_L_CODE_QUALNAME)) {
        return "CODE_QUALNAME";
    }
    if (!attr_is_at(code, "co_filename", SPP_L_CODE_FILENAME)) {
        return "CODE_FILENAME";
    }
    if ((long)u32_at((uintptr_t)code, SPP_L_CODE_FIRSTLINENO) != long_attr(code, "co_firstlineno")) {
        return "CODE_FIRSTLINENO";
    }
    if (!attr_is_at(code, SPP_L_LINES == 1 ? "co_lnotab" : "co_linetable", SPP_L_CODE_LINETABLE)) {
        return "CODE_LINETABLE";
    }
    return prove_bytecode(code);
}

/* --- the chain of frames --------------------------------------------------------------------------------------- */

static uintptr_t top_frame(uintptr_t ts) {
    uintptr_t p = word_at(ts, SPP_L_TS_FRAME);
    return SPP_L_CHAIN == 2 ? word_at(p, SPP_L_CFRAME_CURRENT) : p;
}

/* Start of the bytecode that a frame's instruction pointer points into: a copy of this thread's in free-threaded 3.14+.
 */
static uintptr_t bytecode_of(const raw_frame *f) {
    uintptr_t main_copy = f->code + (uintptr_t)SPP_L_CODE_BYTECODE;
    if (SPP_L_CODE_TLBC < 0) {
        return main_copy;
    }
    uintptr_t copies = word_at(f->code, SPP_L_CODE_TLBC);
    uint32_t index = u32_at(f->frame, SPP_L_FRAME_TLBC);
    if (!copies || index >= word_at(copies, SPP_L_TLBC_SIZE) || word_at(copies, SPP_L_TLBC_ENTRIES) != main_copy) {
        return 0;
    }
    return word_at(copies, SPP_L_TLBC_ENTRIES + 8l * (long)index);
}

static void read_frame(uintptr_t frame, raw_frame *f) {
    f->frame = frame;
    f->code = word_at(frame, SPP_L_FRAME_CODE) & (uintptr_t)SPP_L_FRAME_CODE_MASK;
    f->owner = SPP_L_FRAME_OWNER >= 0 ? i8_at(frame, SPP_L_FRAME_OWNER) : SPP_L_OWNED_BY_THREAD;
    if (SPP_L_CHAIN == 1) {
        f->byte_offset = (int)u32_at(frame, SPP_L_FRAME_INSTR) * (long)SPP_L_INSTR_SCALE;
    } else {
        f->byte_offset = (long)(word_at(frame, SPP_L_FRAME_INSTR) - bytecode_of(f));
    }
}

static bool is_entry(const raw_frame *f) { return f->owner >= SPP_L_OWNER_ENTRY_MIN && f->owner <= SPP_L_OWNER_ENTRY_MAX; }

/* CPython's API hides frames that have not reached their first traceable instruction, such as the shim that calls
 * __init__ in 3.13+. Generators' are never hidden, and entry frames are told by their owner alone. */
static bool is_incomplete(const raw_frame *f) {
#if PY_VERSION_HEX >= 0x030B0000
    int first = 0;
    return f->owner == SPP_L_OWNED_BY_THREAD && word_at(f->code, SPP_L_OB_TYPE) == (uintptr_t)&PyCode_Type &&
           read_raw(f->code, (long)offsetof(PyCodeObject, _co_firsttraceable), &first, sizeof first) &&
           f->byte_offset < 2l * first;
#else
    (void)f;
    return false;
#endif
}

static const char *prove_entry(uintptr_t ts, const raw_frame *f) {
    if (SPP_L_INTERP_TRAMPOLINE >= 0) {
        uintptr_t trampoline = word_at(word_at(ts, SPP_L_TS_INTERP), SPP_L_INTERP_TRAMPOLINE);
        return f->code && f->code == trampoline ? NULL : "INTERP_TRAMPOLINE";
    }
    bool known = f->code == (uintptr_t)Py_None || word_at(f->code, SPP_L_OB_TYPE) == (uintptr_t)&PyCode_Type;
    return known ? NULL : "FRAME_CODE of an entry frame";
}

/* Moves *FRAME to the next one that CPython's API would show, and reads it; F->frame is 0 at the end. */
static const char *next_shown(uintptr_t ts, uintptr_t *frame, raw_frame *f) {
    for (int i = 0; *frame && i < MAX_FRAMES; i++) {
        read_frame(*frame, f);
        *frame = word_at(*frame, SPP_L_FRAME_PREVIOUS);
        if (is_entry(f)) {
            const char *bad = prove_entry(ts, f);
            if (bad) {
                return bad;
            }
        } else if (!is_incomplete(f)) {
            return NULL;
        }
    }
    f->frame = 0;
    return *frame ? "FRAME_PREVIOUS" : NULL;
}

static const char *prove_same_frame(const raw_frame *f, PyFrameObject *shown) {
    if (!f->frame) {
        return "FRAME_PREVIOUS";
    }
    PyCodeObject *code = PyFrame_GetCode(shown);
    bool same = f->code == (uintptr_t)code;
    Py_DECREF(code);
    if (!same) {
        return "FRAME_CODE";
    }
    if (Py_TYPE(shown) != &PyFrame_Type) {
        return NULL; /* of a compiler (Nuitka), whose frame objects say less */
    }
    if (SPP_L_FRAME_OBJECT >= 0 && word_at(f->frame, SPP_L_FRAME_OBJECT) != (uintptr_t)shown) {
        return "FRAME_OBJECT";
    }
    if (SPP_L_OBJECT_FRAME >= 0 && word_at((uintptr_t)shown, SPP_L_OBJECT_FRAME) != f->frame) {
        return "OBJECT_FRAME";
    }
    long want = long_attr((PyObject *)shown, "f_lasti");
    if (f->byte_offset != want && !(f->byte_offset < 0 && want < 0)) {
        return SPP_L_FRAME_TLBC >= 0 ? "FRAME_INSTR or FRAME_TLBC" : "FRAME_INSTR";
    }
    return NULL;
}

static const char *prove_chain(void) {
    PyThreadState *state = PyThreadState_Get();
    uintptr_t ts = (uintptr_t)state, frame = top_frame(ts);
    PyFrameObject *shown = PyThreadState_GetFrame(state);
    const char *bad = frame ? NULL : "TS_FRAME";
    raw_frame f = {0, 0, 0, 0};
    while (!bad && shown) {
        bad = next_shown(ts, &frame, &f);
        bad = bad ? bad : prove_same_frame(&f, shown);
        PyFrameObject *back = PyFrame_GetBack(shown);
        Py_DECREF(shown);
        shown = back;
    }
    Py_XDECREF(shown);
    if (!bad) {
        bad = next_shown(ts, &frame, &f);
        if (!bad && f.frame) {
            bad = "FRAME_PREVIOUS";
        }
    }
    return bad;
}

/* --- thread state, data stack, generators ---------------------------------------------------------------------- */

#if PY_VERSION_HEX >= 0x030B0000
static uintptr_t end_of(const raw_frame *f) {
    const PyCodeObject *code = (const PyCodeObject *)f->code; /* proven to be one by the walk before */
    return f->frame + (uintptr_t)SPP_L_FRAME_SIZE + 8 * (uintptr_t)(code->co_nlocalsplus + code->co_stacksize);
}

/* The frames that the Python code of the proof made, newest first: spprof_b and spprof_a follow spprof_big in the chunk
 * that spprof_big, too large for a common one, opened; the module's is the last in the chunk before. */
static const char *prove_data_stack(uintptr_t ts, const raw_frame *big, const raw_frame *newest, const raw_frame *old) {
    uintptr_t chunk = word_at(ts, SPP_L_TS_CHUNK);
    if (!chunk || word_at(ts, SPP_L_TS_LIMIT) != chunk + word_at(chunk, SPP_L_CHUNK_SIZE)) {
        return "TS_CHUNK, TS_LIMIT or CHUNK_SIZE";
    }
    if (big->frame != chunk + (uintptr_t)SPP_L_CHUNK_DATA) {
        return "CHUNK_DATA";
    }
    if (word_at(ts, SPP_L_TS_TOP) != end_of(newest)) {
        return "TS_TOP or FRAME_SIZE";
    }
    chunk = word_at(chunk, SPP_L_CHUNK_PREVIOUS);
    if (end_of(old) != chunk + (uintptr_t)SPP_L_CHUNK_DATA + 8 * word_at(chunk, SPP_L_CHUNK_TOP)) {
        return "CHUNK_PREVIOUS or CHUNK_TOP";
    }
    return NULL;
}
#endif

/* A new thread state's id is the counter's newest value, and it is first in the list. Other threads may start meanwhile
 * in a free-threaded build. */
static const char *prove_new_state(PyThreadState *state) {
    PyInterpreterState *interp = PyThreadState_GetInterpreter(state);
    if (word_at((uintptr_t)state, SPP_L_TS_INTERP) != (uintptr_t)interp) {
        return "TS_INTERP";
    }
    PyThreadState *other = PyThreadState_New(interp);
    if (!other) {
        return k_cannot;
    }
    uint64_t id = PyThreadState_GetID(other);
    uint64_t next = word_at((uintptr_t)interp, SPP_L_INTERP_NEXT_UNIQUE_ID);
    uintptr_t first = word_at((uintptr_t)interp, SPP_L_INTERP_THREADS_HEAD);
    bool linked = first == (uintptr_t)PyInterpreterState_ThreadHead(interp) &&
                  word_at((uintptr_t)other, SPP_L_TS_NEXT) == (uintptr_t)PyThreadState_Next(other);
    PyThreadState_Clear(other);
    PyThreadState_Delete(other);
    if (!linked && !s_free_threaded) { /* the list may change between the two reads only without a GIL */
        return "INTERP_THREADS_HEAD or TS_NEXT";
    }
    return next >= id && next - id < 1000 ? NULL : "INTERP_NEXT_UNIQUE_ID";
}

static const char *prove_thread_state(void) {
    PyThreadState *state = PyThreadState_Get();
    uintptr_t ts = (uintptr_t)state;
    if (id_at(ts, SPP_L_TS_THREAD_ID) != PyThread_get_thread_ident()) {
        return "TS_THREAD_ID";
    }
    if (SPP_L_TS_NATIVE_ID >= 0) { /* a forked child of 3.11 still has its parent's: only plausible, not equal */
        unsigned long id = id_at(ts, SPP_L_TS_NATIVE_ID);
        if (id == 0 || (id > 1u << 22 && id != PyThread_get_thread_native_id())) {
            return "TS_NATIVE_ID";
        }
    }
    if (SPP_L_TS_BASE_FRAME >= 0) {
        raw_frame base;
        read_frame(word_at(ts, SPP_L_TS_BASE_FRAME), &base);
        if (!base.frame || !is_entry(&base) || prove_entry(ts, &base) || word_at(base.frame, SPP_L_FRAME_PREVIOUS)) {
            return "TS_BASE_FRAME";
        }
    }
    return prove_new_state(state);
}

/* The running generator is the probe's caller: its frame lies inside the generator object. */
static const char *prove_generator(uintptr_t ts) {
    if (SPP_L_GEN_IFRAME < 0) {
        return NULL;
    }
    raw_frame f;
    read_frame(top_frame(ts), &f);
    uintptr_t gen = f.frame - (uintptr_t)SPP_L_GEN_IFRAME;
    if (f.owner != SPP_L_OWNED_BY_GENERATOR) {
        return "FRAME_OWNER of a generator";
    }
    if (word_at(gen, SPP_L_OB_TYPE) != (uintptr_t)&PyGen_Type) {
        return "GEN_IFRAME";
    }
    PyObject *code = PyObject_GetAttrString((PyObject *)gen, "gi_code");
    bool same = (uintptr_t)code == f.code;
    Py_XDECREF(code);
    if (!same) {
        return "GEN_IFRAME or FRAME_CODE";
    }
    return i8_at(gen, SPP_L_GEN_STATE) == SPP_L_GEN_EXECUTING ? NULL : "GEN_STATE or GEN_EXECUTING";
}

/* Called by a generator that list() runs, so that the walk meets a generator's frame and, where they exist, entry
 * frames in the middle of the chain. */
static const char *prove_from_probe(void) {
    uintptr_t ts = (uintptr_t)PyThreadState_Get(), frame = top_frame(ts);
    const char *bad = prove_chain();
    bad = bad ? bad : prove_generator(ts);
#if PY_VERSION_HEX >= 0x030B0000
    raw_frame own[4]; /* spprof_b, spprof_a, spprof_big, the module */
    for (int i = 0; !bad && i < 4;) {
        bad = next_shown(ts, &frame, &own[i]);
        if (!bad && !own[i].frame) {
            bad = "FRAME_OWNER";
        }
        i += !bad && own[i].owner == SPP_L_OWNED_BY_THREAD;
    }
    bad = bad ? bad : prove_data_stack(ts, &own[2], &own[0], &own[3]);
    if (!bad && SPP_L_FRAME_STACKTOP >= 0 && u32_at(own[0].frame, SPP_L_FRAME_STACKTOP) != UINT32_MAX) {
        bad = "FRAME_STACKTOP"; /* spprof_b is running list() */
    }
#else
    (void)frame;
#endif
    return bad;
}

static PyObject *probe(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    s_probed = true;
    s_failed = prove_from_probe();
    Py_RETURN_NONE;
}

static const char k_source[] = "def spprof_a():\n"
                               "    return spprof_b()\n"
                               "def spprof_b():\n"
                               "    return list(spprof_g())\n"
                               "def spprof_g():\n"
                               "    yield probe()\n"
                               "generator = spprof_g()\n"
                               "class spprof_c:\n"
                               "    def method(self):\n"
                               "        pass\n"
                               "code = spprof_c.method.__code__\n"
                               "def spprof_big():\n"
                               "    spprof_a()\n"
                               "spprof_big.__code__ = spprof_big.__code__.replace(co_stacksize=2500)\n"
                               "spprof_big()\n";
/* 2500 words are more than the 16 KiB of a common chunk. (A function with as many locals takes 12 ms to compile.) */

/* What the proof's code left: a method's code, a generator that never ran, a chunk kept back. */
static const char *prove_what_is_left(PyObject *globals) {
    PyObject *code = PyDict_GetItemString(globals, "code"), *gen = PyDict_GetItemString(globals, "generator");
    const char *bad = code && gen ? prove_code(code) : k_cannot;
#if PY_VERSION_HEX >= 0x030B0000
    if (!bad && i8_at((uintptr_t)gen, SPP_L_GEN_STATE) != FRAME_CREATED) {
        bad = "GEN_STATE";
    }
#endif
    if (!bad && s_has_cached_chunk) {
        uintptr_t chunk = word_at((uintptr_t)PyThreadState_Get(), SPP_L_TS_CACHED_CHUNK);
        uintptr_t size = word_at(chunk, SPP_L_CHUNK_SIZE);
        if (!chunk || size < 16384 || (size & (size - 1)) != 0) {
            bad = "TS_CACHED_CHUNK";
        }
    }
    return bad;
}

static const char *prove_with_python(void) {
    static PyMethodDef method = {"probe", probe, METH_NOARGS, NULL};
    const char *bad = k_cannot;
    PyObject *globals = PyDict_New(), *function = PyCFunction_New(&method, NULL), *result = NULL;
    PyObject *compiled = Py_CompileString(k_source, "<spprof layout proof>", Py_file_input);
    s_failed = NULL;
    s_probed = false;
    if (globals && function && compiled && PyDict_SetItemString(globals, "probe", function) == 0 &&
        PyDict_SetItemString(globals, "__builtins__", PyEval_GetBuiltins()) == 0) {
        result = PyEval_EvalCode(compiled, globals, globals);
    }
    if (result) {
        bad = s_probed ? s_failed : "the probe, which did not run";
        bad = bad ? bad : prove_what_is_left(globals);
    }
    if (globals) {
        PyDict_Clear(globals); /* the functions and their globals are a cycle */
    }
    Py_XDECREF(result);
    Py_XDECREF(compiled);
    Py_XDECREF(function);
    Py_XDECREF(globals);
    return bad;
}

/* --- _Py_DebugOffsets, 3.13+ ----------------------------------------------------------------------------------- */

#if PY_VERSION_HEX >= 0x030D0000
static const char *prove_debug_offsets(void) {
    const _Py_DebugOffsets *d = &_PyRuntime.debug_offsets;
#define OF(constant, field) \
    { (long)(constant), &d->field, #constant }
    const struct {
        long ours;
        const uint64_t *theirs;
        const char *name;
    } same[] = {
        OF(SPP_L_OB_TYPE, pyobject.ob_type),
        OF(SPP_L_OB_SIZE, bytes_object.ob_size),
        OF(SPP_L_TS_NEXT, thread_state.next),
        OF(SPP_L_TS_INTERP, thread_state.interp),
        OF(SPP_L_INTERP_THREADS_HEAD, interpreter_state.threads_head),
        OF(SPP_L_TS_FRAME, thread_state.current_frame),
        OF(SPP_L_TS_THREAD_ID, thread_state.thread_id),
        OF(SPP_L_TS_NATIVE_ID, thread_state.native_thread_id),
        OF(SPP_L_TS_CHUNK, thread_state.datastack_chunk),
        OF(SPP_L_FRAME_PREVIOUS, interpreter_frame.previous),
        OF(SPP_L_FRAME_CODE, interpreter_frame.executable),
        OF(SPP_L_FRAME_INSTR, interpreter_frame.instr_ptr),
        OF(SPP_L_FRAME_SIZE, interpreter_frame.localsplus),
        OF(SPP_L_FRAME_OWNER, interpreter_frame.owner),
        OF(SPP_L_CODE_NAME, code_object.name),
        OF(SPP_L_CODE_QUALNAME, code_object.qualname),
        OF(SPP_L_CODE_FILENAME, code_object.filename),
        OF(SPP_L_CODE_FIRSTLINENO, code_object.firstlineno),
        OF(SPP_L_CODE_LINETABLE, code_object.linetable),
        OF(SPP_L_CODE_BYTECODE, code_object.co_code_adaptive),
        OF(SPP_L_CODE_SIZE, code_object.co_code_adaptive),
        OF(SPP_L_STR_LENGTH, unicode_object.length),
        OF(SPP_L_STR_STATE - STATE_BEFORE_BITS, unicode_object.state),
        OF(SPP_L_STR_ASCII_DATA, unicode_object.asciiobject_size),
        OF(SPP_L_BYTES_DATA, bytes_object.ob_sval),
#if PY_VERSION_HEX >= 0x030E0000
        OF(SPP_L_GEN_IFRAME, gen_object.gi_iframe),
        OF(SPP_L_GEN_STATE, gen_object.gi_frame_state),
#ifdef Py_GIL_DISABLED
        OF(SPP_L_FRAME_TLBC, interpreter_frame.tlbc_index),
        OF(SPP_L_CODE_TLBC, code_object.co_tlbc),
#endif
#endif
#if PY_VERSION_HEX >= 0x030F0000
        OF(SPP_L_TS_BASE_FRAME, thread_state.base_frame),
        OF(SPP_L_STR_DATA, unicode_object.compactunicodeobject_size),
#endif
    };
#undef OF
    /* Before the table, which moves with the version. The last byte of the version is the stage of a release. */
    if (memcmp(d->cookie, _Py_Debug_Cookie, sizeof d->cookie) != 0 || d->version >> 16 != PY_VERSION_HEX >> 16) {
        return "_Py_DebugOffsets.version";
    }
    if ((d->free_threaded != 0) != s_free_threaded) {
        return "_Py_DebugOffsets.free_threaded";
    }
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        if (same[i].ours != (long)*same[i].theirs) {
            return same[i].name + sizeof "SPP_L_" - 1;
        }
    }
    s_has_cached_chunk = d->thread_state.size >= (uint64_t)SPP_L_TS_CACHED_CHUNK + 8;
    return NULL;
}
#else
static const char *prove_debug_offsets(void) {
    s_has_cached_chunk = false;
    return NULL;
}
#endif

/* --- the whole ------------------------------------------------------------------------------------------------- */

static const char *prove_version(void) {
    int major = 0, minor = 0;
    if (sscanf(Py_GetVersion(), "%d.%d", &major, &minor) != 2 || major != PY_MAJOR_VERSION || minor != PY_MINOR_VERSION) {
        return "the version, spprof was built for " Py_STRINGIFY(PY_MAJOR_VERSION) "." Py_STRINGIFY(PY_MINOR_VERSION);
    }
    return NULL;
}

static const char *prove_all(void) {
    const char *bad = prove_version();
    bad = bad ? bad : prove_debug_offsets();
    bad = bad ? bad : prove_strings();
    bad = bad ? bad : prove_thread_state();
    bad = bad ? bad : prove_chain();
    return bad ? bad : prove_with_python();
}

bool spp_layout_prove(char *message, size_t size) {
    if (spp_os_reader_open(&s_reader) != 0) {
        snprintf(message, size, "spprof cannot prove the layout of this Python: no pipe (out of file descriptors?)");
        return false;
    }
    const char *bad = prove_all();
    PyErr_Clear();
    spp_os_reader_close(&s_reader);
    if (!bad) {
        return true;
    }
    const char *version = Py_GetVersion();
    int length = (int)strcspn(version, " ");
    if (bad == k_cannot) {
        snprintf(message, size, "spprof cannot prove the layout of Python %.*s: %s", length, version, bad);
    } else {
        snprintf(message, size, "spprof does not know the layout of Python %.*s: %s is not as in %s", length, version, bad,
                 SPP_LAYOUT);
    }
    return false;
}

bool spp_layout_has_cached_chunk(void) { return s_has_cached_chunk; }
