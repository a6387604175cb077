#include "core/run/task_roll.h"

#include <string.h>

#include "base/heap.h"
#include "core/capture/coroutines.h"
#include "os/memory.h"

#define PART 4096u         /* nodes that a turn passes: 0.2 ms */
#define KNOWN_IN_A_ROW 32u /* so many at a list's end that are in the roll: so are those before */
#define LOST_MOST 8u       /* walks whose place had gone: then what they noted together is the roll */
#define LISTS_MOST 64u

/* ---- sets of tasks: open addressing, at most half full */

#define SLOTS_LEAST 1024u
#define SLOTS_MOST (1u << 23)

typedef struct {
    uintptr_t *slots;
    uint64_t mask, used;
} set;

static set roll, noted; /* noted: of the walk that is under way */

static uint64_t place_of(const set *s, uintptr_t task) {
    uint64_t i = (task >> 4) * 0x9E3779B97F4A7C15u >> 32;
    while (s->slots[i & s->mask] != 0 && s->slots[i & s->mask] != task) i++;
    return i & s->mask;
}

static bool make_space(set *s) {
    if (s->slots != NULL && s->used < s->mask / 2) return true;
    const set old = *s;
    uint64_t n = old.slots != NULL ? 2 * (old.mask + 1) : SLOTS_LEAST;
    uintptr_t *slots = n <= SLOTS_MOST ? spp_alloc_zeroed(n, sizeof *slots) : NULL;
    if (slots == NULL) return false;
    s->slots = slots;
    s->mask = n - 1;
    for (uint64_t i = 0; old.slots != NULL && i <= old.mask; i++) {
        if (old.slots[i] != 0) s->slots[place_of(s, old.slots[i])] = old.slots[i];
    }
    spp_free(old.slots);
    return true;
}

/* Whether it is new. */
static bool add(set *s, uintptr_t task) {
    if (!make_space(s)) return false;
    uintptr_t *slot = &s->slots[place_of(s, task)];
    if (*slot == task) return false;
    *slot = task;
    s->used++;
    return true;
}

static void empty(set *s) {
    spp_free(s->slots);
    *s = (set){0};
}

/* ---- nodes of lists: the next, and the one before */

#define PAGE 4096u
#define COPIES 8u

/* Of the pages that were read last: tasks that were made one after the other are often in one page, and each read is a system
 * call. Within a turn alone. */
static struct {
    uintptr_t page;
    uint64_t words[PAGE / 8];
} copies[COPIES];

static bool read_node(uint64_t node[2], uintptr_t at) {
    const uintptr_t page = at & ~(uintptr_t)(PAGE - 1), within = at & (PAGE - 1);
    if (at & 7) return false;
    if (within > PAGE - 16) return spp_os_read(node, at, 16) == 0;
    const size_t i = page / PAGE % COPIES;
    if (copies[i].page != page) {
        copies[i].page = 0;
        if (spp_os_read(copies[i].words, page, PAGE) != 0) return false;
        copies[i].page = page;
    }
    memcpy(node, &copies[i].words[within / 8], 16);
    return true;
}

static void forget_copies(void) {
    for (size_t i = 0; i < COPIES; i++) copies[i].page = 0;
}

static uintptr_t task_at(uintptr_t node) { return node - spp_coroutine_rule.task_node; }

/* ---- walks */

static uintptr_t lists[LISTS_MOST]; /* of the walk */
static uint32_t lists_n, list;      /* the latter: where it is */
static uintptr_t at, before;        /* the last node that it passed, and the one before that; 0: it is at the head */
static uint32_t lost;
static bool is_whole; /* there has been a whole walk */

static void begin_walk(const uintptr_t *heads, uint32_t n) {
    memcpy(lists, heads, n * sizeof *lists);
    lists_n = n;
    list = 0;
    at = 0;
}

static void have_roll(void) {
    empty(&roll);
    roll = noted;
    noted = (set){0};
    lost = 0;
    is_whole = true;
}

/* A node that leaves its list points to nothing, and memory that is used again for another node has another before it. */
typedef enum { PASSED, LIST_ENDS, LOST } step;

static step pass_node(void) {
    uint64_t node[2];
    const uintptr_t head = lists[list], here = at != 0 ? at : head;
    if (!read_node(node, here) || node[0] == 0 || (at != 0 && node[1] != before)) return LOST;
    if (node[0] == head) return LIST_ENDS;
    before = here;
    at = node[0];
    add(&noted, task_at(at));
    return PASSED;
}

/* Whether it ended. */
static bool walk_part(void) {
    for (uint32_t i = 0; i < PART && list < lists_n; i++) {
        step took = pass_node();
        if (took == PASSED) continue;
        if (took == LOST && lost < LOST_MOST) {
            lost++;
            forget_copies();
            begin_walk(lists, lists_n);
            continue;
        }
        list++;
        at = 0;
    }
    return list == lists_n;
}

/* Those at a list's end that are not in the roll yet. */
static void note_joined(uintptr_t head) {
    uint64_t node[2];
    uintptr_t from = head;
    for (uint32_t i = 0, known = 0; i < PART && known < KNOWN_IN_A_ROW; i++) {
        if (!read_node(node, from) || node[1] == 0 || node[1] == head) return;
        from = node[1];
        known = add(&roll, task_at(from)) ? 0 : known + 1;
    }
}

void spp_task_roll_forget(void) {
    empty(&roll);
    empty(&noted);
    lists_n = list = lost = 0;
    is_whole = false;
}

bool spp_task_roll_turn(const uintptr_t *heads, uint32_t n) {
    if (n > LISTS_MOST) n = LISTS_MOST;
    forget_copies();
    if (list == lists_n || n != lists_n || memcmp(heads, lists, n * sizeof *lists) != 0) {
        empty(&noted);
        lost = 0;
        begin_walk(heads, n);
    }
    if (walk_part()) have_roll();
    for (uint32_t i = 0; is_whole && i < n; i++) note_joined(heads[i]); /* also in lists whose ends the walk passed long ago */
    return is_whole;
}

const uintptr_t *spp_task_roll(uint64_t *mask, uint64_t *used) {
    *mask = roll.mask;
    *used = roll.used;
    return roll.slots;
}
