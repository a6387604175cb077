#include "core/resolve/resolve.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/heap.h"
#include "base/map.h"
#include "core/capture/labels.h"
#include "core/native/native.h"
#include "core/resolve/resolve_code.h"
#include "core/resolve/resolve_native.h"
#include "core/resolve/resolve_table.h"
#include "os/clock.h"
#include "os/lock.h"

/* Distinct names or frames kept for recognition. Beyond it everything known is forgotten and gets new ids when it comes
 * again, so that a program that makes names for ever does not fill memory. */
#define KNOWN_MAX 400000u

/* A code object that lives: its file id, its line table, and the frames seen of it. */
typedef struct {
    uint32_t code_id;
    int32_t first_line;
    bool hidden; /* not the program's: see is_hidden */
    bool lines_known;
    spp_table lines;
    uint32_t frames_n, frames_mask; /* open addressing by offset; mask + 1 slots */
    uint64_t *frames;               /* (offset + 1) << 32 | frame id; 0: empty */
} live_code;

static live_code *live;
static uint32_t live_n, live_room;
static spp_map live_of_address;
static uint32_t *live_free;
static uint32_t live_free_n;

static spp_map strings, codes, frames; /* by content */
static uint32_t strings_n, codes_n, frames_n;
static spp_resolved out;
static uint32_t rounds = 1; /* how often it was another one */
static spp_code scratch;
static uint32_t unreadable_code = SPP_MAP_NONE;
static spp_map native_frames; /* by address */
static spp_map native_codes;  /* by the address at which the function begins */
static bool hold;             /* nothing more is to be collected */

/* Code objects that died while their line tables were being read: what is queued of them names the copy of the table instead, by
 * its address. They go when all that was sampled before their deaths is resolved. */
typedef struct {
    uint32_t index; /* in `live` */
    uint64_t died_ns;
} orphan;
static orphan *orphans;
static uint32_t orphans_n, orphans_room;
static bool copy_wanted;    /* of the line table of the code object that is about to die */
static uint64_t sampled_ns; /* when the frames were sampled that are being resolved */

/* ---- interning */

static void put(int column, uint64_t value) { spp_vec64_push(&out.columns.of[column], value); }

/* Strings are recognised by two independent 64-bit hashes: at 400,000 strings the chance of one confusion is 2e-28. */
static uint32_t string_id(const spp_bytes *text) {
    uint64_t a = spp_hash_bytes(text->at, text->n, 0), b = spp_hash_bytes(text->at, text->n, 0x9E3779B97F4A7C15u);
    uint32_t id = spp_map_get(&strings, a, b);
    if (id != SPP_MAP_NONE) return id;
    put(SPP_COL_STRING_LEN, text->n);
    spp_bytes_append(&out.string_bytes, text->at, text->n);
    spp_map_add(&strings, a, b, strings_n);
    return strings_n++;
}

static uint32_t code_id(const spp_code *code, spp_code_kind kind) {
    uint64_t name = string_id(&code->name), qualname = string_id(&code->qualname), file = string_id(&code->file);
    uint64_t a = name << 32 | qualname, b = file << 32 | (uint32_t)code->first_line | (uint64_t)kind << 31;
    uint32_t id = spp_map_get(&codes, a, b);
    if (id != SPP_MAP_NONE) return id;
    put(SPP_COL_CODE_NAME, name);
    put(SPP_COL_CODE_QUALNAME, qualname);
    put(SPP_COL_CODE_FILE, file);
    put(SPP_COL_CODE_LINE, code->first_line > 0 ? (uint64_t)code->first_line : 0);
    put(SPP_COL_CODE_KIND, kind);
    spp_map_add(&codes, a, b, codes_n);
    return codes_n++;
}

uint64_t spp_zigzag(int64_t x) { return ((uint64_t)x << 1) ^ (uint64_t)(x >> 63); }

static uint32_t frame_id(uint32_t code, int32_t first_line, spp_place place) {
    uint64_t a = (uint64_t)code << 32 | (uint32_t)place.line;
    uint64_t b = (uint64_t)(uint32_t)(place.end_line - place.line) << 42 ^ (uint64_t)(uint32_t)(place.col + 1) << 21 ^
                 (uint32_t)(place.end_col + 1);
    /* The packing is exact below two million columns and four million lines; beyond, the hash of both keeps them apart. */
    if (place.col >= 1 << 20 || place.end_col >= 1 << 20 || place.end_line - place.line >= 1 << 21) {
        b = spp_hash_bytes(&place, sizeof place, code) | (uint64_t)1 << 63;
    }
    uint32_t id = spp_map_get(&frames, a, b);
    if (id != SPP_MAP_NONE) return id;
    first_line = first_line > 0 ? first_line : 0; /* as the file says it */
    put(SPP_COL_FRAME_CODE, code);
    put(SPP_COL_FRAME_LINE, place.line ? spp_zigzag((int64_t)place.line - first_line) + 1 : 0);
    put(SPP_COL_FRAME_END_LINE, place.line && place.end_line >= place.line ? (uint64_t)(place.end_line - place.line) + 1 : 0);
    put(SPP_COL_FRAME_COL, (uint64_t)(place.col + 1));
    put(SPP_COL_FRAME_END_COL, (uint64_t)(place.end_col + 1));
    spp_map_add(&frames, a, b, frames_n);
    return frames_n++;
}

/* ---- live code objects */

static void forget_live(uint32_t index) {
    spp_table_close(&live[index].lines);
    spp_free(live[index].frames);
    memset(&live[index], 0, sizeof live[index]);
    live_free[live_free_n++] = index;
}

/* What was sampled before `sure_ns` is resolved. */
static void forget_orphans(uint64_t sure_ns) {
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

static void forget_everything(void) {
    for (uint32_t i = 0; i < live_n; i++) {
        spp_table_close(&live[i].lines);
        spp_free(live[i].frames);
    }
    spp_free(live);
    spp_free(live_free);
    spp_free(orphans);
    live = NULL;
    live_free = NULL;
    orphans = NULL;
    live_n = live_room = live_free_n = orphans_n = orphans_room = 0;
    unreadable_code = SPP_MAP_NONE;
    spp_map_free(&live_of_address);
    spp_map_free(&strings);
    spp_map_free(&codes);
    spp_map_free(&frames);
    spp_map_free(&native_frames);
    spp_map_free(&native_codes);
}

static uint32_t new_live(void) {
    if (live_free_n > 0) return live_free[--live_free_n];
    if (live_n == live_room) {
        uint32_t room = live_room ? live_room * 2 : 256;
        live_code *more = spp_realloc(live, room * sizeof *live);
        if (more == NULL) return SPP_MAP_NONE;
        live = more;
        uint32_t *more_free = spp_realloc(live_free, room * sizeof *live_free);
        if (more_free == NULL) return SPP_MAP_NONE;
        live_free = more_free;
        live_room = room;
    }
    return live_n++;
}

#define HIDDEN SPP_MAP_NONE

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
    code->code_id = code->hidden ? 0 : code_id(&scratch, SPP_KIND_PYTHON);
    code->first_line = scratch.first_line;
    code->lines_known = /* else its frames have no line */
        scratch.lines_known && spp_table_open(&code->lines, scratch.lines, scratch.lines_n, scratch.first_line) == 0;
    if (spp_map_add(&live_of_address, address, 0, index) != 0) {
        forget_live(index);
        return SPP_MAP_NONE;
    }
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
        unreadable_code = code_id(&scratch, SPP_KIND_PYTHON);
    }
    return frame_id(unreadable_code, 0, (spp_place){0, 0, -1, -1});
}

#define NOWHERE spp_frame_native(1) /* an address that no object holds */

static uint32_t name_native(spp_frame frame) {
    spp_native_place place = {.file = ""};
    if (!spp_resolve_native_name(frame, &place, &scratch.name)) return HIDDEN;
    scratch.qualname.n = 0;
    spp_bytes_append(&scratch.qualname, scratch.name.at, scratch.name.n);
    scratch.file.n = 0;
    spp_bytes_append(&scratch.file, place.file, strlen(place.file));
    scratch.first_line = place.start <= INT32_MAX ? (int32_t)place.start : 0;
    uint32_t code = code_id(&scratch, SPP_KIND_NATIVE);
    uintptr_t begins = spp_frame_pc(frame) - (uintptr_t)(place.at - place.start);
    if (place.file[0] != 0 && spp_map_get(&native_codes, begins, 0) == SPP_MAP_NONE) {
        (void)spp_map_add(&native_codes, begins, 0, code);
    }
    int32_t at = place.at <= INT32_MAX ? (int32_t)place.at : 0;
    return frame_id(code, scratch.first_line, (spp_place){at, at, -1, -1});
}

static uint32_t resolve_native(spp_frame frame) {
    if (spp_native_doubtful(spp_frame_pc(frame), sampled_ns)) return name_native(NOWHERE);
    uint32_t id = spp_map_get(&native_frames, frame, 0);
    if (id != SPP_MAP_NONE) return id - 1;
    id = name_native(frame);
    (void)spp_map_add(&native_frames, frame, 0, id + 1); /* HIDDEN becomes 0; no memory: named again next time */
    return id;
}

/* Stacks that stand: they are written as they are, and walked again. */
static void walk_anew(void) {
    for (uint32_t i = 0; i < spp_threads_used; i++) {
        if (spp_threads[i].state != SPP_THREAD_ARMED) continue;
        spp_resolve_flush(&spp_threads[i]);
        spp_threads[i].wall.stands = false;
    }
}

void spp_resolve_forget_native(bool (*stays)(uintptr_t address)) {
    atomic_fetch_add_explicit(&spp_cap.epoch, 1, memory_order_acq_rel); /* equal addresses are no equal frames any more */
    spp_map_free(&native_frames);
    walk_anew();
    if (stays == NULL) return;
    spp_map kept = {0};
    for (size_t i = 0; native_codes.slots != NULL && i <= native_codes.mask; i++) {
        const spp_map_slot *slot = &native_codes.slots[i];
        if (slot->used && stays(slot->a)) (void)spp_map_add(&kept, slot->a, 0, slot->value);
    }
    spp_map_free(&native_codes);
    native_codes = kept;
}

void spp_resolve_native_codes(spp_vec64 *to) {
    for (size_t i = 0; native_codes.slots != NULL && i <= native_codes.mask; i++) {
        const spp_map_slot *slot = &native_codes.slots[i];
        if (!slot->used || spp_vec64_room(to, 2) != 0) continue;
        spp_vec64_push(to, slot->a);
        spp_vec64_push(to, slot->value);
    }
}

#define BUSY (SPP_MAP_NONE - 1)

/* BUSY: its line table is long, a piece of it was read, and there is more to read. */
static uint32_t resolve_frame(spp_frame frame) {
    if (spp_frame_is_known(frame)) return spp_frame_id(frame);
    if (spp_frame_is_native(frame)) return resolve_native(frame);
    uintptr_t address = spp_frame_code(frame);
    uint32_t offset = spp_frame_offset(frame);
    uint32_t index = spp_map_get(&live_of_address, address, 0);
    if (index == SPP_MAP_NONE) index = adopt(address);
    if (index == SPP_MAP_NONE) return unreadable_frame();
    live_code *code = &live[index];
    if (code->hidden) return HIDDEN;
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
        if (!spp_table_step(&code->lines, offset)) return BUSY;
        place = spp_table_place(&code->lines, offset);
    }
    uint32_t id = frame_id(code->code_id, code->first_line, place);
    if (offset != SPP_OFFSET_NONE) remember_frame(code, offset, id);
    return id;
}

/* ---- samples */

/* The label of a sample, of the number that it was taken with. */
static uint32_t label_of(uint64_t number) {
    spp_bytes text = {0};
    text.at = (uint8_t *)(uintptr_t)spp_label_text(number, &text.n);
    return number != 0 && text.at != NULL ? string_id(&text) + 1 : 0;
}

static int emit(spp_thread *thread, const uint32_t *ids, uint32_t depth, uint64_t time_ns, uint64_t weight, uint32_t flags,
                uint32_t count, uint32_t label) {
    if (spp_vec64_room(&out.samples, depth + 4) != 0) return -1;
    if (thread->queued.round != rounds) {
        thread->queued.round = rounds;
        thread->queued.first = out.samples.n;
    }
    uint64_t *to = out.samples.at + out.samples.n;
    to[0] = (uint64_t)(thread - spp_threads) | (uint64_t)flags << 16 | (uint64_t)count << 32;
    to[1] = time_ns;
    to[2] = weight;
    uint32_t n = 0;
    for (uint32_t i = 0; i < depth; i++) {
        if (ids[i] != HIDDEN) to[4 + n++] = ids[i];
    }
    to[3] = n | (uint64_t)label << 32;
    out.samples.n += n + 4;
    out.sample_count++;
    return 0;
}

/* What was taken, with these flags, is not taken after all; the tick stats subtract it. */
static void lose(spp_thread *thread, uint32_t flags, enum spp_loss loss, uint32_t count) {
    uint32_t source = spp_source_of_flags(flags);
    _Atomic uint64_t *losses = source == SPP_SOURCE_TIME ? thread->tick.losses : thread->sources[source].losses;
    atomic_fetch_add_explicit(&losses[loss], count, memory_order_relaxed);
}

void spp_resolve_hold(bool held) {
    if (hold && !held) {
        uint32_t used = atomic_load_explicit(&spp_threads_used, memory_order_acquire);
        spp_resolve_queues(); /* those of the time till now */
        for (uint32_t i = 0; i < used; i++) {
            if (spp_threads[i].wall.cut) spp_threads[i].wall.stands = false; /* its stack was not kept: it is walked anew */
        }
        atomic_fetch_add_explicit(&spp_cap.epoch, 1, memory_order_acq_rel); /* so the next sample of each thread is whole */
    }
    hold = held;
}

void spp_resolve_flush(spp_thread *t) {
    if (t->wall.repeats == 0) return;
    uint64_t weight = t->wall.off_ns > 0 ? (uint64_t)t->wall.off_ns : 0;
    if (hold || t->wall.cut)
        lose(t, t->wall.flags, SPP_LOSS_writer_behind, t->wall.repeats);
    else if (emit(t, t->wall.path, t->wall.depth, t->wall.look_ns, weight, t->wall.flags, t->wall.repeats, t->wall.label) != 0)
        lose(t, t->wall.flags, SPP_LOSS_store_full, t->wall.repeats);
    t->wall.off_ns -= (int64_t)weight;
    t->wall.written_ns = t->wall.look_ns;
    t->wall.repeats = 0;
}

/* How much of a queue is resolved at a time. */
#define RECORDS_STEP 64u    /* without the lock being given back between: 0.1 ms */
#define RECORDS_PROMPT 512u /* where nobody else's turn would help: by who holds the GIL, or the sampler */

/* The record at a queue's head. False: a frame was BUSY, and it is still there. */
static bool resolve_record(spp_thread *thread) {
    spp_queue *queue = &thread->tick.queue;
    uint64_t word = spp_queue_peek(queue, 2);
    uint32_t depth = (uint32_t)(word & 0xFFFF), flags = (uint32_t)(word >> 16 & 0xFFFF);
    uint32_t fresh = (uint32_t)(word >> 32 & 0xFFFF), labelled = (uint32_t)(word >> 48);
    uint32_t head = SPP_RECORD_WORDS + labelled;
    /* Without those frames that it has in common with one that was not kept, a sample says nothing. */
    if (hold || (thread->queued.cut && fresh < depth)) {
        thread->queued.cut = true;
        lose(thread, flags, SPP_LOSS_writer_behind, 1);
        spp_queue_take(queue, head + fresh);
        return true;
    }
    sampled_ns = spp_queue_peek(queue, 0);
    for (uint32_t i = 0; i < fresh; i++) {
        uint32_t id = resolve_frame(spp_queue_peek(queue, head + i));
        if (id == BUSY) return false;
        thread->queued.path[depth - fresh + i] = id;
    }
    uint32_t label = labelled ? label_of(spp_queue_peek(queue, SPP_RECORD_WORDS)) : 0;
    if (emit(thread, thread->queued.path, depth, spp_queue_peek(queue, 0), spp_queue_peek(queue, 1), flags, 1, label) != 0) {
        lose(thread, flags, SPP_LOSS_store_full, 1);
    }
    spp_queue_take(queue, head + fresh);
    thread->queued.cut = false;
    return true;
}

/* What was sampled before end_ns, and of that so many records at the most. False: there is more. */
static bool resolve_some(spp_thread *thread, uint64_t end_ns, uint32_t most) {
    spp_queue *queue = &thread->tick.queue;
    if (queue->words == NULL) return true;
    bool all = false;
    if (spp_queue_ready(queue) >= SPP_RECORD_WORDS) spp_resolve_flush(thread); /* it stood before it ran again and took these */
    for (; !all; most--) {
        all = spp_queue_ready(queue) < SPP_RECORD_WORDS || spp_queue_peek(queue, 0) >= end_ns;
        if (all || most == 0 || !resolve_record(thread)) break;
    }
    if (spp_queue_ready(queue) > 0) spp_threads_mark(thread);
    return all;
}

static void resolve_until(spp_thread *thread, uint64_t end_ns) {
    while (!resolve_some(thread, end_ns, RECORDS_STEP)) {
        spp_os_unlock();
        spp_os_lock();
    }
}

void spp_resolve_queue(spp_thread *thread) { resolve_until(thread, UINT64_MAX); }

bool spp_resolve_stood(spp_thread *thread, const spp_walk *walk, uint64_t label) {
    if (!resolve_some(thread, UINT64_MAX, RECORDS_PROMPT)) return false; /* what the handler took before comes before */
    sampled_ns = thread->wall.look_ns;
    thread->wall.cut = hold;
    if (hold) return true;
    for (uint32_t i = 0; i < walk->depth; i++) {
        uint32_t id = resolve_frame(walk->out[walk->depth - 1 - i]);
        if (id == BUSY) return false;
        thread->wall.path[i] = id;
    }
    thread->wall.depth = walk->depth;
    thread->wall.flags = walk->flags | SPP_SAMPLE_OFF_CPU;
    thread->wall.label = label_of(label);
    return true;
}

/* Calls `visit` for each thread whose queue may hold something. The lock may be given back in it. */
static void each_pending(void (*visit)(spp_thread *thread, uint64_t argument), uint64_t argument) {
    uint32_t words = (atomic_load_explicit(&spp_threads_used, memory_order_acquire) + 63) / 64;
    for (uint32_t w = 0; w < words; w++) {
        uint64_t seen = atomic_load_explicit(&spp_pending[w], memory_order_seq_cst);
        for (uint32_t i = 0; seen != 0; i++, seen >>= 1) {
            uint64_t bit = (uint64_t)1 << i;
            if (seen & 1 && atomic_fetch_and_explicit(&spp_pending[w], ~bit, memory_order_seq_cst) & bit)
                visit(&spp_threads[w * 64 + i], argument);
        }
    }
}

static void resolve_now(spp_thread *thread, uint64_t end_ns) {
    while (!resolve_some(thread, end_ns, UINT32_MAX)) {}
}

/* Flags of samples whose weights are not of the thread's CPU clock. */
#define NOT_CPU_TIME (SPP_SAMPLE_OFF_CPU | 0xFFu << SPP_SOURCE_SHIFT)

int64_t spp_resolve_settle(spp_thread *thread, int64_t open_ns) {
    const uint64_t slot = (uint64_t)(thread - spp_threads);
    resolve_now(thread, UINT64_MAX);
    if (thread->queued.round != rounds) return 0;
    uint64_t *const first = out.samples.at + thread->queued.first, *const end = out.samples.at + out.samples.n;
    int64_t sum = 0, most, before = 0, given = 0;
    for (uint64_t *at = first; at < end; at += 4 + (uint32_t)at[3]) {
        if ((at[0] & 0xFFFF) == slot && !(at[0] >> 16 & NOT_CPU_TIME)) sum += (int64_t)at[2];
    }
    most = sum - sum / 8;
    open_ns = open_ns > most ? most : open_ns < -most ? -most : open_ns;
    for (uint64_t *at = first; at < end; at += 4 + (uint32_t)at[3]) {
        if ((at[0] & 0xFFFF) != slot || at[0] >> 16 & NOT_CPU_TIME) continue;
        before += (int64_t)at[2];
        int64_t until = before == sum ? open_ns : (int64_t)((double)open_ns * (double)before / (double)sum);
        at[2] = (uint64_t)((int64_t)at[2] + until - given);
        given = until;
    }
    return given;
}

void spp_resolve_unknown(spp_thread *thread, uint32_t source, uint64_t amount) {
    uint32_t flags = source << SPP_SOURCE_SHIFT, id;
    resolve_now(thread, UINT64_MAX);
    sampled_ns = spp_os_now_ns();
    atomic_fetch_add_explicit(&thread->sources[source].taken, 1, memory_order_relaxed);
    if (hold)
        lose(thread, flags, SPP_LOSS_writer_behind, 1);
    else if ((id = resolve_frame(SPP_UNKNOWN_STACK)) == BUSY || emit(thread, &id, 1, sampled_ns, amount, flags, 1, 0) != 0)
        lose(thread, flags, SPP_LOSS_store_full, 1);
}

void spp_resolve_queues(void) { each_pending(resolve_now, UINT64_MAX); }

void spp_resolve_sure(void) {
    uint64_t now = spp_os_now_ns(), sure = atomic_load(&spp_native_sure_ns);
    each_pending(resolve_until, sure);
    spp_label_forget(sure < now ? sure : now);
    forget_orphans(sure < now ? sure : now);
}

/* Whether the code object that dies is an orphan now. */
static bool is_orphan(uint32_t index) { return orphans_n > 0 && orphans[orphans_n - 1].index == index; }

/* The code object at `address` is about to die, and its line table is copied as a whole. False: no memory. */
static bool make_orphan(uint32_t index) {
    if (is_orphan(index)) return true;
    if (orphans_n == orphans_room) {
        uint32_t room = orphans_room ? orphans_room * 2 : 16;
        orphan *more = spp_realloc(orphans, room * sizeof *more);
        if (more == NULL) return false;
        orphans = more;
        orphans_room = room;
    }
    if (spp_map_add(&live_of_address, spp_table_address(&live[index].lines), 0, index) != 0) return false;
    orphans[orphans_n++] = (orphan){index, spp_os_now_ns()};
    return true;
}

/* A frame of the code object that is about to die, as it may stay in a queue: its id, or what names the copy of its line table.
 * 0: that is to be copied first. */
static spp_frame outlive(spp_frame frame) {
    uint32_t index = spp_map_get(&live_of_address, spp_frame_code(frame), 0), id = BUSY;
    if (index == SPP_MAP_NONE || !is_orphan(index)) id = resolve_frame(frame);
    if (id != BUSY) return spp_frame_known(id);
    index = spp_map_get(&live_of_address, spp_frame_code(frame), 0);
    spp_table *lines = &live[index].lines;
    if (!spp_table_is_copied(lines)) return 0;
    if (make_orphan(index)) return spp_frame_make(spp_table_address(lines), (uint32_t)frame & SPP_NO_OFFSET);
    while (id == BUSY) id = resolve_frame(frame);
    return spp_frame_known(id);
}

/* Has the frames of a code object outlive it where they are, in all that a queue holds. */
static void resolve_in_place(spp_queue *queue, uintptr_t code) {
    uint64_t ready = spp_queue_ready(queue);
    for (uint64_t at = 0; at + SPP_RECORD_WORDS <= ready;) {
        uint64_t word = spp_queue_peek(queue, at + 2), head = SPP_RECORD_WORDS + (word >> 48), fresh = word >> 32 & 0xFFFF;
        for (uint64_t i = at + head; i < at + head + fresh; i++) {
            spp_frame frame = spp_queue_peek(queue, i);
            if (spp_frame_is_native(frame) || spp_frame_is_known(frame) || spp_frame_code(frame) != code) continue;
            spp_frame stays = outlive(frame);
            if (stays == 0) {
                copy_wanted = true;
                return;
            }
            spp_queue_poke(queue, i, stays);
        }
        at += head + fresh;
    }
}

static void resolve_before_death(spp_thread *thread, uint64_t code) {
    if (copy_wanted) {
        spp_threads_mark(thread); /* looked at again, after that */
        return;
    }
    if (!resolve_some(thread, UINT64_MAX, hold ? UINT32_MAX : RECORDS_PROMPT))
        resolve_in_place(&thread->tick.queue, (uintptr_t)code);
}

void spp_resolve_death(uintptr_t code) {
    uint32_t index;
    atomic_fetch_add_explicit(&spp_cap.epoch, 1, memory_order_acq_rel);
    for (;;) {
        copy_wanted = false;
        each_pending(resolve_before_death, code);
        if (!copy_wanted) break;
        for (;;) { /* who frees it waits for this; others do not wait for more than a piece */
            index = spp_map_get(&live_of_address, code, 0);
            if (index == SPP_MAP_NONE || spp_table_is_copied(&live[index].lines)) break;
            spp_table_copy(&live[index].lines);
            spp_os_unlock();
            spp_os_lock();
        }
    }
    index = spp_map_remove(&live_of_address, code, 0);
    if (index != SPP_MAP_NONE && !is_orphan(index)) forget_live(index);
}

void spp_resolve_collection(const spp_thread *of, uint64_t began_ns, uint64_t took_ns, const uint64_t counts[3]) {
    if (hold) return; /* no sample is lost */
    uint64_t thread = of != NULL ? of->id + 1ull : 0;
    uint64_t words[SPP_COLLECTION_WORDS] = {thread, began_ns, took_ns, counts[0], counts[1], counts[2]};
    if (spp_vec64_room(&out.collections, SPP_COLLECTION_WORDS) != 0) return; /* no memory: no sample is lost */
    for (size_t i = 0; i < SPP_COLLECTION_WORDS; i++) spp_vec64_push(&out.collections, words[i]);
}

void spp_resolve_swap(spp_resolved *with) {
    spp_resolved swap = out;
    out = *with;
    *with = swap;
    rounds++;
    bool full = strings.n > KNOWN_MAX || frames.n > KNOWN_MAX || codes.n > KNOWN_MAX || native_frames.n > KNOWN_MAX;
    if (full && orphans_n == 0) forget_everything(); /* they are named in queues */
}

int spp_resolve_start(void) {
    forget_everything();
    spp_label_forget(UINT64_MAX);
    hold = false;
    strings_n = codes_n = frames_n = 0;
    rounds++;
    spp_resolved_free(&out);
    return 0;
}

void spp_resolve_abandon(void) {
    live = NULL;
    live_free = NULL;
    orphans = NULL;
    live_n = live_room = live_free_n = orphans_n = orphans_room = 0;
    unreadable_code = SPP_MAP_NONE;
    spp_map *const maps[] = {&live_of_address, &strings, &codes, &frames, &native_frames, &native_codes};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) memset(maps[i], 0, sizeof *maps[i]);
    memset(&out, 0, sizeof out);
    memset(&scratch, 0, sizeof scratch);
    strings_n = codes_n = frames_n = 0;
    hold = false;
    sampled_ns = 0;
}

void spp_resolve_stop(void) { forget_everything(); }
