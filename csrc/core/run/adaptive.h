/* Instructions that CPython's adaptive interpreter did not specialize, or that it specialized for what does not come any more.
 * The module reads them at the end of a run (module/adaptive.c); what it found is written as block Q of the file. */
#ifndef SPPROF_CORE_RUN_ADAPTIVE_H
#define SPPROF_CORE_RUN_ADAPTIVE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uint32_t offset; /* in bytes */
    const char *name;
    bool missed;   /* it is specialized; `runs` are those that it was not specialized for */
    uint32_t runs; /* at least so many in the general form, since it was last specialized */
} spp_adaptive_instruction;

/* The starting thread, before a run begins. */
void spp_adaptive_start(void);
/* Code objects that were sampled and live, at most so many: hold(code), called under the drain lock, refers to one. False: that
 * is none of ours. Attached. */
uint32_t spp_adaptive_codes(uintptr_t *codes, uint32_t most, bool (*hold)(uintptr_t code));
/* One of them was read, and will not die before this returns. Attached. */
void spp_adaptive_add(uintptr_t code, const spp_adaptive_instruction *instructions, uint32_t n);
/* All that there were are added. Any thread. */
void spp_adaptive_done(void);
/* Writes them, if all are there. The drain thread, without the drain lock. */
void spp_adaptive_write(void);
void spp_adaptive_stop(void);
void spp_adaptive_child(void); /* in a forked child */

#endif
