#include "core/capture/frames.h"

#include <stddef.h>
#include <string.h>

#include "base/hints.h"
#include "base/peek.h"
#include "core/capture/copies.h"
#include "os/memory.h"
#include "py/layout.h"

spp_python spp_py;

#define INLINE static inline __attribute__((always_inline))
#define CHUNKS_MAX 4096 /* data stack chunks that a walk looks at */

/* ---- the two memories */

typedef spp_copies copies;

/* `c` NULL: in place. All fields read are aligned to their size, so none crosses a page. */
#define READER(name, type, peek)                                  \
    INLINE type name(copies *c, uintptr_t addr) {                 \
        if (c == NULL) return peek(addr);                         \
        type value = 0;                                           \
        const uint8_t *at = spp_copies_at(c, addr, sizeof value); \
        if (at != NULL) memcpy(&value, at, sizeof value);         \
        return value;                                             \
    }
READER(word, uint64_t, spp_peek64)
READER(half, int32_t, spp_peek32)
#if SPP_L_CHAIN != 1
READER(byte, uint8_t, spp_peek8)
#endif

/* Whether [addr, addr + n) can be read, n <= 4096: its first and last word decide. */
INLINE bool there(copies *c, uintptr_t addr, size_t n) {
    if (c != NULL) return spp_copies_at(c, addr, 1) != NULL && spp_copies_at(c, addr + n - 1, 1) != NULL;
    if (!spp_os_readable(addr)) return false;
    return ((addr ^ (addr + n - 1)) & ~(uintptr_t)(SPP_COPIES_PAGE - 1)) == 0 || spp_os_readable(addr + n - 1);
}

/* ---- code objects and offsets */

INLINE uint32_t code_bytes(copies *c, uintptr_t code) {
    if (SPP_L_CODE_CODEOBJ >= 0) { /* 3.9, 3.10: a bytes object; checking its length is not worth a cache line */
        return UINT32_MAX;
    }
    return (uint32_t)(word(c, code + SPP_L_OB_SIZE) * 2u);
}

/* Checks that `code` is a live code object; *bytes gets the length of its instructions. `suspect`: it may not even be
 * mapped, since 3.11 and 3.12 link a frame before it is complete. */
INLINE bool check_code(spp_walk *w, copies *c, uintptr_t code, bool suspect, uint32_t *bytes) {
    if (code == 0 || (code & 7)) return false;
    spp_known *known = w->known == NULL ? NULL : &w->known[((code >> 4) ^ (code >> 12)) & (SPP_KNOWN_CODES - 1)];
    if (spp_usual(known != NULL && known->code == code && known->epoch == w->epoch)) {
        *bytes = known->bytes;
        return true;
    }
    if (suspect && !there(c, code, SPP_L_CODE_SIZE)) return false;
    if (word(c, code + SPP_L_OB_TYPE) != spp_py.code_type) return false;
    *bytes = code_bytes(c, code);
    if (known != NULL) *known = (spp_known){code, w->epoch, *bytes};
    return true;
}

INLINE uint32_t instruction_offset(copies *c, uintptr_t frame, uintptr_t code) {
    if (SPP_L_CHAIN == 1) {
        int32_t lasti = half(c, frame + SPP_L_FRAME_INSTR);
        return lasti < 0 ? SPP_OFFSET_NONE : (uint32_t)lasti * (uint32_t)SPP_L_INSTR_SCALE;
    }
    uintptr_t start = code + (uintptr_t)SPP_L_CODE_BYTECODE;
    if (SPP_L_FRAME_TLBC >= 0) {
        int32_t index = half(c, frame + (uintptr_t)SPP_L_FRAME_TLBC);
        uintptr_t copies_of_code = word(c, code + (uintptr_t)SPP_L_CODE_TLBC);
        if (index > 0 && copies_of_code != 0) {
            start = word(c, copies_of_code + (uintptr_t)SPP_L_TLBC_ENTRIES + 8u * (uint32_t)index);
        }
    }
    uint64_t offset = word(c, frame + SPP_L_FRAME_INSTR) - start;
    /* Before the first instruction (3.11, 3.12 point one unit before it) there is no offset yet. */
    return (int64_t)offset == -2 ? SPP_OFFSET_NONE : offset >= UINT32_MAX ? UINT32_MAX - 1 : (uint32_t)offset;
}

/* Appends a frame that was proved to be one. */
INLINE enum spp_loss add_frame(spp_walk *w, copies *c, uintptr_t frame, bool suspect) {
    uintptr_t code = word(c, frame + SPP_L_FRAME_CODE) & (uintptr_t)SPP_L_FRAME_CODE_MASK;
    uint32_t bytes;
    if (spp_rare(!check_code(w, c, code, suspect, &bytes))) return SPP_LOSS_bad_code;
    uint32_t offset = instruction_offset(c, frame, code);
    if (spp_rare(offset != SPP_OFFSET_NONE && offset >= bytes)) return SPP_LOSS_bad_offset;
    if (c != NULL && w->at != NULL) w->at[w->depth] = frame;
    w->out[w->depth++] = spp_frame_make(code, offset / 2 < SPP_NATIVE_BITS ? offset / 2 : SPP_NO_OFFSET);
    return SPP_LOSS_NONE;
}

#if SPP_L_CHAIN == 1 /* ---- 3.9, 3.10: frame objects */

INLINE enum spp_loss walk_objects(spp_walk *w, copies *c) {
    uintptr_t frame = word(c, w->tstate + SPP_L_TS_FRAME);
    while (frame != 0) {
        if (w->depth == w->max) {
            w->flags |= SPP_SAMPLE_TRUNCATED;
            return SPP_LOSS_NONE;
        }
        if (spp_rare(frame & 7)) return SPP_LOSS_bad_frame;
        /* Rule (h): a frame of a compiler's own type must at least execute code. */
        bool compiled = word(c, frame + SPP_L_OB_TYPE) != spp_py.frame_type;
        enum spp_loss loss = add_frame(w, c, frame, compiled);
        if (spp_rare(compiled && loss != SPP_LOSS_NONE)) return SPP_LOSS_bad_frame;
        if (spp_rare(loss != SPP_LOSS_NONE)) return loss;
        frame = word(c, frame + SPP_L_FRAME_PREVIOUS);
    }
    return SPP_LOSS_NONE;
}

#else /* ---- 3.11+: frames in data stack chunks, on the C stack, in generators */

/* The chunk that the walk is in: frames go down in it, then to older chunks, never back. */
typedef struct {
    uintptr_t at, low, top; /* frames lie in [low, top) */
    uintptr_t lowest;       /* the lowest frame seen in any chunk: it must be the first of the root chunk */
    uintptr_t last;         /* the last frame seen in this chunk */
} chunk;

INLINE void enter_chunk(chunk *k, uintptr_t at, uintptr_t top) {
    k->at = at;
    k->low = at + SPP_L_CHUNK_DATA;
    k->top = top;
    k->last = UINTPTR_MAX;
}

/* `top` is the thread's. While a chunk is added or dropped, `top` lies in the previous chunk for a
 * few instructions. If this chunk were below that one in memory, [low, top) would hold the frames
 * of both, and the root would be unknown. */
INLINE void enter_newest_chunk(chunk *k, copies *c, uintptr_t at, uintptr_t top) {
    uint64_t size = word(c, at + SPP_L_CHUNK_SIZE);
    enter_chunk(k, at, spp_usual(top - at <= size) ? top : at + size);
}

static SPP_COLD bool go_to_older_chunk(chunk *k, copies *c, uintptr_t frame) {
    for (int n = 0; n < CHUNKS_MAX; n++) {
        uintptr_t previous = k->at != 0 ? word(c, k->at + SPP_L_CHUNK_PREVIOUS) : 0;
        if (previous == 0) return false;
        enter_chunk(k, previous, previous + SPP_L_CHUNK_DATA + 8u * word(c, previous + SPP_L_CHUNK_TOP));
        if (frame >= k->low && frame < k->top) return true;
    }
    return false;
}

/* Moves k to the chunk that holds `frame`, this one or an older one. */
INLINE bool in_chunks(chunk *k, copies *c, uintptr_t frame) {
    if (spp_usual(frame >= k->low && frame < k->top)) return true;
    chunk older = *k; /* no address of it is taken, so it stays in registers */
    if (!go_to_older_chunk(&older, c, frame)) return false;
    *k = older;
    return true;
}

/* Rule (e): 3.13+ links a frame before datastack_top moves past it, and unlinks it after top moved back. */
INLINE bool is_newest(spp_walk *w, copies *c, uintptr_t frame) {
    if (SPP_L_CHAIN != 3 || w->depth != 0) return false;
    if (frame == word(c, w->tstate + (uintptr_t)SPP_L_TS_TOP)) return true;
    if (SPP_L_TS_CACHED_CHUNK < 0 || !spp_py.has_cached_chunk) return false;
    uintptr_t cached = word(c, w->tstate + (uintptr_t)SPP_L_TS_CACHED_CHUNK);
    return cached != 0 && frame == cached + SPP_L_CHUNK_DATA;
}

/* Whether an address is on the thread's current stack, if that is known: it can be read in place. */
INLINE bool on_stack(const spp_walk *w, uintptr_t at) { return at >= w->sp && at < w->stack_end; }

/* Below the stack pointer: left by calls that returned. */
INLINE bool is_dead(const spp_walk *w, uintptr_t at) { return w->stack_end != 0 && at < w->sp && at >= w->stack_low; }

/* 3.15: the entry frame below all others, stored in the thread state. */
INLINE bool is_base(spp_walk *w, copies *c, uintptr_t frame) {
    return SPP_L_TS_BASE_FRAME >= 0 && frame == word(c, w->tstate + (uintptr_t)SPP_L_TS_BASE_FRAME);
}

/* Whether an entry frame may be here. *sure: its memory can be read, as can that around a frame
 * reached from a checked Python frame. A thread may be on another C stack than its own, and return
 * to one (coroutines); there the fields of the frame decide. */
INLINE bool is_entry(spp_walk *w, copies *c, uintptr_t frame, bool *sure) {
    if (is_base(w, c, frame)) return true;
    if (c == NULL && spp_usual(on_stack(w, frame))) return true;
    if (is_dead(w, frame)) return false;
    if (!*sure) *sure = there(c, frame - (uintptr_t)SPP_L_GEN_IFRAME, (size_t)SPP_L_GEN_IFRAME + SPP_L_FRAME_SIZE);
    if (!*sure) return false;
    uint8_t owner = byte(c, frame + (uintptr_t)SPP_L_FRAME_OWNER);
    return owner >= SPP_L_OWNER_ENTRY_MIN && owner <= SPP_L_OWNER_ENTRY_MAX;
}

/* Rule (b): the fields of an entry frame. */
INLINE bool entry_holds(spp_walk *w, copies *c, uintptr_t frame, uint8_t owner) {
    if (owner < SPP_L_OWNER_ENTRY_MIN || owner > SPP_L_OWNER_ENTRY_MAX) return false;
    uintptr_t code = word(c, frame + SPP_L_FRAME_CODE) & (uintptr_t)SPP_L_FRAME_CODE_MASK;
    if (SPP_L_INTERP_TRAMPOLINE >= 0) {
        uintptr_t interp = word(c, w->tstate + SPP_L_TS_INTERP);
        return code == word(c, interp + (uintptr_t)SPP_L_INTERP_TRAMPOLINE);
    }
    return code == spp_py.none;
}

#if SPP_L_FRAME_IS_ENTRY >= 0
/* 3.11: a generator that C code resumes in a thread that runs no Python code has no caller. The
 * cframe of its evaluator, which we know by its place among the entry frames, then links to the
 * thread's first cframe, which belongs to no evaluator and names no frame. While a generator is
 * being left, its cframe still names its caller, or is gone. A cframe that does not run has been
 * left: the frame counts as called from the place of its last call. */
static SPP_COLD bool has_no_caller(const spp_walk *w, copies *c, uintptr_t generator) {
    uintptr_t at = word(c, w->tstate + SPP_L_TS_FRAME), frame = word(c, at + SPP_L_CFRAME_CURRENT);
    uintptr_t state = generator - (uintptr_t)SPP_L_GEN_IFRAME + (uintptr_t)SPP_L_GEN_STATE;
    if (byte(c, generator + (uintptr_t)SPP_L_FRAME_IS_ENTRY) == 0 || (int8_t)byte(c, state) != SPP_L_GEN_EXECUTING) return false;
    for (uint32_t n = 0; n < SPP_DEPTH_MAX; n++) { /* the walk has checked these frames */
        bool is_entry = byte(c, frame + (uintptr_t)SPP_L_FRAME_IS_ENTRY) != 0, last = frame == generator;
        frame = last ? 0 : word(c, frame + SPP_L_FRAME_PREVIOUS);
        if (!last && frame == 0) return false;
        if (!is_entry) continue;
        at = word(c, at + SPP_L_CFRAME_PREVIOUS);
        bool inside = at >= w->tstate && at < w->tstate + SPP_L_TS_SIZE;
        if (at == 0 || (at & 7) != 0 || (!inside && !on_stack(w, at) && !there(c, at, 24))) return false;
        if (last) return inside && word(c, at + SPP_L_CFRAME_CURRENT) == 0 && word(c, at + SPP_L_CFRAME_PREVIOUS) == 0;
    }
    return false;
}
#else
static inline bool has_no_caller(const spp_walk *w, const copies *c, uintptr_t generator) {
    (void)w, (void)c, (void)generator;
    return false;
}
#endif

/* Whether the data stack holds frames. */
INLINE bool has_frames(const spp_walk *w, copies *c) {
    uintptr_t newest = word(c, w->tstate + (uintptr_t)SPP_L_TS_CHUNK);
    return newest != 0 && (word(c, newest + SPP_L_CHUNK_PREVIOUS) != 0 ||
                           word(c, w->tstate + (uintptr_t)SPP_L_TS_TOP) > newest + SPP_L_CHUNK_DATA + 8u);
}

#define OBJECT_MOST 256u /* bytes from a frame object to the frame in it: 56 to 136 in versions seen */

/* Rule (h): compilers of Python (Nuitka) link frames that lie in frame objects of their own type.
 * Frame and object point to each other. `lowest`: the lowest frame seen on the data stack. A frame
 * without a caller is the first of its thread. */
static SPP_COLD bool object_holds(const spp_walk *w, copies *c, uintptr_t frame, uintptr_t lowest) {
    uint8_t owner = byte(c, frame + (uintptr_t)SPP_L_FRAME_OWNER);
    if (owner != SPP_L_OWNED_BY_OBJECT && owner != SPP_L_OWNED_BY_GENERATOR) return false;
    uintptr_t object = word(c, frame + (uintptr_t)SPP_L_FRAME_OBJECT);
    if (object >= frame || frame - object > OBJECT_MOST || (object & 7) != 0) return false;
    if (!there(c, object, frame - object)) return false;
    if (word(c, object + (uintptr_t)SPP_L_OBJECT_FRAME) != frame) return false;
    return word(c, frame + SPP_L_FRAME_PREVIOUS) != 0 || lowest != 0 || !has_frames(w, c);
}

/* A frame that is neither in a chunk nor on the stack belongs to a generator or to a compiler. */
typedef enum { OF_NONE, OF_GENERATOR, OF_COMPILER } holder;

/* Rule (c): the frame of a generator. */
INLINE bool generator_holds(const spp_walk *w, copies *c, uintptr_t frame) {
    if (byte(c, frame + (uintptr_t)SPP_L_FRAME_OWNER) != SPP_L_OWNED_BY_GENERATOR) return false;
    /* A running generator has a caller, except in the case above. One without is being left: a
     * yield clears `previous` first (3.12), or a finished generator lost it (3.11). */
    return spp_usual(word(c, frame + SPP_L_FRAME_PREVIOUS) != 0) || has_no_caller(w, c, frame);
}

INLINE holder holder_of(const spp_walk *w, copies *c, uintptr_t frame, bool trusted, uintptr_t lowest) {
    uintptr_t generator = frame - (uintptr_t)SPP_L_GEN_IFRAME;
    if (!trusted && !there(c, generator, (size_t)SPP_L_GEN_IFRAME + SPP_L_FRAME_SIZE)) return OF_NONE;
    uintptr_t type = word(c, generator + SPP_L_OB_TYPE);
    if (spp_usual(type == spp_py.gen_type || type == spp_py.coro_type || type == spp_py.async_gen_type)) {
        return generator_holds(w, c, frame) ? OF_GENERATOR : OF_NONE;
    }
    return object_holds(w, c, frame, lowest) ? OF_COMPILER : OF_NONE;
}

INLINE uintptr_t first_frame(spp_walk *w, copies *c, enum spp_loss *loss) {
    uintptr_t anchor = word(c, w->tstate + SPP_L_TS_FRAME);
    if (SPP_L_CHAIN == 3 || anchor == 0) return anchor;
    /* Rule (f): the cframe lies in the thread state or on the C stack. */
    bool inside = anchor >= w->tstate && anchor < w->tstate + SPP_L_TS_SIZE;
    bool readable = c != NULL || on_stack(w, anchor) || (!is_dead(w, anchor) && there(c, anchor, 32));
    if (!inside && !readable) {
        *loss = SPP_LOSS_bad_cframe;
        return 0;
    }
    uintptr_t frame = word(c, anchor + (uintptr_t)SPP_L_CFRAME_CURRENT);
    /* A cframe is linked before it is filled in: it has no frame although the data stack holds
     * some. */
    if (frame == 0 && has_frames(w, c)) *loss = SPP_LOSS_bad_cframe;
    return frame;
}

/* Whether the walk's lowest data-stack frame is the first of the root chunk: nothing is missing below. Rule (d). */
INLINE bool reached_root(const chunk *k, copies *c) {
    if (k->lowest == 0) return true; /* only generators and entries: a task step called from C */
    return word(c, k->at + SPP_L_CHUNK_PREVIOUS) == 0 && k->lowest == k->low + 8u;
}

INLINE void add_anchor(spp_walk *w, uintptr_t at) {
    if (w->anchors_n < w->anchors_max) w->anchors[w->anchors_n++] = (spp_anchor){at, w->depth};
}

#if SPP_L_FRAME_IS_ENTRY >= 0
/* 3.11: each evaluator has a cframe on the C stack, which points to its newest frame; its oldest
 * frame is marked as an entry. Maps those newest frames to their cframes, 0 where there is none.
 * Only the newest cframe may have no frames: its evaluator has not entered its frame yet. */
INLINE void place_anchors(spp_walk *w, copies *c) {
    uintptr_t at = word(c, w->tstate + SPP_L_TS_FRAME), low = w->sp;
    for (uint32_t i = 0; i < w->anchors_n; i++) {
        uintptr_t newest = w->anchors[i].at;
        w->anchors[i].at = 0;
        for (uint32_t tries = i == 0 ? 2 : 1; tries > 0 && w->anchors[i].at == 0; tries--) {
            if (at < low || (at & 7) != 0 || (!on_stack(w, at) && !there(c, at, 24))) break;
            if (word(c, at + SPP_L_CFRAME_CURRENT) == newest) w->anchors[i].at = at;
            low = at + 1;
            at = word(c, at + SPP_L_CFRAME_PREVIOUS);
        }
    }
}

/* Adds an anchor where an evaluator's frames end. `newest`: the newest frame of this evaluator; 0: the next frame is. */
INLINE void anchor_evaluator(spp_walk *w, copies *c, uintptr_t frame, bool python, bool compiled, uintptr_t *newest) {
    (void)python;
    if (*newest == 0) *newest = frame;
    if (compiled || !byte(c, frame + SPP_L_FRAME_IS_ENTRY)) return; /* a compiler's frame has no evaluator */
    add_anchor(w, *newest);
    *newest = 0;
}
#else
INLINE void place_anchors(const spp_walk *w, copies *c) { (void)w, (void)c; }

/* Adds an anchor where an evaluator's frames end: at its entry frame. */
INLINE void anchor_evaluator(spp_walk *w, copies *c, uintptr_t frame, bool python, bool compiled, uintptr_t *newest) {
    (void)compiled, (void)newest;
    if (!python && !is_base(w, c, frame)) add_anchor(w, frame);
}
#endif

/* Rule (g), 3.11 and 3.12: the compiler may link a new frame before it stores the frame's caller
 * (Debian's 3.11 for arm64 links it four instructions early, and a tick can come between). Until
 * then `caller` is the one of the previous call at that place. A frame that waits for one run by
 * its own evaluator has saved the top of its stack; one that waits for C code has not. So a caller
 * without a saved top is stale. For the newest frame: whether its own evaluator runs its caller
 * too. */
INLINE bool is_called_in_place(copies *c, uintptr_t newest) {
    if (SPP_L_FRAME_STACKTOP < 0 || byte(c, newest + (uintptr_t)SPP_L_FRAME_OWNER) != SPP_L_OWNED_BY_THREAD) return false;
    return SPP_L_FRAME_IS_ENTRY < 0 || byte(c, newest + (uintptr_t)SPP_L_FRAME_IS_ENTRY) == 0;
}

INLINE enum spp_loss walk_chunks(spp_walk *w, copies *c, bool anchored) {
    enum spp_loss loss = SPP_LOSS_NONE;
    uintptr_t frame = first_frame(w, c, &loss);
    if (spp_rare(loss != SPP_LOSS_NONE)) return loss;
    chunk k = {0};
    uintptr_t newest = word(c, w->tstate + (uintptr_t)SPP_L_TS_CHUNK);
    if (newest != 0) enter_newest_chunk(&k, c, newest, word(c, w->tstate + (uintptr_t)SPP_L_TS_TOP));
    bool trusted = false;  /* this frame was reached from a checked Python frame */
    bool in_place = false; /* this frame called the newest one in the same evaluator */
    uint32_t steps = 0;
    uintptr_t newest_of_segment = 0;
    while (frame != 0) {
        if (w->depth == w->max || steps++ == 4 * SPP_DEPTH_MAX) {
            w->flags |= SPP_SAMPLE_TRUNCATED;
            break;
        }
        if (spp_rare(frame & 7)) return SPP_LOSS_bad_frame;
        bool python = true, compiled = false;
        if (spp_usual(in_chunks(&k, c, frame))) {
            if (spp_rare(byte(c, frame + (uintptr_t)SPP_L_FRAME_OWNER) != SPP_L_OWNED_BY_THREAD)) return SPP_LOSS_bad_owner;
            if (spp_rare(frame >= k.last)) return SPP_LOSS_bad_order;
            k.last = k.lowest = frame;
        } else if (is_newest(w, c, frame)) {
            if (spp_rare(byte(c, frame + (uintptr_t)SPP_L_FRAME_OWNER) != SPP_L_OWNED_BY_THREAD)) return SPP_LOSS_bad_owner;
            if (k.lowest == 0) k.lowest = frame;
        } else {
            bool sure = SPP_L_CHAIN == 3 && trusted;
            if (is_entry(w, c, frame, &sure) && entry_holds(w, c, frame, byte(c, frame + (uintptr_t)SPP_L_FRAME_OWNER))) {
                python = false;
            } else if (spp_rare(on_stack(w, frame))) {
                return SPP_LOSS_bad_owner; /* not a generator's frame */
            } else {
                holder of = holder_of(w, c, frame, sure, k.lowest);
                if (spp_rare(of == OF_NONE)) return SPP_LOSS_bad_generator;
                compiled = of == OF_COMPILER;
            }
        }
        if (python) {
            if (spp_rare(in_place && half(c, frame + (uintptr_t)SPP_L_FRAME_STACKTOP) < 0)) return SPP_LOSS_bad_order;
            loss = add_frame(w, c, frame, SPP_L_CHAIN == 2 && w->depth < 2);
            if (spp_rare(loss != SPP_LOSS_NONE)) return loss;
        }
        in_place = python && w->depth == 1 && is_called_in_place(c, frame);
        if (anchored) anchor_evaluator(w, c, frame, python, compiled, &newest_of_segment);
        trusted = python;
        frame = word(c, frame + SPP_L_FRAME_PREVIOUS);
    }
    if (spp_rare(in_place && frame == 0)) return SPP_LOSS_bad_order;
    if (frame == 0 && !reached_root(&k, c)) w->flags |= SPP_SAMPLE_TRUNCATED;
    if (anchored && SPP_L_FRAME_IS_ENTRY >= 0) place_anchors(w, c);
    return SPP_LOSS_NONE;
}

#endif

INLINE enum spp_loss walk_frames(spp_walk *walk, copies *c, bool anchored) {
    spp_walk w = *walk; /* in registers: what is written to `out` cannot change it */
    enum spp_loss loss = SPP_LOSS_NONE;
    w.depth = 0;
    w.flags = 0;
    w.anchors_n = 0;
    if (w.tstate != 0) {
#if SPP_L_CHAIN == 1
        (void)anchored;
        loss = walk_objects(&w, c);
#else
        loss = walk_chunks(&w, c, anchored);
#endif
    }
    walk->depth = w.depth;
    walk->flags = w.flags;
    walk->anchors_n = w.anchors_n;
    return loss;
}

SPP_HOT enum spp_loss spp_frames_own(spp_walk *walk) { return walk_frames(walk, NULL, false); }

SPP_HOT enum spp_loss spp_frames_own_anchored(spp_walk *walk) { return walk_frames(walk, NULL, true); }

static enum spp_loss walk_other(spp_walk *walk, bool anchored) {
    static _Thread_local copies c; /* the sampler thread's; 64 KiB is too much for its stack */
    memset(c.page, 0, sizeof c.page);
    c.next = 0;
    c.failed = false;
    enum spp_loss loss = walk_frames(walk, &c, anchored);
    return loss == SPP_LOSS_NONE && c.failed ? SPP_LOSS_bad_frame : loss;
}

enum spp_loss spp_frames_other(spp_walk *walk) { return walk_other(walk, false); }

enum spp_loss spp_frames_other_anchored(spp_walk *walk) { return walk_other(walk, true); }

/* Skips frames of the interpreter's own: where C calls Python (3.12+), and before an `__init__`. */
INLINE uintptr_t python_frame(uintptr_t frame, uintptr_t *code) {
    uintptr_t hidden = atomic_load_explicit(&spp_py.init_cleanup, memory_order_relaxed);
    for (; frame != 0; frame = word(NULL, frame + SPP_L_FRAME_PREVIOUS)) {
        *code = word(NULL, frame + SPP_L_FRAME_CODE) & (uintptr_t)SPP_L_FRAME_CODE_MASK;
#if SPP_L_CHAIN != 1
        uint8_t owner = byte(NULL, frame + (uintptr_t)SPP_L_FRAME_OWNER);
        if (owner >= SPP_L_OWNER_ENTRY_MIN && owner <= SPP_L_OWNER_ENTRY_MAX) continue;
#endif
        if (spp_usual(*code != hidden)) break;
    }
    return frame;
}

uintptr_t spp_frames_here(uintptr_t tstate, bool caller, uintptr_t *code, uint32_t *offset) {
    uintptr_t frame = word(NULL, tstate + SPP_L_TS_FRAME);
    if (SPP_L_CHAIN == 2) frame = word(NULL, frame + (uintptr_t)SPP_L_CFRAME_CURRENT);
    frame = python_frame(frame, code);
    if (caller && frame != 0) frame = python_frame(word(NULL, frame + SPP_L_FRAME_PREVIOUS), code);
    if (frame != 0) *offset = instruction_offset(NULL, frame, *code);
    return frame;
}

uint32_t spp_frames_all(uintptr_t tstate, spp_frame *out, uint32_t max, bool *more) {
    uintptr_t code = 0;
    uint32_t offset = SPP_OFFSET_NONE, n = 0;
    uintptr_t frame = spp_frames_here(tstate, false, &code, &offset);
    for (; frame != 0 && n < max; n++) {
        out[n] = spp_frame_make(code, offset / 2 < SPP_NATIVE_BITS ? offset / 2 : SPP_NO_OFFSET);
        frame = python_frame(word(NULL, frame + SPP_L_FRAME_PREVIOUS), &code);
        if (frame != 0) offset = instruction_offset(NULL, frame, code);
    }
    *more = frame != 0;
    return n;
}
