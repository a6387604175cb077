#include "proof_read.h"

#include <string.h>

#include "os/memory.h"

const char spp_proof_cannot[] = "out of memory or at the recursion limit";
static _Thread_local spp_os_reader s_reader;

int spp_proof_read_open(void) { return spp_os_reader_open(&s_reader); }

void spp_proof_read_close(void) { spp_os_reader_close(&s_reader); }

bool spp_proof_read(uintptr_t base, long offset, void *to, size_t len) {
    return offset >= 0 && spp_os_reader_read(&s_reader, to, base + (uintptr_t)offset, len) == 0;
}

uintptr_t spp_proof_word(uintptr_t base, long offset) {
    uintptr_t v = 0;
    return spp_proof_read(base, offset, &v, sizeof v) ? v : 0;
}

unsigned long spp_proof_id(uintptr_t base, long offset) {
    unsigned long v = 0;
    return spp_proof_read(base, offset, &v, sizeof v) ? v : 0;
}

uint32_t spp_proof_u32(uintptr_t base, long offset) {
    uint32_t v = 0;
    return spp_proof_read(base, offset, &v, sizeof v) ? v : 0;
}

int spp_proof_i8(uintptr_t base, long offset) {
    int8_t v = 127;
    return spp_proof_read(base, offset, &v, sizeof v) ? v : 127;
}

bool spp_proof_same(uintptr_t base, long offset, const void *want, size_t len) {
    unsigned char got[64];
    return len <= sizeof got && spp_proof_read(base, offset, got, len) && memcmp(got, want, len) == 0;
}
