/* Letters against every number there is, and text that was cut at every byte. */
#include <stdint.h>
#include <string.h>

#include "base/utf8.h"
#include "check.h"

/* A letter as the standard writes it (RFC 3629); how many bytes. */
static size_t write_letter(uint32_t c, char to[5]) {
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t heads[5] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n; i-- > 1; c >>= 6) to[i] = (char)(0x80u | (c & 0x3Fu));
    to[0] = (char)(heads[n] | c);
    to[n] = 0;
    return n;
}

static void every_letter(void) {
    char text[5];
    for (uint32_t c = 1; c < 0x110000; c++) {
        size_t n = write_letter(c, text);
        CHECK_EQUAL(spp_utf8_letter(text), c >= 0xD800 && c < 0xE000 ? 0 : n);
        for (size_t cut = 1; cut < n; cut++) {
            char part[5] = "";
            memcpy(part, text, cut);
            CHECK_EQUAL(spp_utf8_letter(part), 0);
        }
    }
    CHECK_EQUAL(spp_utf8_letter(""), 0);
}

/* Each text of one to four bytes of these is a letter or not, as the list of all letters says. */
static void no_other(void) {
    static const char *const not [] = {"\x80",
                                       "\xbf",
                                       "\xc0\x80",
                                       "\xc1\xbf",
                                       "\xe0\x9f\xbf",
                                       "\xf0\x8f\xbf\xbf",
                                       "\xf4\x90\x80\x80",
                                       "\xf5\x80\x80\x80",
                                       "\xff",
                                       "\xdf",
                                       "\xdf"
                                       "e",
                                       "\xe2\x82",
                                       "\xe2\x82"
                                       "A"};
    for (size_t i = 0; i < sizeof not / sizeof not [0]; i++) CHECK_EQUAL(spp_utf8_letter(not [i]), 0);
}

static void trimmed(const char *text, const char *wanted) {
    char copy[16];
    strcpy(copy, text);
    spp_utf8_trim(copy);
    CHECK(strcmp(copy, wanted) == 0);
}

int main(void) {
    every_letter();
    no_other();
    trimmed("", "");
    trimmed("ab", "ab");
    trimmed("\xc3\xb6", "\xc3\xb6");
    trimmed("a\xc3", "a");
    trimmed("\xc3", "");
    trimmed("a\xe2\x82\xac", "a\xe2\x82\xac");
    trimmed("a\xe2\x82", "a");
    trimmed("a\xe2", "a");
    trimmed("\xf0\x9f\x90\x8d", "\xf0\x9f\x90\x8d");
    trimmed("x\xf0\x9f\x90", "x");
    trimmed("\x80\x80\x80\x80", "\x80\x80\x80\x80"); /* no letter was begun: not ours to judge */
    return check_done();
}
