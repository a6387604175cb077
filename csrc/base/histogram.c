#include "base/histogram.h"

#include "base/heap.h"
#include "base/hints.h"

static SPP_COLD int add_row(uint64_t **row) {
    *row = spp_alloc_zeroed(SPP_HISTOGRAM_ROW, sizeof **row);
    return *row != NULL ? 0 : -1;
}

int spp_histogram_add(spp_histogram *histogram, uint64_t value) {
    uint32_t bucket = spp_histogram_bucket(value);
    uint64_t **row = &histogram->rows[bucket / SPP_HISTOGRAM_ROW];
    if (spp_rare(*row == NULL) && add_row(row) != 0) return -1;
    (*row)[bucket % SPP_HISTOGRAM_ROW]++;
    histogram->sum += value;
    if (value > histogram->most) histogram->most = value;
    return 0;
}

void spp_histogram_each(const spp_histogram *histogram, void (*see)(void *arg, uint32_t bucket, uint64_t count), void *arg) {
    for (uint32_t i = 0; i < SPP_HISTOGRAM_ROWS * SPP_HISTOGRAM_ROW; i++) {
        const uint64_t *row = histogram->rows[i / SPP_HISTOGRAM_ROW];
        if (row != NULL && row[i % SPP_HISTOGRAM_ROW] != 0) see(arg, i, row[i % SPP_HISTOGRAM_ROW]);
    }
}

void spp_histogram_free(spp_histogram *histogram) {
    for (uint32_t i = 0; i < SPP_HISTOGRAM_ROWS; i++) spp_free(histogram->rows[i]);
    *histogram = (spp_histogram){0};
}
