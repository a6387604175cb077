/* Why at run time too: the headers of a build and the interpreter that loads it may be of different patch releases, or
 * of a patched one. Never guess: what differs is named and spprof refuses to start. */
#include "internals.h"

#include "layout_proof.h"

#if PY_VERSION_HEX >= 0x030B0000
#include <internal/pycore_frame.h>
#endif

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "layout.h"
#include "proof_frames.h"
#include "proof_objects.h"
#include "proof_offsets.h"
#include "proof_read.h"

/* Of the thread that proves: interpreters with a GIL each may do so at once. */
static _Thread_local const char *s_failed; /* what the probe, called from Python, found wrong */
static _Thread_local bool s_probed;
static _Thread_local bool s_has_cached_chunk;

/* --- thread state, data stack, generators ---------------------------------------------------------------------- */

#if PY_VERSION_HEX >= 0x030B0000
static uintptr_t end_of(const spp_proof_frame *f) {
    const PyCodeObject *code = (const PyCodeObject *)f->code; /* proven to be one by the walk before */
    return f->frame + (uintptr_t)SPP_L_FRAME_SIZE + 8 * (uintptr_t)(code->co_nlocalsplus + code->co_stacksize);
}

/* The frames that the Python code of the proof made, newest first: spprof_b and spprof_a follow spprof_big in the chunk
 * that spprof_big, too large for a common one, opened; the module's is the last in the chunk before. */
static const char *prove_data_stack(uintptr_t ts, const spp_proof_frame *big, const spp_proof_frame *newest,
                                    const spp_proof_frame *old) {
    uintptr_t chunk = spp_proof_word(ts, SPP_L_TS_CHUNK);
    if (!chunk || spp_proof_word(ts, SPP_L_TS_LIMIT) != chunk + spp_proof_word(chunk, SPP_L_CHUNK_SIZE)) {
        return "TS_CHUNK, TS_LIMIT or CHUNK_SIZE";
    }
    if (big->frame != chunk + (uintptr_t)SPP_L_CHUNK_DATA) {
        return "CHUNK_DATA";
    }
    if (spp_proof_word(ts, SPP_L_TS_TOP) != end_of(newest)) {
        return "TS_TOP or FRAME_SIZE";
    }
    chunk = spp_proof_word(chunk, SPP_L_CHUNK_PREVIOUS);
    if (end_of(old) != chunk + (uintptr_t)SPP_L_CHUNK_DATA + 8 * spp_proof_word(chunk, SPP_L_CHUNK_TOP)) {
        return "CHUNK_PREVIOUS or CHUNK_TOP";
    }
    return NULL;
}
#endif

/* A new thread state's id is the counter's newest value, and it is first in the list. Other threads may start meanwhile
 * in a free-threaded build. */
static const char *prove_new_state(PyThreadState *state) {
    PyInterpreterState *interp = PyThreadState_GetInterpreter(state);
    if (spp_proof_word((uintptr_t)state, SPP_L_TS_INTERP) != (uintptr_t)interp) {
        return "TS_INTERP";
    }
    PyThreadState *other = PyThreadState_New(interp);
    if (!other) {
        return spp_proof_cannot;
    }
    uint64_t id = PyThreadState_GetID(other);
    uint64_t next = spp_proof_word((uintptr_t)interp, SPP_L_INTERP_NEXT_UNIQUE_ID);
    uintptr_t first = spp_proof_word((uintptr_t)interp, SPP_L_INTERP_THREADS_HEAD);
    bool linked = first == (uintptr_t)PyInterpreterState_ThreadHead(interp) &&
                  spp_proof_word((uintptr_t)other, SPP_L_TS_NEXT) == (uintptr_t)PyThreadState_Next(other);
    PyThreadState_Clear(other);
    PyThreadState_Delete(other);
    if (!linked && !SPP_PROOF_FREE_THREADED) { /* the list may change between the two reads only without a GIL */
        return "INTERP_THREADS_HEAD or TS_NEXT";
    }
    return next >= id && next - id < 1000 ? NULL : "INTERP_NEXT_UNIQUE_ID";
}

static const char *prove_thread_state(void) {
    PyThreadState *state = PyThreadState_Get();
    uintptr_t ts = (uintptr_t)state;
    if (spp_proof_id(ts, SPP_L_TS_THREAD_ID) != PyThread_get_thread_ident()) {
        return "TS_THREAD_ID";
    }
    if (SPP_L_TS_NATIVE_ID >= 0) { /* a forked child of 3.11 still has its parent's: only plausible, not equal */
        unsigned long id = spp_proof_id(ts, SPP_L_TS_NATIVE_ID);
        if (id == 0 || (id > 1u << 22 && id != PyThread_get_thread_native_id())) {
            return "TS_NATIVE_ID";
        }
    }
    if (SPP_L_TS_BASE_FRAME >= 0) {
        spp_proof_frame base;
        spp_proof_frame_read(spp_proof_word(ts, SPP_L_TS_BASE_FRAME), &base);
        if (!base.frame || !spp_proof_frame_is_entry(&base) || spp_proof_entry(ts, &base) ||
            spp_proof_word(base.frame, SPP_L_FRAME_PREVIOUS)) {
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
    spp_proof_frame f;
    spp_proof_frame_read(spp_proof_frame_top(ts), &f);
    uintptr_t gen = f.frame - (uintptr_t)SPP_L_GEN_IFRAME;
    if (f.owner != SPP_L_OWNED_BY_GENERATOR) {
        return "FRAME_OWNER of a generator";
    }
    if (spp_proof_word(gen, SPP_L_OB_TYPE) != (uintptr_t)&PyGen_Type) {
        return "GEN_IFRAME";
    }
    PyObject *code = PyObject_GetAttrString((PyObject *)gen, "gi_code");
    bool same = (uintptr_t)code == f.code;
    Py_XDECREF(code);
    if (!same) {
        return "GEN_IFRAME or FRAME_CODE";
    }
    return spp_proof_i8(gen, SPP_L_GEN_STATE) == SPP_L_GEN_EXECUTING ? NULL : "GEN_STATE or GEN_EXECUTING";
}

/* Called by a generator that list() runs, so that the walk meets a generator's frame and, where they exist, entry
 * frames in the middle of the chain. */
static const char *prove_from_probe(void) {
    uintptr_t ts = (uintptr_t)PyThreadState_Get(), frame = spp_proof_frame_top(ts);
    const char *bad = spp_proof_chain();
    bad = bad ? bad : prove_generator(ts);
#if PY_VERSION_HEX >= 0x030B0000
    spp_proof_frame own[4]; /* spprof_b, spprof_a, spprof_big, the module */
    for (int i = 0; !bad && i < 4;) {
        bad = spp_proof_frame_next(ts, &frame, &own[i]);
        if (!bad && !own[i].frame) {
            bad = "FRAME_OWNER";
        }
        i += !bad && own[i].owner == SPP_L_OWNED_BY_THREAD;
    }
    bad = bad ? bad : prove_data_stack(ts, &own[2], &own[0], &own[3]);
    if (!bad && SPP_L_FRAME_STACKTOP >= 0 && spp_proof_u32(own[0].frame, SPP_L_FRAME_STACKTOP) != UINT32_MAX) {
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
    const char *bad = code && gen ? spp_proof_code(code) : spp_proof_cannot;
#if PY_VERSION_HEX >= 0x030B0000
    if (!bad && spp_proof_i8((uintptr_t)gen, SPP_L_GEN_STATE) != FRAME_CREATED) {
        bad = "GEN_STATE";
    }
#endif
    if (!bad && s_has_cached_chunk) {
        uintptr_t chunk = spp_proof_word((uintptr_t)PyThreadState_Get(), SPP_L_TS_CACHED_CHUNK);
        uintptr_t size = spp_proof_word(chunk, SPP_L_CHUNK_SIZE);
        if (!chunk || size < 16384 || (size & (size - 1)) != 0) {
            bad = "TS_CACHED_CHUNK";
        }
    }
    return bad;
}

static const char *prove_with_python(void) {
    static PyMethodDef method = {"probe", probe, METH_NOARGS, NULL};
    const char *bad = spp_proof_cannot;
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
    bad = bad ? bad : spp_proof_offsets(&s_has_cached_chunk);
    bad = bad ? bad : spp_proof_strings();
    bad = bad ? bad : prove_thread_state();
    bad = bad ? bad : spp_proof_chain();
    return bad ? bad : prove_with_python();
}

bool spp_layout_prove(char *message, size_t size) {
    if (spp_proof_read_open() != 0) {
        snprintf(message, size, "spprof cannot prove the layout of this Python: no pipe (out of file descriptors?)");
        return false;
    }
    const char *bad = prove_all();
    PyErr_Clear();
    spp_proof_read_close();
    if (!bad) {
        return true;
    }
    const char *version = Py_GetVersion();
    int length = (int)strcspn(version, " ");
    if (bad == spp_proof_cannot) {
        snprintf(message, size, "spprof cannot prove the layout of Python %.*s: %s", length, version, bad);
    } else {
        snprintf(message, size, "spprof does not know the layout of Python %.*s: %s is not as in %s", length, version, bad,
                 SPP_LAYOUT);
    }
    return false;
}

bool spp_layout_has_cached_chunk(void) { return s_has_cached_chunk; }
