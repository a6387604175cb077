#include "core/resolve/live.h"

#include <string.h>

#include "base/heap.h"
#include "base/map.h"
#include "core/resolve/intern.h"
#include "core/resolve/resolve_code.h"
#include "core/resolve/resolve_table.h"
#include "os/clock.h"

/* A code object that lives: its file id, its line table, and the frames seen of it. */
typedef struct {
    uintptr_t address; /* 0: it is dead */
    uint64_t self_ns;  /* see spp_live_add_self */
    uint32_t code_id;
    int32_t first_line;
    bool hidden; /* not the program's: see is_hidden */
    bool lines_known;
    spp_table lines;
    uint32_t frames_n, frames_mask; /* open addressing by offset; mask + 1 slots */
    uint64_t *frames;               /* (offset + 1) << 32 | frame id; 0: empty */
} live_code;

static live_code *live;
static uint32_t live_n, live_capacity;
static spp_map live_of_address;
static uint32_t *live_free;
static uint32_t live_free_n;

static spp_code scratch;
static uint32_t unreadable_code = SPP_MAP_NONE;

/* Code objects that died while their line tables were being read: their queued frames name the copy of the table instead, by its
 * address. They go when all that was sampled before their deaths is resolved. */
typedef struct {
    uint32_t index; /* in `live` */
    uint64_t died_ns;
} orphan;
static orphan *orphans;
static uint32_t orphans_n, orphans_capacity;

static void forget_live(uint32_t index) {
    spp_table_close(&live[index].lines);
    spp_free(live[index].frames);
    memset(&live[index], 0, sizeof live[index]);
    live_free[live_free_n++] = index;
}

static uint32_t new_live(void) {
    if (live_free_n > 0) return live_free[--live_free_n];
    if (live_n == live_capacity) {
        uint32_t capacity = live_capacity ? live_capacity * 2 : 256;
        live_code *more = spp_realloc(live, capacity * sizeof *live);
        if (more == NULL) return SPP_MAP_NONE;
        live = more;
        uint32_t *more_free = spp_realloc(live_free, capacity * sizeof *live_free);
        if (more_free == NULL) return SPP_MAP_NONE;
        live_free = more_free;
        live_capacity = capacity;
    }
    return live_n++;
}

/* CPython's _Py_InitCleanup: a frame of the interpreter's own between a caller and the `__init__` of a class (3.13+), which
 * tracebacks hide too. It is not exported everywhere; no code of a program is named and filed like it. */
static bool is_hidden(const spp_code *code) {
    static const char init[] = "__init__";
    return code->name.n == sizeof init - 1 && code->file.n == sizeof init - 1 &&
           memcmp(code->name.at, init, sizeof init - 1) == 0 && memcmp(code->file.at, init, sizeof init - 1) == 0;
}

static uint32_t adopt(uintptr_t address) {
    if (spp_code_read(address, &scratch) != 0) return SPP_MAP_NONE;
    uint32_t index = new_live();
    if (index == SPP_MAP_NONE) return SPP_MAP_NONE;
    live_code *code = &live[index];
    memset(code, 0, sizeof *code);
    code->hidden = is_hidden(&scratch);
    code->code_id = code->hidden ? 0 : spp_intern_code(&scratch, SPP_KIND_PYTHON);
    code->first_line = scratch.first_line;
    code->lines_known = /* else its frames have no line */
        scratch.lines_known && spp_table_open(&code->lines, scratch.lines, scratch.lines_n, scratch.first_line) == 0;
    if (spp_map_add(&live_of_address, address, 0, index) != 0) {
        forget_live(index);
        return SPP_MAP_NONE;
    }
    code->address = address;
    return index;
}

static void remember_frame(live_code *code, uint32_t offset, uint32_t id) {
    if (code->frames == NULL || (code->frames_n + 1) * 2 > code->frames_mask + 1) {
        uint32_t slots = code->frames ? (code->frames_mask + 1) * 2 : 8;
        uint64_t *bigger = spp_alloc_zeroed(slots, sizeof *bigger);
        if (bigger == NULL) return; /* resolved again next time */
        for (uint32_t i = 0; code->frames && i <= code->frames_mask; i++) {
            if (code->frames[i] == 0) continue;
            uint32_t at = (uint32_t)(code->frames[i] >> 32) * 2654435769u & (slots - 1);
            while (bigger[at]) at = (at + 1) & (slots - 1);
            bigger[at] = code->frames[i];
        }
        spp_free(code->frames);
        code->frames = bigger;
        code->frames_mask = slots - 1;
    }
    uint32_t at = (offset + 1) * 2654435769u & code->frames_mask;
    while (code->frames[at]) at = (at + 1) & code->frames_mask;
    code->frames[at] = (uint64_t)(offset + 1) << 32 | id;
    code->frames_n++;
}

/* The id of a frame whose code could not be read: one entry for all of them. */
static uint32_t unreadable_frame(void) {
    if (unreadable_code == SPP_MAP_NONE) {
        static const char text[] = "<unreadable>";
        scratch.name.n = scratch.qualname.n = scratch.file.n = 0;
        spp_bytes_append(&scratch.name, text, sizeof text - 1);
        spp_bytes_append(&scratch.qualname, text, sizeof text - 1);
        scratch.first_line = 0;
        unreadable_code = spp_intern_code(&scratch, SPP_KIND_PYTHON);
    }
    return spp_intern_frame(unreadable_code, 0, (spp_place){0, 0, -1, -1});
}

uint32_t spp_live_frame(spp_frame frame) {
    uintptr_t address = spp_frame_code(frame);
    uint32_t offset = spp_frame_offset(frame);
    uint32_t index = spp_map_get(&live_of_address, address, 0);
    if (index == SPP_MAP_NONE) index = adopt(address);
    if (index == SPP_MAP_NONE) return unreadable_frame();
    live_code *code = &live[index];
    if (code->hidden) return SPP_INTERN_HIDDEN;
    if (code->frames != NULL) {
        uint32_t at = (offset + 1) * 2654435769u & code->frames_mask;
        for (; code->frames[at]; at = (at + 1) & code->frames_mask) {
            if ((uint32_t)(code->frames[at] >> 32) == offset + 1) return (uint32_t)code->frames[at];
        }
    }
    spp_place place = {0, 0, -1, -1};
    if (offset == SPP_OFFSET_NONE) {
        if (code->lines_known) place.line = place.end_line = code->first_line;
    } else if (code->lines_known) {
        if (!spp_table_step(&code->lines, offset)) return SPP_INTERN_BUSY;
        place = spp_table_place(&code->lines, offset);
    }
    uint32_t id = spp_intern_frame(code->code_id, code->first_line, place);
    if (offset != SPP_OFFSET_NONE) remember_frame(code, offset, id);
    return id;
}

void spp_live_add_self(uintptr_t code, uint64_t ns) {
    uint32_t index = spp_map_get(&live_of_address, code, 0);
    if (index != SPP_MAP_NONE && live[index].address == code) live[index].self_ns += ns;
}

uint32_t spp_live_hottest(spp_live_self *to, uint32_t most) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < live_n; i++) {
        const spp_live_self one = {live[i].address, live[i].self_ns};
        if (one.code == 0 || one.self_ns == 0 || live[i].hidden || (n == most && one.self_ns <= to[n - 1].self_ns)) continue;
        uint32_t at = n < most ? n++ : n - 1;
        for (; at > 0 && to[at - 1].self_ns < one.self_ns; at--) to[at] = to[at - 1];
        to[at] = one;
    }
    return n;
}

uint32_t spp_live_codes(uintptr_t *to, uint32_t most, bool (*hold)(uintptr_t code), uint32_t *all) {
    uint32_t n = 0;
    *all = 0;
    for (uint32_t i = 0; i < live_n; i++) {
        if (live[i].address == 0 || live[i].hidden) continue;
        ++*all;
        if (n < most && hold(live[i].address)) to[n++] = live[i].address;
    }
    return n;
}

void spp_live_sure(uint64_t sure_ns) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < orphans_n; i++) {
        if (orphans[i].died_ns >= sure_ns) {
            orphans[kept++] = orphans[i];
            continue;
        }
        (void)spp_map_remove(&live_of_address, spp_table_address(&live[orphans[i].index].lines), 0);
        forget_live(orphans[i].index);
    }
    orphans_n = kept;
}

/* Whether the code object that dies is an orphan now. */
static bool is_orphan(uint32_t index) { return orphans_n > 0 && orphans[orphans_n - 1].index == index; }

/* The code object is about to die, and its line table is copied as a whole. False: no memory. */
static bool make_orphan(uint32_t index) {
    if (is_orphan(index)) return true;
    if (orphans_n == orphans_capacity) {
        uint32_t capacity = orphans_capacity ? orphans_capacity * 2 : 16;
        orphan *more = spp_realloc(orphans, capacity * sizeof *more);
        if (more == NULL) return false;
        orphans = more;
        orphans_capacity = capacity;
    }
    if (spp_map_add(&live_of_address, spp_table_address(&live[index].lines), 0, index) != 0) return false;
    orphans[orphans_n++] = (orphan){index, spp_os_now_ns()};
    live[index].address = 0;
    return true;
}

spp_frame spp_live_outlive(spp_frame frame) {
    uint32_t index = spp_map_get(&live_of_address, spp_frame_code(frame), 0), id = SPP_INTERN_BUSY;
    if (index == SPP_MAP_NONE || !is_orphan(index)) id = spp_live_frame(frame);
    if (id != SPP_INTERN_BUSY) return spp_frame_known(id);
    index = spp_map_get(&live_of_address, spp_frame_code(frame), 0);
    spp_table *lines = &live[index].lines;
    if (!spp_table_is_copied(lines)) return 0;
    if (make_orphan(index)) return spp_frame_make(spp_table_address(lines), (uint32_t)frame & SPP_NO_OFFSET);
    while (id == SPP_INTERN_BUSY) id = spp_live_frame(frame);
    return spp_frame_known(id);
}

bool spp_live_copy(uintptr_t code) {
    uint32_t index = spp_map_get(&live_of_address, code, 0);
    if (index == SPP_MAP_NONE || spp_table_is_copied(&live[index].lines)) return false;
    spp_table_copy(&live[index].lines);
    return true;
}

void spp_live_death(uintptr_t code) {
    uint32_t index = spp_map_remove(&live_of_address, code, 0);
    if (index != SPP_MAP_NONE && !is_orphan(index)) forget_live(index);
}

bool spp_live_may_forget(void) { return orphans_n == 0; }

static void reset(void) {
    live = NULL;
    live_free = NULL;
    orphans = NULL;
    live_n = live_capacity = live_free_n = orphans_n = orphans_capacity = 0;
    unreadable_code = SPP_MAP_NONE;
}

void spp_live_forget(void) {
    for (uint32_t i = 0; i < live_n; i++) {
        spp_table_close(&live[i].lines);
        spp_free(live[i].frames);
    }
    spp_free(live);
    spp_free(live_free);
    spp_free(orphans);
    reset();
    spp_map_free(&live_of_address);
}

void spp_live_abandon(void) {
    reset();
    memset(&live_of_address, 0, sizeof live_of_address);
    memset(&scratch, 0, sizeof scratch);
}
