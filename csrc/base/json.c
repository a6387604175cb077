#include "base/json.h"

#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

void spp_json_raw(spp_bytes *to, const char *text) { (void)spp_bytes_append(to, text, strlen(text)); }

void spp_json_next(spp_bytes *to) {
    uint8_t last = to->n > 0 ? to->at[to->n - 1] : '{';
    if (last != '{' && last != '[') spp_json_raw(to, ",");
}

void spp_json_key(spp_bytes *to, const char *key) {
    spp_json_next(to);
    spp_json_string(to, key);
    spp_json_raw(to, ":");
}

void spp_json_number(spp_bytes *to, uint64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    spp_json_raw(to, text);
}

void spp_json_letter(spp_bytes *to, uint32_t code) {
    char text[16];
    if (code == '"' || code == '\\')
        snprintf(text, sizeof text, "\\%c", (char)code);
    else if (code >= ' ' && code <= '~')
        snprintf(text, sizeof text, "%c", (char)code);
    else if (code < 0x10000)
        snprintf(text, sizeof text, "\\u%04x", (unsigned)code);
    else
        snprintf(text, sizeof text, "\\u%04x\\u%04x", (unsigned)(0xD800 + ((code - 0x10000) >> 10)),
                 (unsigned)(0xDC00 + ((code - 0x10000) & 0x3FF)));
    spp_json_raw(to, text);
}

void spp_json_string(spp_bytes *to, const char *text) {
    spp_json_raw(to, "\"");
    while (*text != 0) {
        size_t n = spp_utf8_letter(text);
        if (n > 1)
            (void)spp_bytes_append(to, text, n);
        else
            spp_json_letter(to, n == 0 ? 0xFFFD : (uint8_t)*text);
        text += n != 0 ? n : 1;
    }
    spp_json_raw(to, "\"");
}
