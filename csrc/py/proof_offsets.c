#include "internals.h"

#include "proof_offsets.h"

#if PY_VERSION_HEX >= 0x030D0000
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>
#endif

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "layout.h"
#include "proof_objects.h"
#include "proof_read.h"

#if PY_VERSION_HEX >= 0x030D0000
/* `theirs`: where in _Py_DebugOffsets. */
#define OF(constant, field) \
    { (long)(constant), offsetof(_Py_DebugOffsets, field), #constant }
static const struct {
    long ours;
    size_t theirs;
    const char *name;
} SAME[] = {
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
    OF(SPP_L_STR_STATE - SPP_PROOF_STR_STATE_BITS, unicode_object.state),
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

const char *spp_proof_offsets(bool *has_cached_chunk) {
    const _Py_DebugOffsets *d = &_PyRuntime.debug_offsets;
    /* Before the table, which moves with the version. The last byte of the version is the stage of a release. */
    if (memcmp(d->cookie, _Py_Debug_Cookie, sizeof d->cookie) != 0 || d->version >> 16 != PY_VERSION_HEX >> 16) {
        return "_Py_DebugOffsets.version";
    }
    if ((d->free_threaded != 0) != SPP_PROOF_FREE_THREADED) return "_Py_DebugOffsets.free_threaded";
    for (size_t i = 0; i < sizeof SAME / sizeof SAME[0]; i++) {
        uint64_t theirs;
        memcpy(&theirs, (const char *)d + SAME[i].theirs, sizeof theirs);
        if (SAME[i].ours != (long)theirs) return SAME[i].name + sizeof "SPP_L_" - 1;
    }
    *has_cached_chunk = d->thread_state.size >= (uint64_t)SPP_L_TS_CACHED_CHUNK + 8;
    return NULL;
}
#else
const char *spp_proof_offsets(bool *has_cached_chunk) {
    *has_cached_chunk = false;
    return NULL;
}
#endif
