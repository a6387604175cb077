/* What is written is the JSON that readers of files know, byte for byte. */
#include <string.h>

#include "base/json.h"
#include "check.h"

static void is(spp_bytes *written, const char *wanted) {
    CHECK(written->n == strlen(wanted) && memcmp(written->at, wanted, written->n) == 0);
    spp_bytes_free(written);
}

static void commas_are_between_members(void) {
    spp_bytes to = {0};
    spp_json_raw(&to, "{");
    spp_json_key(&to, "a");
    spp_json_number(&to, UINT64_MAX);
    spp_json_key(&to, "list");
    spp_json_raw(&to, "[");
    for (uint64_t i = 0; i < 2; i++) {
        spp_json_next(&to);
        spp_json_number(&to, i);
    }
    spp_json_raw(&to, "]");
    spp_json_key(&to, "{");
    spp_json_string(&to, "{");
    spp_json_key(&to, "");
    spp_json_string(&to, "");
    spp_json_raw(&to, "}");
    is(&to, "{\"a\":18446744073709551615,\"list\":[0,1],\"{\":\"{\",\"\":\"\"}");
}

static void strings_are_utf8(void) {
    spp_bytes to = {0};
    spp_json_string(&to, "q\" b\\ n\n d\x7f \xc3\xa4 \xf0\x9f\x98\x80");
    is(&to, "\"q\\\" b\\\\ n\\u000a d\\u007f \xc3\xa4 \xf0\x9f\x98\x80\"");
    spp_json_string(&to, "cut \xc3");
    is(&to, "\"cut \\ufffd\"");
    spp_json_string(&to, "\xff\xed\xa0\x80");
    is(&to, "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
}

static void letters_are_ascii(void) {
    spp_bytes to = {0};
    static const uint32_t codes[] = {'a', '"', '\\', 0, 0xE4, 0xD800, 0xFFFF, 0x10000, 0x10FFFF};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) spp_json_letter(&to, codes[i]);
    is(&to, "a\\\"\\\\\\u0000\\u00e4\\ud800\\uffff\\ud800\\udc00\\udbff\\udfff");
}

int main(void) {
    commas_are_between_members();
    strings_are_utf8();
    letters_are_ascii();
    return check_done();
}
