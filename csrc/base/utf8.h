/* Text that others gave us, and that may be cut inside a letter or be no UTF-8 at all. May run anywhere, in a handler too. */
#ifndef SPPROF_BASE_UTF8_H
#define SPPROF_BASE_UTF8_H

#include <stddef.h>

/* Bytes of the letter that NUL-terminated text begins with; 0: it begins with none, or with a part of one. */
size_t spp_utf8_letter(const char *text);
/* Takes away the part of a letter that NUL-terminated text ends with, if it was cut there. */
void spp_utf8_trim(char *text);

#endif
