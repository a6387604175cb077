#include "core/resolve/columns.h"

const spp_column_row spp_column_rows[SPP_COLS] = {
#define ROW(name, table, key, type, of, more) {SPP_TABLE_##table, SPP_TABLE_##of, key, type, more},
    SPP_COLUMN_ROWS(ROW)
#undef ROW
};

const int spp_column_first[SPP_TABLES] = {
    [SPP_TABLE_STRING] = SPP_COL_STRING_LEN, [SPP_TABLE_BYTE] = SPP_COL_STRING_BYTES, [SPP_TABLE_CODE] = SPP_COL_CODE_NAME,
    [SPP_TABLE_FRAME] = SPP_COL_FRAME_CODE,  [SPP_TABLE_NODE] = SPP_COL_NODE_PARENT,  [SPP_TABLE_SAMPLE] = SPP_COL_THREAD,
    [SPP_TABLE_VALUE] = SPP_COL_VALUE_TYPE,
};

uint64_t spp_zigzag(int64_t x) { return ((uint64_t)x << 1) ^ (uint64_t)(x >> 63); }

void spp_columns_clear(spp_columns *columns) {
    for (int k = 0; k < SPP_COLS; k++) columns->of[k].n = 0;
}

void spp_columns_free(spp_columns *columns) {
    for (int k = 0; k < SPP_COLS; k++) spp_vec64_free(&columns->of[k]);
}
