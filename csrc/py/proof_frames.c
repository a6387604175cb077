#include <Python.h>

#include <frameobject.h>

#include "proof_frames.h"

#include <stddef.h>

#include "layout.h"
#include "proof_objects.h"
#include "proof_read.h"

#define MAX_FRAMES 100000

uintptr_t spp_proof_frame_top(uintptr_t ts) {
    uintptr_t p = spp_proof_word(ts, SPP_L_TS_FRAME);
    return SPP_L_CHAIN == 2 ? spp_proof_word(p, SPP_L_CFRAME_CURRENT) : p;
}

/* Start of the bytecode that a frame's instruction pointer points into: a copy of this thread's in free-threaded 3.14+.
 */
static uintptr_t bytecode_of(const spp_proof_frame *f) {
    uintptr_t main_copy = f->code + (uintptr_t)SPP_L_CODE_BYTECODE;
    if (SPP_L_CODE_TLBC < 0) {
        return main_copy;
    }
    uintptr_t copies = spp_proof_word(f->code, SPP_L_CODE_TLBC);
    uint32_t index = spp_proof_u32(f->frame, SPP_L_FRAME_TLBC);
    if (!copies || index >= spp_proof_word(copies, SPP_L_TLBC_SIZE) || spp_proof_word(copies, SPP_L_TLBC_ENTRIES) != main_copy) {
        return 0;
    }
    return spp_proof_word(copies, SPP_L_TLBC_ENTRIES + 8l * (long)index);
}

void spp_proof_frame_read(uintptr_t frame, spp_proof_frame *f) {
    f->frame = frame;
    f->code = spp_proof_word(frame, SPP_L_FRAME_CODE) & (uintptr_t)SPP_L_FRAME_CODE_MASK;
    f->owner = SPP_L_FRAME_OWNER >= 0 ? spp_proof_i8(frame, SPP_L_FRAME_OWNER) : SPP_L_OWNED_BY_THREAD;
    if (SPP_L_CHAIN == 1) {
        f->byte_offset = (int)spp_proof_u32(frame, SPP_L_FRAME_INSTR) * (long)SPP_L_INSTR_SCALE;
    } else {
        f->byte_offset = (long)(spp_proof_word(frame, SPP_L_FRAME_INSTR) - bytecode_of(f));
    }
}

bool spp_proof_frame_is_entry(const spp_proof_frame *f) {
    return f->owner >= SPP_L_OWNER_ENTRY_MIN && f->owner <= SPP_L_OWNER_ENTRY_MAX;
}

/* CPython's API hides frames that have not reached their first traceable instruction, such as the shim that calls
 * __init__ in 3.13+. Generators' are never hidden, and entry frames are recognized by their owner alone. */
static bool is_incomplete(const spp_proof_frame *f) {
#if PY_VERSION_HEX >= 0x030B0000
    int first = 0;
    return f->owner == SPP_L_OWNED_BY_THREAD && spp_proof_word(f->code, SPP_L_OB_TYPE) == (uintptr_t)&PyCode_Type &&
           spp_proof_read(f->code, (long)offsetof(PyCodeObject, _co_firsttraceable), &first, sizeof first) &&
           f->byte_offset < 2l * first;
#else
    (void)f;
    return false;
#endif
}

const char *spp_proof_entry(uintptr_t ts, const spp_proof_frame *f) {
    if (SPP_L_INTERP_TRAMPOLINE >= 0) {
        uintptr_t trampoline = spp_proof_word(spp_proof_word(ts, SPP_L_TS_INTERP), SPP_L_INTERP_TRAMPOLINE);
        return f->code && f->code == trampoline ? NULL : "INTERP_TRAMPOLINE";
    }
    bool known = f->code == (uintptr_t)Py_None || spp_proof_word(f->code, SPP_L_OB_TYPE) == (uintptr_t)&PyCode_Type;
    return known ? NULL : "FRAME_CODE of an entry frame";
}

const char *spp_proof_frame_next(uintptr_t ts, uintptr_t *frame, spp_proof_frame *f) {
    for (int i = 0; *frame && i < MAX_FRAMES; i++) {
        spp_proof_frame_read(*frame, f);
        *frame = spp_proof_word(*frame, SPP_L_FRAME_PREVIOUS);
        if (spp_proof_frame_is_entry(f)) {
            const char *bad = spp_proof_entry(ts, f);
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

static const char *prove_same_frame(const spp_proof_frame *f, PyFrameObject *shown) {
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
    if (SPP_L_FRAME_OBJECT >= 0 && spp_proof_word(f->frame, SPP_L_FRAME_OBJECT) != (uintptr_t)shown) {
        return "FRAME_OBJECT";
    }
    if (SPP_L_OBJECT_FRAME >= 0 && spp_proof_word((uintptr_t)shown, SPP_L_OBJECT_FRAME) != f->frame) {
        return "OBJECT_FRAME";
    }
    long want = spp_proof_long((PyObject *)shown, "f_lasti");
    if (f->byte_offset != want && !(f->byte_offset < 0 && want < 0)) {
        return SPP_L_FRAME_TLBC >= 0 ? "FRAME_INSTR or FRAME_TLBC" : "FRAME_INSTR";
    }
    return NULL;
}

const char *spp_proof_chain(void) {
    PyThreadState *state = PyThreadState_Get();
    uintptr_t ts = (uintptr_t)state, frame = spp_proof_frame_top(ts);
    PyFrameObject *shown = PyThreadState_GetFrame(state);
    const char *bad = frame ? NULL : "TS_FRAME";
    spp_proof_frame f = {0, 0, 0, 0};
    while (!bad && shown) {
        bad = spp_proof_frame_next(ts, &frame, &f);
        bad = bad ? bad : prove_same_frame(&f, shown);
        PyFrameObject *back = PyFrame_GetBack(shown);
        Py_DECREF(shown);
        shown = back;
    }
    Py_XDECREF(shown);
    if (!bad) {
        bad = spp_proof_frame_next(ts, &frame, &f);
        if (!bad && f.frame) {
            bad = "FRAME_PREVIOUS";
        }
    }
    return bad;
}
