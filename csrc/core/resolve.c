#include "core/resolve.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "core/labels.h"
#include "core/native.h"
#include "core/resolve_code.h"

/* Distinct names or frames kept for recognition. Beyond it everything known is forgotten and gets new ids when it comes
 * again, so that a program that makes names for ever does not fill memory. */
#define KNOWN_MAX 400000u

/* A code object that lives: its file id, its line table, and the frames seen of it. */
typedef struct {
    uint32_t code_id;
    int32_t first_line;
    bool hidden; /* not the program's: see is_hidden */
    uint8_t *lines;
    uint32_t lines_n;
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
static spp_code scratch;
static uint32_t unreadable_code = SPP_MAP_NONE;
static spp_map native_frames; /* by address */
static spp_map native_codes;  /* by the address at which the function begins */
static uint64_t sampled_ns;   /* when the frames were sampled that are being resolved */

/* ---- interning */

/* Strings are recognised by two independent 64-bit hashes: at 400,000 strings the chance of one confusion is 2e-28. */
static uint32_t string_id(const spp_bytes *text) {
    uint64_t a = spp_hash_bytes(text->at, text->n, 0), b = spp_hash_bytes(text->at, text->n, 0x9E3779B97F4A7C15u);
    uint32_t id = spp_map_get(&strings, a, b);
    if (id != SPP_MAP_NONE) return id;
    spp_vec64_push(&out.string_len, text->n);
    spp_bytes_append(&out.string_bytes, text->at, text->n);
    spp_map_add(&strings, a, b, strings_n);
    return strings_n++;
}

static uint32_t code_id(const spp_code *code, spp_code_kind kind) {
    uint64_t name = string_id(&code->name), qualname = string_id(&code->qualname), file = string_id(&code->file);
    uint64_t a = name << 32 | qualname, b = file << 32 | (uint32_t)code->first_line | (uint64_t)kind << 31;
    uint32_t id = spp_map_get(&codes, a, b);
    if (id != SPP_MAP_NONE) return id;
    spp_vec64_push(&out.code_name, name);
    spp_vec64_push(&out.code_qualname, qualname);
    spp_vec64_push(&out.code_file, file);
    spp_vec64_push(&out.code_line, code->first_line > 0 ? (uint64_t)code->first_line : 0);
    spp_vec64_push(&out.code_kind, kind);
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
    spp_vec64_push(&out.frame_code, code);
    spp_vec64_push(&out.frame_line, place.line ? spp_zigzag((int64_t)place.line - first_line) + 1 : 0);
    spp_vec64_push(&out.frame_end_line,
                   place.line && place.end_line >= place.line ? (uint64_t)(place.end_line - place.line) + 1 : 0);
    spp_vec64_push(&out.frame_col, (uint64_t)(place.col + 1));
    spp_vec64_push(&out.frame_end_col, (uint64_t)(place.end_col + 1));
    spp_map_add(&frames, a, b, frames_n);
    return frames_n++;
}

/* ---- live code objects */

static void forget_live(uint32_t index) {
    free(live[index].lines);
    free(live[index].frames);
    memset(&live[index], 0, sizeof live[index]);
    live_free[live_free_n++] = index;
}

static void forget_everything(void) {
    for (uint32_t i = 0; i < live_n; i++) {
        free(live[i].lines);
        free(live[i].frames);
    }
    free(live);
    free(live_free);
    live = NULL;
    live_free = NULL;
    live_n = live_room = live_free_n = 0;
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
        live_code *more = realloc(live, room * sizeof *live);
        if (more == NULL) return SPP_MAP_NONE;
        live = more;
        uint32_t *more_free = realloc(live_free, room * sizeof *live_free);
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
    code->code_id = code->hidden ? 0 : code_id(&scratch, SPP_CODE_PYTHON);
    code->first_line = scratch.first_line;
    code->lines = scratch.lines_known ? malloc(scratch.lines.n + 1) : NULL; /* NULL: its frames have no line */
    if (code->lines != NULL && scratch.lines.n != 0) {
        memcpy(code->lines, scratch.lines.at, scratch.lines.n);
        code->lines_n = (uint32_t)scratch.lines.n;
    }
    if (spp_map_add(&live_of_address, address, 0, index) != 0) {
        forget_live(index);
        return SPP_MAP_NONE;
    }
    return index;
}

static void remember_frame(live_code *code, uint32_t offset, uint32_t id) {
    if (code->frames == NULL || (code->frames_n + 1) * 2 > code->frames_mask + 1) {
        uint32_t slots = code->frames ? (code->frames_mask + 1) * 2 : 8;
        uint64_t *bigger = calloc(slots, sizeof *bigger);
        if (bigger == NULL) return; /* resolved again next time */
        for (uint32_t i = 0; code->frames && i <= code->frames_mask; i++) {
            if (code->frames[i] == 0) continue;
            uint32_t at = (uint32_t)(code->frames[i] >> 32) * 2654435769u & (slots - 1);
            while (bigger[at]) at = (at + 1) & (slots - 1);
            bigger[at] = code->frames[i];
        }
        free(code->frames);
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
        unreadable_code = code_id(&scratch, SPP_CODE_PYTHON);
    }
    return frame_id(unreadable_code, 0, (spp_place){0, 0, -1, -1});
}

/* Without what compilers add to copies and parts of a function: f.isra.0, f.constprop.1, f.cold. */
static void set_function(spp_bytes *to, const char *name) {
    static const char *const added[] = {".isra.", ".constprop.", ".part.", ".cold", ".lto_priv.", ".llvm."};
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof added / sizeof *added; i++) {
        const char *at = strstr(name, added[i]);
        if (at != NULL && at != name && (size_t)(at - name) < n) n = (size_t)(at - name);
    }
    to->n = 0;
    spp_bytes_append(to, name, n);
}

/* CPython's own, which stand between a caller and what it calls: seed of the merge, "functions starting with Py or _Py". Without
 * symbols they cannot be told from the rest of the interpreter. */
static bool is_plumbing(const spp_native_place *place) {
    if (!place->python || spp_cap.native_full) return false;
    static const char *const begins[] = {"Py", "_Py", "py::", "py_trampoline_"};
    for (size_t i = 0; place->function != NULL && i < sizeof begins / sizeof *begins; i++) {
        if (strncmp(place->function, begins[i], strlen(begins[i])) == 0) return true;
    }
    return place->function == NULL;
}

#define NOWHERE spp_frame_native(1) /* an address that no object holds */

static uint32_t name_native(spp_frame frame) {
    uintptr_t pc = spp_frame_pc(frame);
    spp_native_place place = {.file = ""};
    char text[64];
    if (pc == 0) {
        place.function = "[native unpaired]";
    } else if (!spp_native_place_of(pc, &place)) {
        place.function = "[unknown]"; /* code that some program made: a JIT's, a trampoline */
    } else if (is_plumbing(&place)) {
        return HIDDEN;
    }
    /* Stripped, with a part of it split off: Debian's 3.14 and 3.15. */
    if (place.function == NULL && (frame & SPP_NATIVE_EVALUATOR)) place.function = "_PyEval_EvalFrameDefault";
    if (place.function == NULL) {
        const char *name = strrchr(place.file, '/');
        snprintf(text, sizeof text, "[%.32s+0x%llx]", name != NULL ? name + 1 : place.file, (unsigned long long)place.start);
        place.function = text;
    }
    set_function(&scratch.name, place.function);
    set_function(&scratch.qualname, place.function);
    scratch.file.n = 0;
    spp_bytes_append(&scratch.file, place.file, strlen(place.file));
    scratch.first_line = place.start <= INT32_MAX ? (int32_t)place.start : 0;
    uint32_t code = code_id(&scratch, SPP_CODE_NATIVE);
    uintptr_t begins = pc - (uintptr_t)(place.at - place.start);
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

void spp_resolve_forget_native(bool (*stays)(uintptr_t address)) {
    atomic_fetch_add_explicit(&spp_cap.epoch, 1, memory_order_acq_rel); /* equal addresses are no equal frames any more */
    spp_map_free(&native_frames);
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

static uint32_t resolve_frame(spp_frame frame) {
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
    if (code->lines != NULL) place = spp_code_place(code->lines, code->lines_n, code->first_line, offset);
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

static int emit(spp_thread *thread, const uint32_t *ids, uint32_t depth, uint64_t time_ns, uint64_t weight_ns, uint32_t marks,
                uint32_t count, uint32_t label) {
    if (spp_vec64_room(&out.samples, depth + 4) != 0) return -1;
    uint64_t *to = out.samples.at + out.samples.n;
    to[0] = (uint64_t)(thread - spp_threads) | (uint64_t)marks << 16 | (uint64_t)count << 32;
    to[1] = time_ns;
    to[2] = weight_ns;
    uint32_t n = 0;
    for (uint32_t i = 0; i < depth; i++) {
        if (ids[i] != HIDDEN) to[4 + n++] = ids[i];
    }
    to[3] = n | (uint64_t)label << 32;
    out.samples.n += n + 4;
    out.sample_count++;
    return 0;
}

/* No memory. What the handler took is not taken after all; the account subtracts it. */
static void lose(spp_thread *thread, uint32_t count) {
    atomic_fetch_add_explicit(&thread->losses[SPP_LOSS_store_full], count, memory_order_relaxed);
}

void spp_resolve_flush(spp_thread *t) {
    if (t->repeats == 0) return;
    uint64_t weight = t->off_ns > 0 ? (uint64_t)t->off_ns : 0;
    if (emit(t, t->stood_path, t->stood_depth, t->look_ns, weight, t->stood_marks, t->repeats, t->stood_label) != 0)
        lose(t, t->repeats);
    t->off_ns -= (int64_t)weight;
    t->written_ns = t->look_ns;
    t->repeats = 0;
}

static void resolve_until(spp_thread *thread, uint64_t end_ns) {
    spp_queue *queue = &thread->queue;
    if (queue->words == NULL) return;
    uint64_t ready = spp_queue_ready(queue);
    if (ready >= SPP_RECORD_WORDS) spp_resolve_flush(thread); /* it stood before it ran again and took these */
    while (ready >= SPP_RECORD_WORDS && spp_queue_peek(queue, 0) < end_ns) {
        uint64_t word = spp_queue_peek(queue, 2);
        uint32_t depth = (uint32_t)(word & 0xFFFF), marks = (uint32_t)(word >> 16 & 0xFFFF);
        uint32_t fresh = (uint32_t)(word >> 32 & 0xFFFF), labelled = (uint32_t)(word >> 48);
        uint32_t head = SPP_RECORD_WORDS + labelled, label = labelled ? label_of(spp_queue_peek(queue, SPP_RECORD_WORDS)) : 0;
        sampled_ns = spp_queue_peek(queue, 0);
        for (uint32_t i = 0; i < fresh; i++) {
            spp_frame frame = spp_queue_peek(queue, head + i);
            thread->path[depth - fresh + i] = resolve_frame(frame);
        }
        if (emit(thread, thread->path, depth, spp_queue_peek(queue, 0), spp_queue_peek(queue, 1), marks, 1, label) != 0) {
            lose(thread, 1);
        }
        spp_queue_take(queue, head + fresh);
        ready -= head + fresh;
    }
}

void spp_resolve_queue(spp_thread *thread) { resolve_until(thread, UINT64_MAX); }

void spp_resolve_stood(spp_thread *thread, const spp_walk *walk, uint64_t label) {
    spp_resolve_queue(thread); /* what the handler took before comes before */
    sampled_ns = thread->look_ns;
    for (uint32_t i = 0; i < walk->depth; i++) {
        spp_frame frame = walk->out[walk->depth - 1 - i];
        thread->stood_path[i] = resolve_frame(frame);
    }
    thread->stood_depth = walk->depth;
    thread->stood_marks = walk->marks | SPP_SAMPLE_STANDING;
    thread->stood_label = label_of(label);
}

static void resolve_all(uint64_t end_ns) {
    uint32_t used = atomic_load_explicit(&spp_threads_used, memory_order_acquire);
    for (uint32_t i = 0; i < used; i++) resolve_until(&spp_threads[i], end_ns);
}

void spp_resolve_queues(void) { resolve_all(UINT64_MAX); }

void spp_resolve_sure(void) {
    uint64_t now = spp_os_now_ns(), sure = atomic_load(&spp_native_sure_ns);
    resolve_all(sure);
    spp_label_forget(sure < now ? sure : now);
}

void spp_resolve_death(uintptr_t code) {
    atomic_fetch_add_explicit(&spp_cap.epoch, 1, memory_order_acq_rel);
    spp_resolve_queues();
    uint32_t index = spp_map_remove(&live_of_address, code, 0);
    if (index != SPP_MAP_NONE) forget_live(index);
}

void spp_resolve_collection(int32_t tid, uint64_t began_ns, uint64_t took_ns, const uint64_t counts[3]) {
    uint64_t thread = 0;
    uint32_t used = atomic_load_explicit(&spp_threads_used, memory_order_acquire);
    for (uint32_t i = 0; i < used && thread == 0; i++) {
        if (spp_threads[i].state == SPP_THREAD_ARMED && spp_threads[i].tid == tid) thread = spp_threads[i].id + 1ull;
    }
    uint64_t words[SPP_COLLECTION_WORDS] = {thread, began_ns, took_ns, counts[0], counts[1], counts[2]};
    if (spp_vec64_room(&out.collections, SPP_COLLECTION_WORDS) != 0) return; /* no memory: no sample is lost */
    for (size_t i = 0; i < SPP_COLLECTION_WORDS; i++) spp_vec64_push(&out.collections, words[i]);
}

void spp_resolve_swap(spp_resolved *with) {
    spp_resolved swap = out;
    out = *with;
    *with = swap;
    bool full = strings.n > KNOWN_MAX || frames.n > KNOWN_MAX || codes.n > KNOWN_MAX || native_frames.n > KNOWN_MAX;
    if (full) forget_everything();
}

int spp_resolve_start(void) {
    forget_everything();
    spp_label_forget(UINT64_MAX);
    strings_n = codes_n = frames_n = 0;
    spp_resolved_free(&out);
    return 0;
}

void spp_resolve_stop(void) { forget_everything(); }

void spp_resolved_clear(spp_resolved *r) {
    spp_vec64 *all[] = {&r->string_len,    &r->code_name,  &r->code_qualname, &r->code_file,      &r->code_line,
                        &r->code_kind,     &r->frame_code, &r->frame_line,    &r->frame_end_line, &r->frame_col,
                        &r->frame_end_col, &r->samples,    &r->collections};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) all[i]->n = 0;
    r->string_bytes.n = 0;
    r->sample_count = 0;
}

void spp_resolved_free(spp_resolved *r) {
    spp_vec64 *all[] = {&r->string_len,    &r->code_name,  &r->code_qualname, &r->code_file,      &r->code_line,
                        &r->code_kind,     &r->frame_code, &r->frame_line,    &r->frame_end_line, &r->frame_col,
                        &r->frame_end_col, &r->samples,    &r->collections};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) spp_vec64_free(all[i]);
    spp_bytes_free(&r->string_bytes);
    r->sample_count = 0;
}
