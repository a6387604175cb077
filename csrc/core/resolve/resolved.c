#include "core/resolve/resolved.h"

spp_resolved spp_resolved_now;

void spp_resolved_clear(spp_resolved *r) {
    spp_columns_clear(&r->columns);
    r->string_bytes.n = r->samples.n = r->collections.n = 0;
    r->sample_count = 0;
}

void spp_resolved_free(spp_resolved *r) {
    spp_columns_free(&r->columns);
    spp_vec64_free(&r->samples);
    spp_vec64_free(&r->collections);
    spp_bytes_free(&r->string_bytes);
    r->sample_count = 0;
}
