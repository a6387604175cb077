/* Reads of the program's memory in place. Handler. The memory is mapped, and what is read is checked before use; but it may have
 * been freed, so AddressSanitizer is kept out. */
#ifndef SPPROF_BASE_PEEK_H
#define SPPROF_BASE_PEEK_H

#include <stdint.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SPP_SANITIZED
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define SPP_SANITIZED
#endif

#ifdef SPP_SANITIZED
#define SPP_PEEK __attribute__((no_sanitize("address"), noinline, unused)) static
#else
#define SPP_PEEK __attribute__((always_inline)) static inline
#endif

SPP_PEEK uint64_t spp_peek64(uintptr_t addr) { return *(const volatile uint64_t *)addr; }
SPP_PEEK int32_t spp_peek32(uintptr_t addr) { return *(const volatile int32_t *)addr; }
SPP_PEEK uint8_t spp_peek8(uintptr_t addr) { return *(const volatile uint8_t *)addr; }

#endif
