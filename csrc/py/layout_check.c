/* Compile-time comparison of the chosen layout_3XX.h with CPython's own headers; generates no code.
 *
 * A build against other headers than the layout was taken from must stop here, with a message that names the field.
 * Not asserted: the bits inside the state word of a str, since C has no offsetof for bit-fields (layout_proof.c proves
 * those at import), and SPP_L_INSTR_SCALE and SPP_L_LINES, which are rules and not places. */
#include "internals.h"

#include <frameobject.h>

/* First: pycore_tstate.h of 3.13.0 needs it in a free-threaded build. */
#include <internal/pycore_interp.h>
#if PY_VERSION_HEX >= 0x030B0000
#include <internal/pycore_code.h>
#include <internal/pycore_dict.h>
#include <internal/pycore_frame.h>
#endif
#if PY_VERSION_HEX >= 0x030D0000
#include <internal/pycore_genobject.h>
#include <internal/pycore_tstate.h>
#endif
#if PY_VERSION_HEX >= 0x030E0000
#include <internal/pycore_interpframe.h>
#include <internal/pycore_stackref.h>
#endif
#include <stddef.h>

#include "layout.h"

#define SAME(ours, theirs) _Static_assert((long long)(ours) == (long long)(theirs), "layout: " #ours " is not CPython's " #theirs)
#define AT(ours, type, field) \
    _Static_assert((ours) == (long long)offsetof(type, field), "layout: " #ours " is not CPython's " #type "." #field)
#define NONE(ours) _Static_assert((ours) == -1, "layout: " #ours " must be -1, this Python has no such field")

#if defined(Py_GIL_DISABLED) && PY_VERSION_HEX >= 0x030E0000
#define HAS_TLBC 1
#else
#define HAS_TLBC 0
#endif

/* datastack_cached_chunk came to the end of the struct with 3.13.13 and 3.14.4. The place is reserved in the layout for
 * older releases too: it lies within _PyThreadStateImpl there, and spp_layout_has_cached_chunk() says not to use it. */
#if (PY_VERSION_HEX >= 0x030D0DF0 && PY_VERSION_HEX < 0x030E0000) || PY_VERSION_HEX >= 0x030E04F0
#define HAS_CACHED_CHUNK 1
#else
#define HAS_CACHED_CHUNK 0
#endif

_Static_assert(sizeof(void *) == 8, "layout: only 64-bit builds are described");

/* Object header */
#if defined(Py_GIL_DISABLED)
AT(SPP_L_OB_REFCNT, PyObject, ob_ref_local);
#else
AT(SPP_L_OB_REFCNT, PyObject, ob_refcnt);
#endif
AT(SPP_L_OB_TYPE, PyObject, ob_type);
AT(SPP_L_OB_SIZE, PyVarObject, ob_size);

/* Thread and interpreter state */
AT(SPP_L_TS_NEXT, PyThreadState, next);
AT(SPP_L_TS_INTERP, PyThreadState, interp);
AT(SPP_L_TS_THREAD_ID, PyThreadState, thread_id);
#ifndef SPP_L_INTERP_NEXT_UNUSED
AT(SPP_L_INTERP_NEXT, PyInterpreterState, next);
#endif
#if PY_VERSION_HEX < 0x030B0000
SAME(SPP_L_CHAIN, 1);
AT(SPP_L_TS_FRAME, PyThreadState, frame);
NONE(SPP_L_TS_CHUNK);
NONE(SPP_L_TS_TOP);
NONE(SPP_L_TS_LIMIT);
NONE(SPP_L_TS_NATIVE_ID);
AT(SPP_L_INTERP_NEXT_UNIQUE_ID, PyInterpreterState, tstate_next_unique_id);
AT(SPP_L_INTERP_THREADS_HEAD, PyInterpreterState, tstate_head);
#else
AT(SPP_L_TS_CHUNK, PyThreadState, datastack_chunk);
AT(SPP_L_TS_TOP, PyThreadState, datastack_top);
AT(SPP_L_TS_LIMIT, PyThreadState, datastack_limit);
AT(SPP_L_TS_NATIVE_ID, PyThreadState, native_thread_id);
AT(SPP_L_INTERP_NEXT_UNIQUE_ID, PyInterpreterState, threads.next_unique_id);
AT(SPP_L_INTERP_THREADS_HEAD, PyInterpreterState, threads.head);
#endif
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030D0000
SAME(SPP_L_CHAIN, 2);
AT(SPP_L_TS_FRAME, PyThreadState, cframe);
AT(SPP_L_CFRAME_CURRENT, _PyCFrame, current_frame);
AT(SPP_L_CFRAME_PREVIOUS, _PyCFrame, previous);
#else
NONE(SPP_L_CFRAME_CURRENT);
NONE(SPP_L_CFRAME_PREVIOUS);
#endif
#if PY_VERSION_HEX >= 0x030D0000
SAME(SPP_L_CHAIN, 3);
AT(SPP_L_TS_FRAME, PyThreadState, current_frame);
#endif
#if HAS_CACHED_CHUNK
AT(SPP_L_TS_CACHED_CHUNK, PyThreadState, datastack_cached_chunk);
#elif PY_VERSION_HEX < 0x030D0000
NONE(SPP_L_TS_CACHED_CHUNK);
#else
SAME(SPP_L_TS_CACHED_CHUNK, sizeof(PyThreadState));
_Static_assert(SPP_L_TS_SIZE <= sizeof(_PyThreadStateImpl), "layout: SPP_L_TS_SIZE reaches past _PyThreadStateImpl");
#endif
#if HAS_CACHED_CHUNK || PY_VERSION_HEX < 0x030D0000
SAME(SPP_L_TS_SIZE, sizeof(PyThreadState));
#endif
#if PY_VERSION_HEX >= 0x030F0000
AT(SPP_L_TS_BASE_FRAME, PyThreadState, base_frame);
#else
NONE(SPP_L_TS_BASE_FRAME);
#endif
#if PY_VERSION_HEX >= 0x030C0000 && PY_VERSION_HEX < 0x030D0000
AT(SPP_L_INTERP_TRAMPOLINE, PyInterpreterState, interpreter_trampoline);
#else
NONE(SPP_L_INTERP_TRAMPOLINE);
#endif

/* Data stack chunks and frames */
#if PY_VERSION_HEX < 0x030B0000
NONE(SPP_L_CHUNK_PREVIOUS);
NONE(SPP_L_CHUNK_SIZE);
NONE(SPP_L_CHUNK_TOP);
NONE(SPP_L_CHUNK_DATA);
AT(SPP_L_FRAME_SIZE, PyFrameObject, f_localsplus);
AT(SPP_L_FRAME_PREVIOUS, PyFrameObject, f_back);
AT(SPP_L_FRAME_CODE, PyFrameObject, f_code);
AT(SPP_L_FRAME_INSTR, PyFrameObject, f_lasti);
_Static_assert(sizeof(((PyFrameObject *)0)->f_lasti) == sizeof(int), "layout: SPP_L_FRAME_INSTR must be an int");
NONE(SPP_L_FRAME_OWNER);
#else
AT(SPP_L_CHUNK_PREVIOUS, _PyStackChunk, previous);
AT(SPP_L_CHUNK_SIZE, _PyStackChunk, size);
AT(SPP_L_CHUNK_TOP, _PyStackChunk, top);
AT(SPP_L_CHUNK_DATA, _PyStackChunk, data);
AT(SPP_L_FRAME_SIZE, _PyInterpreterFrame, localsplus);
AT(SPP_L_FRAME_PREVIOUS, _PyInterpreterFrame, previous);
AT(SPP_L_FRAME_OWNER, _PyInterpreterFrame, owner);
#if PY_VERSION_HEX < 0x030D0000
AT(SPP_L_FRAME_CODE, _PyInterpreterFrame, f_code);
AT(SPP_L_FRAME_INSTR, _PyInterpreterFrame, prev_instr);
#else
AT(SPP_L_FRAME_CODE, _PyInterpreterFrame, f_executable);
AT(SPP_L_FRAME_INSTR, _PyInterpreterFrame, instr_ptr);
#endif
#endif
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000
AT(SPP_L_FRAME_IS_ENTRY, _PyInterpreterFrame, is_entry);
#else
NONE(SPP_L_FRAME_IS_ENTRY);
#endif
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030D0000
AT(SPP_L_FRAME_STACKTOP, _PyInterpreterFrame, stacktop);
_Static_assert(sizeof(((_PyInterpreterFrame *)0)->stacktop) == sizeof(int), "layout: SPP_L_FRAME_STACKTOP must be an int");
#else
NONE(SPP_L_FRAME_STACKTOP);
#endif
#if PY_VERSION_HEX >= 0x030B0000
AT(SPP_L_FRAME_OBJECT, _PyInterpreterFrame, frame_obj);
AT(SPP_L_OBJECT_FRAME, PyFrameObject, f_frame);
#else
NONE(SPP_L_FRAME_OBJECT);
NONE(SPP_L_OBJECT_FRAME);
#endif
#if PY_VERSION_HEX >= 0x030E0000
_Static_assert((SPP_L_FRAME_CODE_MASK & Py_TAG_BITS) == 0, "layout: SPP_L_FRAME_CODE_MASK leaves tag bits");
_Static_assert(~SPP_L_FRAME_CODE_MASK <= 7, "layout: SPP_L_FRAME_CODE_MASK removes bits of the address");
#else
_Static_assert(SPP_L_FRAME_CODE_MASK == ~0ull, "layout: SPP_L_FRAME_CODE_MASK must keep all bits of a plain pointer");
#endif

/* Owners and generators */
#if PY_VERSION_HEX < 0x030B0000
NONE(SPP_L_GEN_IFRAME);
NONE(SPP_L_GEN_STATE);
NONE(SPP_L_GEN_EXECUTING);
#else
SAME(SPP_L_OWNED_BY_THREAD, FRAME_OWNED_BY_THREAD);
SAME(SPP_L_OWNED_BY_GENERATOR, FRAME_OWNED_BY_GENERATOR);
SAME(SPP_L_OWNED_BY_OBJECT, FRAME_OWNED_BY_FRAME_OBJECT);
AT(SPP_L_GEN_IFRAME, PyGenObject, gi_iframe);
AT(SPP_L_GEN_STATE, PyGenObject, gi_frame_state);
SAME(SPP_L_GEN_EXECUTING, FRAME_EXECUTING);
#endif
#if PY_VERSION_HEX < 0x030C0000
_Static_assert(SPP_L_OWNER_ENTRY_MIN > SPP_L_OWNER_ENTRY_MAX, "layout: SPP_L_OWNER_ENTRY_* must be empty");
#elif PY_VERSION_HEX < 0x030E0000
SAME(SPP_L_OWNER_ENTRY_MIN, FRAME_OWNED_BY_CSTACK);
SAME(SPP_L_OWNER_ENTRY_MAX, FRAME_OWNED_BY_CSTACK);
#elif PY_VERSION_HEX < 0x030F0000
SAME(SPP_L_OWNER_ENTRY_MIN, FRAME_OWNED_BY_INTERPRETER);
SAME(SPP_L_OWNER_ENTRY_MAX, FRAME_OWNED_BY_CSTACK);
#else
SAME(SPP_L_OWNER_ENTRY_MIN, FRAME_OWNED_BY_INTERPRETER);
SAME(SPP_L_OWNER_ENTRY_MAX, FRAME_OWNED_BY_INTERPRETER);
#endif

/* Code objects */
AT(SPP_L_CODE_NAME, PyCodeObject, co_name);
AT(SPP_L_CODE_FILENAME, PyCodeObject, co_filename);
AT(SPP_L_CODE_FIRSTLINENO, PyCodeObject, co_firstlineno);
#if PY_VERSION_HEX < 0x030A0000
AT(SPP_L_CODE_LINETABLE, PyCodeObject, co_lnotab);
#else
AT(SPP_L_CODE_LINETABLE, PyCodeObject, co_linetable);
#endif
#if PY_VERSION_HEX < 0x030B0000
NONE(SPP_L_CODE_QUALNAME);
NONE(SPP_L_CODE_BYTECODE);
AT(SPP_L_CODE_CODEOBJ, PyCodeObject, co_code);
SAME(SPP_L_CODE_SIZE, SPP_L_CODE_LINETABLE + 8);
#else
AT(SPP_L_CODE_QUALNAME, PyCodeObject, co_qualname);
AT(SPP_L_CODE_BYTECODE, PyCodeObject, co_code_adaptive);
NONE(SPP_L_CODE_CODEOBJ);
AT(SPP_L_CODE_SIZE, PyCodeObject, co_code_adaptive);
#endif
#if HAS_TLBC
AT(SPP_L_FRAME_TLBC, _PyInterpreterFrame, tlbc_index);
AT(SPP_L_CODE_TLBC, PyCodeObject, co_tlbc);
AT(SPP_L_TLBC_SIZE, _PyCodeArray, size);
AT(SPP_L_TLBC_ENTRIES, _PyCodeArray, entries);
#else
NONE(SPP_L_FRAME_TLBC);
NONE(SPP_L_CODE_TLBC);
NONE(SPP_L_TLBC_SIZE);
NONE(SPP_L_TLBC_ENTRIES);
#endif

/* str and bytes */
AT(SPP_L_STR_LENGTH, PyASCIIObject, length);
/* Its last four bytes hold the bits: there are no others, but on Windows in free-threaded 3.14+, where a word with `interned`
 * alone goes before them. */
SAME(SPP_L_STR_STATE, offsetof(PyASCIIObject, state) + sizeof(((PyASCIIObject *)0)->state) - 4);
SAME(SPP_L_STR_ASCII_DATA, sizeof(PyASCIIObject));
SAME(SPP_L_STR_DATA, sizeof(PyCompactUnicodeObject));
AT(SPP_L_BYTES_DATA, PyBytesObject, ob_sval);

/* dict. The tables of keys have no header before 3.11: module/tasks.c proves what is read of them at each start. TaskObj has none
 * at all: its size is compared when asyncio is found, and the names of tasks are tested. */
AT(SPP_L_DICT_KEYS, PyDictObject, ma_keys);
SAME(SPP_L_DICT_KEYS + 8, offsetof(PyDictObject, ma_values));
#if PY_VERSION_HEX >= 0x030B0000
AT(SPP_L_KEYS_USED, struct _dictkeysobject, dk_nentries);
SAME(SPP_L_KEYS_USED + 8, offsetof(struct _dictkeysobject, dk_indices));
_Static_assert(SPP_L_KEYS_SHAPE == 1 && offsetof(struct _dictkeysobject, dk_log2_size) == 8 &&
                   offsetof(struct _dictkeysobject, dk_log2_index_bytes) == 9 && offsetof(struct _dictkeysobject, dk_kind) == 10,
               "layout: dk_log2_size, dk_log2_index_bytes and dk_kind are elsewhere");
#endif
