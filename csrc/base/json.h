/* Writes JSON. If there is no memory a part is left out and the rest is still written: check the
 * end of the text. Any thread, not in a handler. */
#ifndef SPPROF_BASE_JSON_H
#define SPPROF_BASE_JSON_H

#include <stdint.h>

#include "base/vec.h"

/* Appends text as it is: brackets, literals. */
void spp_json_raw(spp_bytes *to, const char *text);
/* The comma before the next member of an object or array, if it has one already. */
void spp_json_next(spp_bytes *to);
/* A comma if needed, a key and its colon. */
void spp_json_key(spp_bytes *to, const char *key);
void spp_json_number(spp_bytes *to, uint64_t value);
/* A string. Bytes that are not UTF-8 become U+FFFD. */
void spp_json_string(spp_bytes *to, const char *text);
/* One code point within a string, as ASCII. Lone surrogates are kept. */
void spp_json_letter(spp_bytes *to, uint32_t code);

#endif
