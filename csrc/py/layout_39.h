/* Layout of CPython 3.9 on 64-bit Linux (LP64, little endian).
 *
 * Taken from the headers of 3.9.18.
 * Agrees with the headers of the patch releases 3.9.2, 3.9.18.
 * Others were not at hand, see docs/layouts.md: the proof at import decides. */
#ifndef SPPROF_PY_LAYOUT_39_H
#define SPPROF_PY_LAYOUT_39_H

#define SPP_L_CHAIN 1

/* Object header */
#define SPP_L_OB_REFCNT 0
#define SPP_L_OB_TYPE 8
#define SPP_L_OB_SIZE 16

/* PyThreadState */
#define SPP_L_TS_SIZE 264
#define SPP_L_TS_NEXT 8
#define SPP_L_TS_INTERP 16
#define SPP_L_TS_THREAD_ID 176
#define SPP_L_TS_FRAME 24 /* frame */
#define SPP_L_TS_CHUNK (-1)
#define SPP_L_TS_TOP (-1)
#define SPP_L_TS_LIMIT (-1)
#define SPP_L_TS_CACHED_CHUNK (-1)
#define SPP_L_TS_BASE_FRAME (-1)
#define SPP_L_TS_NATIVE_ID (-1)

/* PyInterpreterState */
#define SPP_L_INTERP_NEXT 0
#define SPP_L_INTERP_NEXT_UNIQUE_ID 3496
#define SPP_L_INTERP_TRAMPOLINE (-1)
#define SPP_L_INTERP_THREADS_HEAD 8

/* _PyCFrame and _PyStackChunk */
#define SPP_L_CFRAME_CURRENT (-1)
#define SPP_L_CFRAME_PREVIOUS (-1)
#define SPP_L_CHUNK_PREVIOUS (-1)
#define SPP_L_CHUNK_SIZE (-1)
#define SPP_L_CHUNK_TOP (-1)
#define SPP_L_CHUNK_DATA (-1)

/* Frame */
#define SPP_L_FRAME_SIZE 360    /* f_localsplus */
#define SPP_L_FRAME_PREVIOUS 24 /* f_back */
#define SPP_L_FRAME_CODE 32     /* f_code */
#define SPP_L_FRAME_CODE_MASK (~0ull)
#define SPP_L_FRAME_INSTR 104 /* f_lasti, an int */
#define SPP_L_INSTR_SCALE 1
#define SPP_L_FRAME_OWNER (-1)
#define SPP_L_FRAME_TLBC (-1)
#define SPP_L_FRAME_IS_ENTRY (-1)
#define SPP_L_FRAME_STACKTOP (-1)
#define SPP_L_FRAME_OBJECT (-1)
#define SPP_L_OBJECT_FRAME (-1)

/* Frame owners */
#define SPP_L_OWNED_BY_THREAD 0
#define SPP_L_OWNED_BY_GENERATOR 1
#define SPP_L_OWNED_BY_OBJECT 2
#define SPP_L_OWNER_ENTRY_MIN 127 /* an empty range: no entry frames */
#define SPP_L_OWNER_ENTRY_MAX 126

/* Generator */
#define SPP_L_GEN_IFRAME (-1)
#define SPP_L_GEN_STATE (-1)
#define SPP_L_GEN_EXECUTING (-1)

/* Code object */
#define SPP_L_CODE_SIZE 128
#define SPP_L_CODE_NAME 112
#define SPP_L_CODE_QUALNAME (-1)
#define SPP_L_CODE_FILENAME 104
#define SPP_L_CODE_FIRSTLINENO 40
#define SPP_L_CODE_LINETABLE 120 /* co_lnotab */
#define SPP_L_CODE_BYTECODE (-1)
#define SPP_L_CODE_CODEOBJ 48
#define SPP_L_CODE_TLBC (-1)
#define SPP_L_TLBC_SIZE (-1)
#define SPP_L_TLBC_ENTRIES (-1)
#define SPP_L_LINES 1 /* co_lnotab */

/* str and bytes */
#define SPP_L_STR_LENGTH 16
#define SPP_L_STR_STATE 32
#define SPP_L_STR_KIND_SHIFT 2
#define SPP_L_STR_KIND_MASK 7
#define SPP_L_STR_COMPACT_BIT 5
#define SPP_L_STR_ASCII_BIT 6
#define SPP_L_STR_ASCII_DATA 48
#define SPP_L_STR_DATA 72
#define SPP_L_BYTES_DATA 32

/* dict */
#define SPP_L_DICT_KEYS 32 /* ma_keys; ma_values follows */
#define SPP_L_KEYS_SHAPE 0 /* dk_size does */
#define SPP_L_KEYS_USED 32 /* dk_nentries; the indices follow */

/* asyncio: TaskObj, the FutureObj that it begins with, and how a thread state's dict has its loop */
#define SPP_L_TASK_SIZE 184
#define SPP_L_TASK_NAME 160
#define SPP_L_FUTURE_STATE 80
#define SPP_L_FUTURE_AWAITED_BY (-1)
#define SPP_L_LOOP_HOLDER 16 /* rl_loop */

#endif
