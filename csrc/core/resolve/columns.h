/* The columns of the blocks S and V (docs/file-format.md): one row each, in the order of the file. All that resolves, stores,
 * writes and reads them is made from these rows, and so is what the module gives to Python; src/spprof/model/layout.py is the
 * same table for Python alone, and a test compares the two.
 *
 * A new column is a row at the end of its block's, a row there, and a push where its values arise (intern.c, store.c). Files
 * without it read as zeros. */
#ifndef SPPROF_CORE_RESOLVE_COLUMNS_H
#define SPPROF_CORE_RESOLVE_COLUMNS_H

#include <stdint.h>

#include "base/vec.h"

/* X(NAME, table, key, type, of, more)
 * table: what has one value each. A table's columns are equally long
 * key, type: in the dictionary of _core.read, and as in Python's array. "": it has none
 * of, more: a value is below the length of the table `of`, plus `more`; NUMBER: below `more`, and 0 is no limit here */
#define SPP_COLUMN_ROWS(X)                                                                                                  \
    X(STRING_LEN, STRING, "", 'I', NUMBER, 0)                                                                               \
    X(STRING_BYTES, BYTE, "", 'B', NUMBER, 256) /* kept apart: the text of all */                                           \
    X(CODE_NAME, CODE, "code_name", 'I', STRING, 0)                                                                         \
    X(CODE_QUALNAME, CODE, "code_qualname", 'I', STRING, 0)                                                                 \
    X(CODE_FILE, CODE, "code_file", 'I', STRING, 0)                                                                         \
    X(CODE_LINE, CODE, "code_line", 'I', NUMBER, INT32_MAX)                                                                 \
    X(FRAME_CODE, FRAME, "frame_code", 'I', CODE, 0)                                                                        \
    X(FRAME_LINE, FRAME, "frame_line", 'i', NUMBER, 1ull << 32)                                                             \
    X(FRAME_END_LINE, FRAME, "frame_end_line", 'i', NUMBER, 1ull << 31)                                                     \
    X(FRAME_COL, FRAME, "frame_col", 'i', NUMBER, 1ull << 31)                                                               \
    X(FRAME_END_COL, FRAME, "frame_end_col", 'i', NUMBER, 1ull << 31)                                                       \
    X(NODE_PARENT, NODE, "node_parent", 'I', NUMBER, 0)                                                                     \
    X(NODE_FRAME, NODE, "node_frame", 'I', NUMBER, 0)                                                                       \
    X(THREAD, SAMPLE, "thread", 'I', NUMBER, 1u << 24)                                                                      \
    X(TIME, SAMPLE, "time_ns", 'q', NUMBER, 0)  /* once read: ns since the start of the run, which the header says */       \
    X(WEIGHT, SAMPLE, "weight", 'q', NUMBER, 0) /* once read: ns */                                                         \
    X(STACK, SAMPLE, "stack", 'I', NODE, 0)                                                                                 \
    X(COUNT, SAMPLE, "count", 'I', NUMBER, UINT32_MAX) /* once read: ticks, at least 1 */                                   \
    X(FLAGS, SAMPLE, "flags", 'B', NUMBER, 256)                                                                             \
    X(CODE_KIND, CODE, "code_kind", 'B', NUMBER, 2) /* from here on: missing, with all that follow, where all would be 0 */ \
    X(LABEL, SAMPLE, "label", 'I', STRING, 1)                                                                               \
    X(REASON, SAMPLE, "reason", 'B', NUMBER, 256)                                                                           \
    X(WAITS_ON, SAMPLE, "waits_on", 'I', STRING, 1)                                                                         \
    X(TASK, SAMPLE, "task", 'I', STRING, 1)                                                                                 \
    X(HELD_BY, SAMPLE, "held_by", 'I', NUMBER, (1u << 24) + 1)                                                              \
    X(SPAN, SAMPLE, "span", 'I', STRING, 1)                                                                                 \
    X(AWAITED_BY, SAMPLE, "awaited_by", 'I', STRING, 1)                                                                     \
    /* Block V */                                                                                                           \
    X(VALUE_TYPE, VALUE, "value_type", 'B', NUMBER, 256)                                                                    \
    X(VALUE_THREAD, VALUE, "value_thread", 'I', NUMBER, 1u << 24)                                                           \
    X(VALUE_TIME, VALUE, "value_time_ns", 'q', NUMBER, 0) /* as TIME */                                                     \
    X(VALUE_WEIGHT, VALUE, "value_weight", 'q', NUMBER, 1ull << 62)                                                         \
    X(VALUE_STACK, VALUE, "value_stack", 'I', NODE, 0)                                                                      \
    X(VALUE_COUNT, VALUE, "value_count", 'I', NUMBER, UINT32_MAX) /* as COUNT */                                            \
    X(VALUE_FLAGS, VALUE, "value_flags", 'B', NUMBER, 256)                                                                  \
    X(VALUE_LABEL, VALUE, "value_label", 'I', STRING, 1)                                                                    \
    X(VALUE_REASON, VALUE, "value_reason", 'B', NUMBER, 256) /* from here on: missing, with all that follow, likewise */    \
    X(VALUE_WAITS_ON, VALUE, "value_waits_on", 'I', STRING, 1)                                                              \
    X(VALUE_TASK, VALUE, "value_task", 'I', STRING, 1)                                                                      \
    X(VALUE_AWAITED_BY, VALUE, "value_awaited_by", 'I', STRING, 1)

enum {
#define SPP_COLUMN_NUMBER(name, table, key, type, of, more) SPP_COL_##name,
    SPP_COLUMN_ROWS(SPP_COLUMN_NUMBER)
#undef SPP_COLUMN_NUMBER
        SPP_COLS,
    SPP_COLS_ALWAYS = SPP_COL_CODE_KIND,          /* the first of those that may be missing */
    SPP_COLS_SAMPLES = SPP_COL_VALUE_TYPE,        /* the first of block V */
    SPP_COLS_VALUES_ALWAYS = SPP_COL_VALUE_REASON /* and of those there that may be missing */
};

typedef enum {
    SPP_TABLE_STRING,
    SPP_TABLE_BYTE,
    SPP_TABLE_CODE,
    SPP_TABLE_FRAME,
    SPP_TABLE_NODE,
    SPP_TABLE_SAMPLE,
    SPP_TABLE_VALUE,
    SPP_TABLES,
    SPP_TABLE_NUMBER = SPP_TABLES
} spp_column_table;

typedef struct {
    spp_column_table table, of;
    const char *key;
    char type;
    uint64_t more;
} spp_column_row;
extern const spp_column_row spp_column_rows[SPP_COLS];
/* The column that says how long a table is. */
extern const int spp_column_first[SPP_TABLES];

typedef struct {
    spp_vec64 of[SPP_COLS];
} spp_columns;

/* Signed numbers as the file keeps them: docs/file-format.md. Pure. */
uint64_t spp_zigzag(int64_t x);

void spp_columns_clear(spp_columns *columns);
void spp_columns_free(spp_columns *columns);

#endif
