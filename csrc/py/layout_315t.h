/* Layout of CPython 3.15, free-threaded (Py_GIL_DISABLED) on 64-bit Linux (LP64, little endian).
 *
 * Taken from the headers of 3.15.2.
 * Agrees with the headers of the patch releases 3.15.2 (headers only, never run).
 * Others were not at hand, see docs/layouts.md: the proof at import decides. */
#ifndef SPPROF_PY_LAYOUT_315T_H
#define SPPROF_PY_LAYOUT_315T_H

#define SPP_L_CHAIN 3

/* Object header */
#define SPP_L_OB_REFCNT 12 /* ob_ref_local, a u32; ob_ref_shared is not read */
#define SPP_L_OB_TYPE 24
#define SPP_L_OB_SIZE 32

/* PyThreadState */
#define SPP_L_TS_SIZE 888
#define SPP_L_TS_NEXT 8
#define SPP_L_TS_INTERP 16
#define SPP_L_TS_THREAD_ID 176
#define SPP_L_TS_FRAME 72 /* current_frame */
#define SPP_L_TS_CHUNK 256
#define SPP_L_TS_TOP 264
#define SPP_L_TS_LIMIT 272
#define SPP_L_TS_CACHED_CHUNK 280
#define SPP_L_TS_BASE_FRAME 80
#define SPP_L_TS_NATIVE_ID 184

/* PyInterpreterState */
#define SPP_L_INTERP_NEXT 7264
#define SPP_L_INTERP_NEXT_UNIQUE_ID 7328
#define SPP_L_INTERP_TRAMPOLINE (-1)
#define SPP_L_INTERP_THREADS_HEAD 7336

/* _PyCFrame and _PyStackChunk */
#define SPP_L_CFRAME_CURRENT (-1)
#define SPP_L_CFRAME_PREVIOUS (-1)
#define SPP_L_CHUNK_PREVIOUS 0
#define SPP_L_CHUNK_SIZE 8
#define SPP_L_CHUNK_TOP 16
#define SPP_L_CHUNK_DATA 24

/* Frame */
#define SPP_L_FRAME_SIZE 80 /* localsplus */
#define SPP_L_FRAME_PREVIOUS 8
#define SPP_L_FRAME_CODE 0            /* f_executable */
#define SPP_L_FRAME_CODE_MASK (~3ull) /* f_executable is a tagged _PyStackRef */
#define SPP_L_FRAME_INSTR 56          /* instr_ptr */
#define SPP_L_INSTR_SCALE 1
#define SPP_L_FRAME_OWNER 78
#define SPP_L_FRAME_TLBC 72 /* tlbc_index, an i32 */
#define SPP_L_FRAME_IS_ENTRY (-1)
#define SPP_L_FRAME_STACKTOP (-1)
#define SPP_L_FRAME_OBJECT 48 /* frame_obj */
#define SPP_L_OBJECT_FRAME 40 /* f_frame */

/* Frame owners */
#define SPP_L_OWNED_BY_THREAD 0
#define SPP_L_OWNED_BY_GENERATOR 1
#define SPP_L_OWNED_BY_OBJECT 2
#define SPP_L_OWNER_ENTRY_MIN 3
#define SPP_L_OWNER_ENTRY_MAX 3

/* Generator */
#define SPP_L_GEN_IFRAME 88
#define SPP_L_GEN_STATE 83
#define SPP_L_GEN_EXECUTING 4

/* Code object */
#define SPP_L_CODE_SIZE 232
#define SPP_L_CODE_NAME 136
#define SPP_L_CODE_QUALNAME 144
#define SPP_L_CODE_FILENAME 128
#define SPP_L_CODE_FIRSTLINENO 84
#define SPP_L_CODE_LINETABLE 152
#define SPP_L_CODE_BYTECODE 232 /* co_code_adaptive */
#define SPP_L_CODE_CODEOBJ (-1)
#define SPP_L_CODE_TLBC 224
#define SPP_L_TLBC_SIZE 0
#define SPP_L_TLBC_ENTRIES 8
#define SPP_L_LINES 3 /* location table */

/* str and bytes */
#define SPP_L_STR_LENGTH 32
#define SPP_L_STR_STATE 48
#define SPP_L_STR_KIND_SHIFT 8
#define SPP_L_STR_KIND_MASK 7
#define SPP_L_STR_COMPACT_BIT 11
#define SPP_L_STR_ASCII_BIT 12
#define SPP_L_STR_ASCII_DATA 56
#define SPP_L_STR_DATA 72
#define SPP_L_BYTES_DATA 48

/* dict */
#define SPP_L_DICT_KEYS 48 /* ma_keys; ma_values follows */
#define SPP_L_KEYS_SHAPE 1 /* dk_log2_size and what follows it describe the table */
#define SPP_L_KEYS_USED 24 /* dk_nentries; the indices follow */

/* asyncio: TaskObj, the FutureObj that it begins with, and how a thread state's dict has its loop */
#define SPP_L_TASK_SIZE 184
#define SPP_L_TASK_NAME 152
#define SPP_L_FUTURE_STATE 120
#define SPP_L_FUTURE_AWAITED_BY 112
#define SPP_L_LOOP_HOLDER (-1)

#endif
