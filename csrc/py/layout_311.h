/* Layout of CPython 3.11 on 64-bit Linux (LP64, little endian).
 *
 * Taken from the headers of 3.11.7.
 * Agrees with the headers of the patch releases 3.11.2, 3.11.7.
 * Others were not at hand, see docs/layouts.md: the proof at import decides. */
#ifndef SPPROF_PY_LAYOUT_311_H
#define SPPROF_PY_LAYOUT_311_H

#define SPP_L_CHAIN 2

/* Object header */
#define SPP_L_OB_REFCNT 0
#define SPP_L_OB_TYPE 8
#define SPP_L_OB_SIZE 16

/* PyThreadState */
#define SPP_L_TS_SIZE 360
#define SPP_L_TS_NEXT 8
#define SPP_L_TS_INTERP 16
#define SPP_L_TS_THREAD_ID 152
#define SPP_L_TS_FRAME 56 /* cframe */
#define SPP_L_TS_CHUNK 296
#define SPP_L_TS_TOP 304
#define SPP_L_TS_LIMIT 312
#define SPP_L_TS_CACHED_CHUNK (-1)
#define SPP_L_TS_BASE_FRAME (-1)
#define SPP_L_TS_NATIVE_ID 160

/* PyInterpreterState */
#define SPP_L_INTERP_NEXT 0
#define SPP_L_INTERP_NEXT_UNIQUE_ID 8
#define SPP_L_INTERP_TRAMPOLINE (-1)
#define SPP_L_INTERP_THREADS_HEAD 16

/* _PyCFrame and _PyStackChunk */
#define SPP_L_CFRAME_CURRENT 8
#define SPP_L_CFRAME_PREVIOUS 16
#define SPP_L_CHUNK_PREVIOUS 0
#define SPP_L_CHUNK_SIZE 8
#define SPP_L_CHUNK_TOP 16
#define SPP_L_CHUNK_DATA 24

/* Frame */
#define SPP_L_FRAME_SIZE 72 /* localsplus */
#define SPP_L_FRAME_PREVIOUS 48
#define SPP_L_FRAME_CODE 32 /* f_code */
#define SPP_L_FRAME_CODE_MASK (~0ull)
#define SPP_L_FRAME_INSTR 56 /* prev_instr */
#define SPP_L_INSTR_SCALE 1
#define SPP_L_FRAME_OWNER 69
#define SPP_L_FRAME_TLBC (-1)
#define SPP_L_FRAME_IS_ENTRY 68
#define SPP_L_FRAME_STACKTOP 64 /* -1 while it runs */
#define SPP_L_FRAME_OBJECT 40   /* frame_obj */
#define SPP_L_OBJECT_FRAME 24   /* f_frame */

/* Frame owners */
#define SPP_L_OWNED_BY_THREAD 0
#define SPP_L_OWNED_BY_GENERATOR 1
#define SPP_L_OWNED_BY_OBJECT 2
#define SPP_L_OWNER_ENTRY_MIN 127 /* an empty range: no entry frames */
#define SPP_L_OWNER_ENTRY_MAX 126

/* Generator */
#define SPP_L_GEN_IFRAME 80
#define SPP_L_GEN_STATE 75
#define SPP_L_GEN_EXECUTING 0

/* Code object */
#define SPP_L_CODE_SIZE 184
#define SPP_L_CODE_NAME 120
#define SPP_L_CODE_QUALNAME 128
#define SPP_L_CODE_FILENAME 112
#define SPP_L_CODE_FIRSTLINENO 72
#define SPP_L_CODE_LINETABLE 136
#define SPP_L_CODE_BYTECODE 184 /* co_code_adaptive */
#define SPP_L_CODE_CODEOBJ (-1)
#define SPP_L_CODE_TLBC (-1)
#define SPP_L_TLBC_SIZE (-1)
#define SPP_L_TLBC_ENTRIES (-1)
#define SPP_L_LINES 3 /* location table */

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
#define SPP_L_KEYS_SHAPE 1 /* dk_log2_size and what follows it describe the table */
#define SPP_L_KEYS_USED 24 /* dk_nentries; the indices follow */

/* asyncio: TaskObj, the FutureObj that it begins with, and how a thread state's dict has its loop */
#define SPP_L_TASK_SIZE 176
#define SPP_L_TASK_NAME 144
#define SPP_L_FUTURE_STATE 88
#define SPP_L_FUTURE_AWAITED_BY (-1)
#define SPP_L_LOOP_HOLDER 16 /* rl_loop */

#endif
