#include "core/resolve/store.h"

#include <stdbool.h>
#include <string.h>

#include "base/heap.h"
#include "os/memory.h"

/* Nodes recognised at a time: 12 bytes each in a table of two to the twenty. When it is full all are forgotten and later
 * stacks get new ids, so memory is bounded however many distinct stacks a program has. */
#define NODES_MAX 700000u

typedef struct {
    uint32_t parent, frame, id; /* id 0: empty */
} node;

static node *table;
static uint32_t mask, known, next_id;
static uint64_t start_us;

/* Frames (id + 1; 0: none) that followed a frame in new nodes, the last one first. */
static uint32_t (*followers)[SPP_FOLLOWERS];

static void put(spp_columns *columns, int column, uint64_t value) { spp_vec64_push(&columns->of[column], value); }

static uint32_t home(uint32_t parent, uint32_t frame) {
    uint64_t x = ((uint64_t)parent << 32 | frame) * 0x9E3779B97F4A7C15u;
    x ^= x >> 32;
    x *= 0xBF58476D1CE4E5B9u;
    return (uint32_t)(x >> 32) & mask;
}

static int grow(void) {
    uint32_t slots = table ? (mask + 1) * 2 : 1024;
    node *bigger = spp_alloc_zeroed(slots, sizeof *bigger), *old = table;
    if (bigger == NULL) return -1;
    uint32_t old_slots = table ? mask + 1 : 0;
    table = bigger;
    mask = slots - 1;
    for (uint32_t i = 0; i < old_slots; i++) {
        if (old[i].id == 0) continue;
        uint32_t at = home(old[i].parent, old[i].frame);
        while (table[at].id) at = (at + 1) & mask;
        table[at] = old[i];
    }
    spp_free(old);
    return 0;
}

void spp_store_abandon(void) {
    table = NULL;
    followers = NULL;
    mask = known = 0;
}

/* Codes a new node's frame relative to the frame below it (id + 1; 0: the root). */
static uint64_t code_frame(uint32_t before, uint32_t frame) {
    uint32_t *list = followers[before % SPP_FOLLOWER_LISTS], at = 0;
    while (at < SPP_FOLLOWERS - 1 && list[at] != frame + 1) at++;
    bool listed = list[at] == frame + 1;
    memmove(list + 1, list, at * sizeof *list);
    list[0] = frame + 1;
    return listed ? at : frame + SPP_FOLLOWERS;
}

static void forget_nodes(void) {
    memset(table, 0, ((size_t)mask + 1) * sizeof *table);
    known = 0;
    uint32_t used = spp_threads_used;
    for (uint32_t i = 0; i < used; i++) spp_threads[i].file.depth = 0;
}

static uint32_t child(uint32_t parent, uint32_t before, uint32_t frame, spp_columns *columns) {
    uint32_t at = home(parent, frame);
    for (; table[at].id; at = (at + 1) & mask) {
        if (table[at].parent == parent && table[at].frame == frame) return table[at].id;
    }
    uint32_t id = next_id++;
    put(columns, SPP_COL_NODE_PARENT, id - parent);
    put(columns, SPP_COL_NODE_FRAME, code_frame(before, frame));
    table[at] = (node){parent, frame, id};
    if (++known * 3ull > (mask + 1ull) * 2) (void)grow();
    return id;
}

/* The node of a stack: from the root, what equals this thread's previous stack is not looked up again. */
static uint32_t intern(spp_thread *t, const uint64_t *frames, uint32_t depth, spp_columns *columns) {
    uint32_t least = depth < t->file.depth ? depth : t->file.depth, i = 0;
    while (i < least && t->file.frames[i] == (uint32_t)frames[i]) i++;
    for (; i < depth; i++) {
        t->file.frames[i] = (uint32_t)frames[i];
        t->file.nodes[i + 1] = child(t->file.nodes[i], i > 0 ? (uint32_t)frames[i - 1] + 1 : 0, (uint32_t)frames[i], columns);
    }
    t->file.depth = depth;
    return t->file.nodes[depth];
}

/* Time and weight: the rules are in docs/file-format.md. */
static void add_time(spp_thread *t, uint64_t time_ns, uint64_t weight, spp_columns *columns) {
    if (t->file.us == 0) t->file.us = start_us;
    uint64_t us = time_ns / 1000;
    if (us < t->file.us) us = t->file.us;
    uint64_t step = us - t->file.us;
    int64_t unforeseen = (int64_t)step - (int64_t)(t->file.pace >> 2);
    put(columns, SPP_COL_TIME, spp_zigzag(unforeseen));
    t->file.us = us;
    t->file.pace += (uint64_t)unforeseen;
    /* What the reader's weights lack so far, this sample's prediction taken off. */
    t->file.carry_ns += (int64_t)weight - (int64_t)step * 1000;
    int64_t correction = 0;
    if (t->file.carry_ns >= 2000 || t->file.carry_ns <= -2000) {
        correction = t->file.carry_ns / 1000;
        if (correction < -(int64_t)step) correction = -(int64_t)step; /* no negative weight */
        t->file.carry_ns -= correction * 1000;
    }
    put(columns, SPP_COL_WEIGHT, spp_zigzag(correction));
}

/* A row of block V. */
static void add_value(spp_thread *t, const spp_resolved_sample *s, uint32_t node_id, spp_columns *columns) {
    if (t->file.value_us == 0) t->file.value_us = start_us;
    uint64_t us = s->time_ns / 1000;
    if (us < t->file.value_us) us = t->file.value_us;
    put(columns, SPP_COL_VALUE_TYPE, spp_source_of_flags(s->flags));
    put(columns, SPP_COL_VALUE_THREAD, t->id);
    put(columns, SPP_COL_VALUE_TIME, us - t->file.value_us);
    put(columns, SPP_COL_VALUE_WEIGHT, s->weight);
    put(columns, SPP_COL_VALUE_STACK, node_id);
    put(columns, SPP_COL_VALUE_COUNT, s->count - 1u);
    put(columns, SPP_COL_VALUE_FLAGS, s->flags & 0xFFu);
    put(columns, SPP_COL_VALUE_LABEL, s->label);
    put(columns, SPP_COL_VALUE_REASON, s->reason);
    put(columns, SPP_COL_VALUE_WAITS_ON, s->waits_on);
    put(columns, SPP_COL_VALUE_TASK, s->task);
    put(columns, SPP_COL_VALUE_AWAITED_BY, s->awaited_by);
    t->file.value_us = us;
}

static void add_sample(spp_thread *t, const spp_resolved_sample *s, uint32_t node_id, spp_columns *columns) {
    put(columns, SPP_COL_THREAD, t->id);
    add_time(t, s->time_ns, s->weight, columns);
    put(columns, SPP_COL_STACK, node_id);
    put(columns, SPP_COL_COUNT, s->count - 1u);
    put(columns, SPP_COL_FLAGS, s->flags & 0xFFu);
    put(columns, SPP_COL_LABEL, s->label);
    put(columns, SPP_COL_REASON, s->reason);
    put(columns, SPP_COL_WAITS_ON, s->waits_on);
    put(columns, SPP_COL_TASK, s->task);
    put(columns, SPP_COL_HELD_BY, s->held_by);
    put(columns, SPP_COL_SPAN, s->span);
    put(columns, SPP_COL_AWAITED_BY, s->awaited_by);
}

void spp_store_add(const spp_resolved *resolved, spp_columns *columns) {
    const spp_resolved_sample *const end = spp_resolved_end(resolved);
    for (const spp_resolved_sample *s = spp_resolved_at(resolved, 0); s < end; s = spp_resolved_next(s)) {
        spp_thread *t = &spp_threads[s->slot];
        if (known >= NODES_MAX) forget_nodes();
        uint32_t node_id = intern(t, s->frames, s->depth, columns);
        if (spp_source_of_flags(s->flags) == SPP_SOURCE_TIME)
            add_sample(t, s, node_id, columns);
        else
            add_value(t, s, node_id, columns);
    }
}

int spp_store_start(uint64_t start_ns) {
    spp_store_stop();
    start_us = start_ns / 1000;
    next_id = 1;
    followers = spp_os_pages(SPP_FOLLOWERS_SIZE); /* touched as it is used */
    return followers == NULL ? -1 : grow();
}

void spp_store_stop(void) {
    spp_free(table);
    if (followers != NULL) spp_os_pages_free(followers, SPP_FOLLOWERS_SIZE);
    spp_store_abandon();
}
