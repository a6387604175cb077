#include "base/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* How long a letter is that begins with this byte; 0: none does. */
static size_t length_of(uint8_t first) {
    if (first == 0) return 0;
    if (first < 0x80) return 1;
    if (first >= 0xC2 && first < 0xE0) return 2;
    if (first >= 0xE0 && first < 0xF0) return 3;
    return first >= 0xF0 && first < 0xF5 ? 4 : 0;
}

static bool continues(char byte) { return ((uint8_t)byte & 0xC0u) == 0x80; }

size_t spp_utf8_letter(const char *text) {
    uint8_t first = (uint8_t)text[0], second = first ? (uint8_t)text[1] : 0;
    size_t n = length_of(first);
    for (size_t i = 1; i < n; i++) {
        if (!continues(text[i])) return 0;
    }
    /* Written longer than need be, half of a pair of UTF-16, or beyond the last letter: the second byte shows it. */
    bool bad = (first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) || (first == 0xF0 && second < 0x90) ||
               (first == 0xF4 && second >= 0x90);
    return bad ? 0 : n;
}

void spp_utf8_trim(char *text) {
    size_t end = strlen(text), at = end, most = end < 3 ? 0 : end - 3;
    while (at > most && continues(text[at - 1])) at--;
    if (at == 0) return;
    size_t n = length_of((uint8_t)text[at - 1]);
    if (n > 1 && at - 1 + n > end) text[at - 1] = 0;
}
