#include "proof_objects.h"

#include <stdbool.h>
#include <string.h>

#include "layout.h"
#include "proof_read.h"

static uint32_t state_bits(const PyASCIIObject *o) {
    uint32_t bits;
    memcpy(&bits, (const char *)&o->state + SPP_PROOF_STR_STATE_BITS, sizeof bits);
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
    if (spp_proof_word((uintptr_t)o, SPP_L_OB_TYPE) != (uintptr_t)type) {
        return "OB_TYPE";
    }
    return spp_proof_u32((uintptr_t)o, SPP_L_OB_REFCNT) == (uint32_t)Py_REFCNT(o) ? NULL : "OB_REFCNT";
}

static const char *prove_one_str(const char *utf8, uint32_t kind, bool ascii) {
    PyObject *o = PyUnicode_FromString(utf8);
    if (!o) {
        return spp_proof_cannot;
    }
    uintptr_t p = (uintptr_t)o;
    const char *bad = prove_header(o, &PyUnicode_Type);
    size_t length = (size_t)PyUnicode_GET_LENGTH(o);
    uint32_t state = spp_proof_u32(p, SPP_L_STR_STATE);
    if (!bad && spp_proof_word(p, SPP_L_STR_LENGTH) != length) {
        bad = "STR_LENGTH";
    }
    if (!bad && (((state >> SPP_L_STR_KIND_SHIFT) & SPP_L_STR_KIND_MASK) != kind || ((state >> SPP_L_STR_COMPACT_BIT) & 1) != 1 ||
                 ((state >> SPP_L_STR_ASCII_BIT) & 1) != ascii)) {
        bad = "STR_STATE";
    }
    if (!bad && !spp_proof_same(p, ascii ? SPP_L_STR_ASCII_DATA : SPP_L_STR_DATA, PyUnicode_DATA(o), length * kind)) {
        bad = ascii ? "STR_ASCII_DATA" : "STR_DATA";
    }
    Py_DECREF(o);
    return bad;
}

const char *spp_proof_strings(void) {
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
        return spp_proof_cannot;
    }
    bad = prove_header(o, &PyBytes_Type);
    if (!bad && spp_proof_word((uintptr_t)o, SPP_L_OB_SIZE) != sizeof text - 1) {
        bad = "OB_SIZE";
    }
    if (!bad && !spp_proof_same((uintptr_t)o, SPP_L_BYTES_DATA, text, sizeof text)) {
        bad = "BYTES_DATA";
    }
    Py_DECREF(o);
    return bad;
}

static bool attr_is_at(PyObject *o, const char *name, long offset) {
    PyObject *a = PyObject_GetAttrString(o, name);
    bool same = a && spp_proof_word((uintptr_t)o, offset) == (uintptr_t)a;
    Py_XDECREF(a);
    return same;
}

long spp_proof_long(PyObject *o, const char *name) {
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
                spp_proof_same((uintptr_t)code, SPP_L_CODE_BYTECODE, PyBytes_AS_STRING(text), 1) &&
                spp_proof_word((uintptr_t)code, SPP_L_OB_SIZE) * 2 == (uintptr_t)PyBytes_GET_SIZE(text);
    Py_XDECREF(text);
    return same ? NULL : "CODE_BYTECODE";
}

const char *spp_proof_code(PyObject *code) {
    if (spp_proof_word((uintptr_t)code, SPP_L_OB_TYPE) != (uintptr_t)&PyCode_Type) {
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
    if ((long)spp_proof_u32((uintptr_t)code, SPP_L_CODE_FIRSTLINENO) != spp_proof_long(code, "co_firstlineno")) {
        return "CODE_FIRSTLINENO";
    }
    if (!attr_is_at(code, SPP_L_LINES == 1 ? "co_lnotab" : "co_linetable", SPP_L_CODE_LINETABLE)) {
        return "CODE_LINETABLE";
    }
    return prove_bytecode(code);
}
