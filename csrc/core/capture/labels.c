#include "core/capture/labels.h"

#include <string.h>

#include "base/heap.h"
#include "core/capture/contexts.h"
#include "os/clock.h"

spp_label_rules spp_labels;

/* ---- finding the current set */

static uint64_t number_of(uintptr_t tstate, spp_reader *r) {
    uintptr_t set = spp_context_value(r, tstate, spp_labels.variable, spp_labels.hash);
    uint64_t type, number;
    if (set == 0 || !spp_read_word(r, &type, set + SPP_L_OB_TYPE) || type != spp_labels.set_type) return 0;
    return spp_read_word(r, &number, set + spp_labels.number) ? number : 0;
}

uint64_t spp_label_own(uintptr_t tstate) {
    spp_reader r = {.own = true};
    return number_of(tstate, &r);
}

uint64_t spp_label_other(uintptr_t tstate) {
    spp_reader r = {.own = false};
    return number_of(tstate, &r);
}

/* ---- the texts of sets. A number is an index into the table and how often that entry was used
 * before. */

typedef struct {
    char *text; /* NULL: free */
    uint32_t n;
    uint32_t uses;
    uint64_t died_ns; /* 0: the program still has it */
    uint32_t next;    /* free or dead place after this one, + 1 */
} place;

static place *places;
static uint32_t places_n, places_capacity, first_free, first_dead;

static place *place_of(uint64_t number) {
    uint32_t at = (uint32_t)number - 1u;
    return number != 0 && at < places_n && places[at].text != NULL && places[at].uses == number >> 32 ? &places[at] : NULL;
}

uint64_t spp_label_add(const char *text, size_t n) {
    if (n > UINT32_MAX) return 0;
    if (first_free == 0 && places_n == places_capacity) {
        uint32_t capacity = places_capacity ? places_capacity * 2 : 64;
        place *more = spp_realloc(places, capacity * sizeof *more);
        if (more == NULL) return 0;
        places = more;
        places_capacity = capacity;
    }
    char *copy = spp_alloc(n ? n : 1);
    if (copy == NULL) return 0;
    memcpy(copy, text, n);
    uint32_t at = first_free ? first_free - 1 : places_n++;
    uint32_t uses = 0;
    if (first_free) {
        uses = places[at].uses + 1;
        first_free = places[at].next;
    }
    places[at] = (place){.text = copy, .n = (uint32_t)n, .uses = uses};
    return (uint64_t)uses << 32 | (at + 1u);
}

static void release(uint32_t at) {
    spp_free(places[at].text);
    places[at].text = NULL;
    places[at].next = first_free;
    first_free = at + 1;
}

void spp_label_drop(uint64_t number, bool sampling) {
    place *p = place_of(number);
    if (p == NULL) return;
    if (!sampling) {
        release((uint32_t)(p - places));
        return;
    }
    p->died_ns = spp_os_now_ns();
    p->next = first_dead;
    first_dead = (uint32_t)(p - places) + 1;
}

const char *spp_label_text(uint64_t number, size_t *n) {
    const place *p = place_of(number);
    if (p == NULL) return NULL;
    *n = p->n;
    return p->text;
}

/* Dead sets are listed latest first: if one may be freed, so may all that follow. */
void spp_label_forget(uint64_t before_ns) {
    uint32_t *link = &first_dead;
    while (*link != 0 && places[*link - 1].died_ns >= before_ns) link = &places[*link - 1].next;
    uint32_t at = *link;
    *link = 0;
    while (at != 0) {
        uint32_t next = places[at - 1].next;
        release(at - 1);
        at = next;
    }
}
