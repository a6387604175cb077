/* Strings, codes and frames of the file, each with an id of its own: what was defined before is recognised by its content, and
 * what is new goes into spp_resolved_now. Drain lock held, all of it. */
#ifndef SPPROF_CORE_RESOLVE_INTERN_H
#define SPPROF_CORE_RESOLVE_INTERN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/sample.h"
#include "base/vec.h"
#include "core/resolve/resolve_code.h"
#include "core/resolve/resolve_lines.h"

/* Distinct names or frames kept for recognition. Beyond it everything known is forgotten and gets new ids when it comes again, so
 * that a program that makes names for ever does not fill memory. */
#define SPP_INTERN_MOST 400000u

/* In place of a frame's id. */
#define SPP_INTERN_HIDDEN UINT32_MAX     /* it is not to be shown */
#define SPP_INTERN_BUSY (UINT32_MAX - 1) /* its line table is long, a piece of it was read, and there is more to read */

uint32_t spp_intern_string(const spp_bytes *text);
uint32_t spp_intern_code(const spp_code *code, spp_code_kind kind);
/* `first_line`: the code's. */
uint32_t spp_intern_frame(uint32_t code, int32_t first_line, spp_place place);

bool spp_intern_is_full(void);
/* Ids go on. */
void spp_intern_forget(void);
/* At a run's start: ids begin at 0. */
void spp_intern_restart(void);
/* In a forked child: forgets without touching. */
void spp_intern_abandon(void);

#endif
