#include "core/resolve/resolved.h"

spp_resolved spp_resolved_now;

#define HEAD (sizeof(spp_resolved_sample) / sizeof(uint64_t)) /* words */

spp_resolved_sample *spp_resolved_reserve(spp_resolved *r, uint32_t depth) {
    return spp_vec64_reserve(&r->samples, depth + HEAD) == 0 ? spp_resolved_end(r) : NULL;
}

void spp_resolved_keep(spp_resolved *r, const spp_resolved_sample *sample) {
    r->samples.n += HEAD + sample->depth;
    r->sample_count++;
}

void spp_resolved_clear(spp_resolved *r) {
    spp_columns_clear(&r->columns);
    r->string_bytes.n = r->samples.n = r->collections.n = r->requests.n = 0;
    r->sample_count = 0;
}

void spp_resolved_free(spp_resolved *r) {
    spp_columns_free(&r->columns);
    spp_vec64_free(&r->samples);
    spp_vec64_free(&r->collections);
    spp_vec64_free(&r->requests);
    spp_bytes_free(&r->string_bytes);
    r->sample_count = 0;
}
