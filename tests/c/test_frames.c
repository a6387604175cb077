/* The walker on made-up memory (layout_313.h; some of it for 3.11 and 3.12): whatever the frames are, it gives a true stack, a
 * loss or a truncation; never a fault, never more than was asked for. */
#include <stdlib.h>
#include <string.h>
#if defined(_WIN32)
#include <windows.h>
#else
#include <sys/mman.h>
#endif

#include "check.h"
#include "core/capture/frames.h"
#include "invented.h"
#include "os/memory.h"
#include "py/layout.h"

#if SPP_L_CHAIN == 3
#define MEMORY (4u << 20)
#define DEEP 10000u
#define FRAME 88u /* a frame with two locals */

static uint8_t *memory, *pristine; /* tstate | codes | generators | C stack | old chunk | new chunk */
static uintptr_t tstate, codes, generators, stack, old_chunk, chunk, unmapped;
static uintptr_t stack_low, stack_end; /* 0: not known */

#if defined(_WIN32)
static void *unreadable(size_t n) { return VirtualAlloc(NULL, n, MEM_RESERVE, PAGE_NOACCESS); }
#else
static void *unreadable(size_t n) {
    void *at = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}
#endif

static void set_byte(uintptr_t at, uint8_t value) { *(uint8_t *)at = value; }

static uintptr_t code(uint32_t i) { return codes + i % 16 * 1024; }
static uintptr_t frame_at(uint32_t i) { return chunk + SPP_L_CHUNK_DATA + 8 + i * FRAME; } /* 0 is the root's */

static void make_frame(uintptr_t frame, uint32_t i, uintptr_t previous, uint8_t owner) {
    memset((void *)frame, 0, SPP_L_FRAME_SIZE);
    set(frame + SPP_L_FRAME_CODE, code(i));
    set(frame + SPP_L_FRAME_PREVIOUS, previous);
    set(frame + SPP_L_FRAME_INSTR, code(i) + SPP_L_CODE_BYTECODE + 2 * (i % 50));
    set_byte(frame + SPP_L_FRAME_OWNER, owner);
}

static void make_entry(uintptr_t frame, uintptr_t previous) {
    memset((void *)frame, 0, SPP_L_FRAME_SIZE);
    set(frame + SPP_L_FRAME_CODE, spp_py.none);
    set(frame + SPP_L_FRAME_PREVIOUS, previous);
    set_byte(frame + SPP_L_FRAME_OWNER, SPP_L_OWNER_ENTRY_MIN);
}

static void make_chunk(uintptr_t at, uintptr_t previous, uint64_t size, uint64_t top_words) {
    set(at + SPP_L_CHUNK_PREVIOUS, previous);
    set(at + SPP_L_CHUNK_SIZE, size);
    set(at + SPP_L_CHUNK_TOP, top_words);
}

/* `n` frames, one calling the next, all in one chunk. */
static void make_chain(uint32_t n) {
    memcpy(memory, pristine, MEMORY);
    make_chunk(chunk, 0, MEMORY / 2, 0);
    for (uint32_t i = 0; i < n; i++) make_frame(frame_at(i), i, i ? frame_at(i - 1) : 0, SPP_L_OWNED_BY_THREAD);
    set(tstate + SPP_L_TS_FRAME, frame_at(n - 1));
    set(tstate + SPP_L_TS_CHUNK, chunk);
    set(tstate + SPP_L_TS_TOP, frame_at(n));
}

static void set_up(void) {
    memory = spp_os_pages(MEMORY);
    pristine = malloc(MEMORY);
    void *hole = unreadable(1 << 16);
    CHECK(memory != NULL && hole != NULL);
    unmapped = (uintptr_t)hole + 4096;
    tstate = (uintptr_t)memory;
    codes = tstate + 4096;
    generators = codes + 16 * 1024;
    stack = generators + 65536;
    old_chunk = stack + 65536;
    chunk = old_chunk + 65536;
    stack_low = stack - 4096;
    stack_end = stack + 65536;
    invent_types(unmapped);
    for (uint32_t i = 0; i < 16; i++) {
        set(code(i) + SPP_L_OB_TYPE, spp_py.code_type);
        set(code(i) + SPP_L_OB_SIZE, 60); /* units: 120 bytes */
    }
    memcpy(pristine, memory, MEMORY);
}

static spp_frame found[SPP_DEPTH_MAX + 1];

static enum spp_loss walk(bool other, uint32_t max, uint32_t *depth, uint32_t *flags) {
    spp_walk w = {
        .tstate = tstate, .sp = stack, .stack_low = stack_low, .stack_end = stack_end, .epoch = 1, .out = found, .max = max};
    found[max] = 0x5afe; /* nothing is written behind the end */
    enum spp_loss loss = other ? spp_frames_other(&w) : spp_frames_own(&w);
    CHECK_EQUAL(found[max], 0x5afe);
    CHECK(w.depth <= max);
    *depth = w.depth;
    *flags = w.flags;
    return loss;
}

/* The same answer from inside and from outside. */
#define WALKS(max, loss_, depth_, marks_)                         \
    do {                                                          \
        for (int other = 0; other < 2; other++) {                 \
            uint32_t depth, flags;                                \
            CHECK_EQUAL(walk(other, max, &depth, &flags), loss_); \
            if ((loss_) != SPP_LOSS_NONE) continue;               \
            CHECK_EQUAL(depth, depth_);                           \
            CHECK_EQUAL(flags, marks_);                           \
        }                                                         \
    } while (0)

static void true_stacks(void) {
    make_chain(5);
    WALKS(512, SPP_LOSS_NONE, 5, 0);
    for (uint32_t i = 0; i < 5; i++) { /* leaf first */
        CHECK_EQUAL(spp_frame_code(found[i]), code(4 - i));
        CHECK_EQUAL(spp_frame_offset(found[i]), 2 * (4 - i));
    }
    /* An entry frame on the C stack is passed over. */
    make_entry(stack + 4096, frame_at(1));
    set(frame_at(2) + SPP_L_FRAME_PREVIOUS, stack + 4096);
    WALKS(512, SPP_LOSS_NONE, 5, 0);
    CHECK_EQUAL(spp_frame_code(found[3]), code(1));
    /* A generator's frame in the middle. */
    uintptr_t generator = generators + 256, frame = generator + SPP_L_GEN_IFRAME;
    set(generator + SPP_L_OB_TYPE, spp_py.gen_type);
    make_frame(frame, 9, frame_at(3), SPP_L_OWNED_BY_GENERATOR);
    set(frame_at(4) + SPP_L_FRAME_PREVIOUS, frame);
    WALKS(512, SPP_LOSS_NONE, 6, 0);
    CHECK_EQUAL(spp_frame_code(found[1]), code(9));
    /* No thread state, no frame. */
    make_chain(3);
    set(tstate + SPP_L_TS_FRAME, 0);
    WALKS(512, SPP_LOSS_NONE, 0, 0);
    /* Two chunks: the newer one's first frame calls back into the older one. */
    make_chain(3);
    uintptr_t first = old_chunk + SPP_L_CHUNK_DATA + 8;
    make_frame(first, 7, 0, SPP_L_OWNED_BY_THREAD);
    make_frame(first + FRAME, 8, first, SPP_L_OWNED_BY_THREAD);
    make_chunk(old_chunk, 0, 65536, (first + 2 * FRAME - old_chunk - SPP_L_CHUNK_DATA) / 8);
    set(chunk + SPP_L_CHUNK_PREVIOUS, old_chunk);
    set(frame_at(0) + SPP_L_FRAME_PREVIOUS, first + FRAME);
    WALKS(512, SPP_LOSS_NONE, 5, 0);
    CHECK_EQUAL(spp_frame_code(found[3]), code(8));
    CHECK_EQUAL(spp_frame_code(found[4]), code(7));
    /* Back to the newer chunk: no. */
    set(first + SPP_L_FRAME_PREVIOUS, frame_at(0));
    WALKS(512, SPP_LOSS_bad_generator, 0, 0);
    /* A chunk below the root in memory was just added, or is about to go: the thread's top lies in the root still. */
    make_chain(5);
    make_chunk(chunk, 0, MEMORY / 2, (frame_at(5) - chunk - SPP_L_CHUNK_DATA) / 8);
    make_chunk(old_chunk, chunk, 65536, 0);
    set(tstate + SPP_L_TS_CHUNK, old_chunk);
    WALKS(512, SPP_LOSS_NONE, 5, 0);
}

/* Where the stack ends is not known of a thread that was just found. An entry frame and a generator above its stack pointer are
 * distinguished by their own fields. */
static void unknown_stack(void) {
    stack_end = 0;
    make_chain(5);
    uintptr_t generator = old_chunk + 256, frame = generator + SPP_L_GEN_IFRAME;
    set(generator + SPP_L_OB_TYPE, spp_py.gen_type);
    make_frame(frame, 9, frame_at(3), SPP_L_OWNED_BY_GENERATOR);
    set(frame_at(4) + SPP_L_FRAME_PREVIOUS, frame);
    make_entry(stack + 4096, frame_at(1));
    set(frame_at(2) + SPP_L_FRAME_PREVIOUS, stack + 4096);
    WALKS(512, SPP_LOSS_NONE, 6, 0);
    CHECK_EQUAL(spp_frame_code(found[1]), code(9));
    set(stack + 4096 + SPP_L_FRAME_CODE, code(1)); /* neither */
    WALKS(512, SPP_LOSS_bad_generator, 0, 0);
    stack_end = stack + 65536;
}

/* A coroutine is on a C stack of its own, below the thread's or above, and was called from Python code on the thread's. */
static void other_stacks(void) {
    const uintptr_t others[] = {generators + 8192, old_chunk + 8192};
    for (size_t i = 0; i < 2; i++) {
        for (int is_known = 0; is_known < 2; is_known++) {
            stack_end = is_known ? stack + 65536 : 0;
            make_chain(5);
            make_entry(others[i], frame_at(2));
            make_entry(stack + 4096, frame_at(0));
            set(frame_at(3) + SPP_L_FRAME_PREVIOUS, others[i]);
            set(frame_at(1) + SPP_L_FRAME_PREVIOUS, stack + 4096);
            WALKS(512, SPP_LOSS_NONE, 5, 0);
            set(others[i] + SPP_L_FRAME_CODE, code(1)); /* it is none */
            WALKS(512, SPP_LOSS_bad_generator, 0, 0);
        }
    }
    /* What a call left on the thread's own stack that has returned. The thread itself is asked; of a blocked one all is true.
     */
    stack_end = stack + 65536;
    make_chain(5);
    make_entry(stack - 2048, frame_at(1));
    set(frame_at(2) + SPP_L_FRAME_PREVIOUS, stack - 2048);
    uint32_t depth, flags;
    CHECK_EQUAL(walk(false, 512, &depth, &flags), SPP_LOSS_bad_generator);
}

/* What compilers of Python (Nuitka) link: a frame in an object that names it, and that it names. */
static uintptr_t make_compiled(uintptr_t object, uint32_t i, uintptr_t previous, uint8_t owner) {
    uintptr_t frame = object + 104;
    memset((void *)object, 0, 104);
    make_frame(frame, i, previous, owner);
    set(frame + SPP_L_FRAME_OBJECT, object);
    set(object + SPP_L_OBJECT_FRAME, frame);
    return frame;
}

static void compiled_code(void) {
    static const uint8_t owners[] = {SPP_L_OWNED_BY_GENERATOR, SPP_L_OWNED_BY_OBJECT};
    uintptr_t object = generators + 4096 - 56, frame; /* it crosses a page */
    for (size_t i = 0; i < 2; i++) {
        /* At the leaf; then called by the interpreter's frames, and calling some, by way of an evaluator. */
        make_chain(5);
        frame = make_compiled(object, 9, frame_at(4), owners[i]);
        set(tstate + SPP_L_TS_FRAME, frame);
        WALKS(512, SPP_LOSS_NONE, 6, 0);
        CHECK_EQUAL(spp_frame_code(found[0]), code(9));
        make_chain(5);
        frame = make_compiled(object, 9, frame_at(2), owners[i]);
        make_entry(stack + 4096, frame);
        set(frame_at(3) + SPP_L_FRAME_PREVIOUS, stack + 4096);
        WALKS(512, SPP_LOSS_NONE, 6, 0);
        CHECK_EQUAL(spp_frame_code(found[2]), code(9));
        /* It is the first of its thread: the interpreter's frames are above it, or there are none. */
        make_chain(3);
        frame = make_compiled(object, 9, 0, owners[i]);
        set(frame_at(0) + SPP_L_FRAME_PREVIOUS, frame);
        WALKS(512, SPP_LOSS_NONE, 4, 0);
        make_chain(1);
        set(tstate + SPP_L_TS_CHUNK, 0);
        frame = make_compiled(object, 9, 0, owners[i]);
        set(tstate + SPP_L_TS_FRAME, frame);
        WALKS(512, SPP_LOSS_NONE, 1, 0);
        /* Linked before its caller was written in it. */
        make_chain(5);
        frame = make_compiled(object, 9, 0, owners[i]);
        set(tstate + SPP_L_TS_FRAME, frame);
        WALKS(512, SPP_LOSS_bad_generator, 0, 0);
        /* Of another owner, of another object, far from its own, without code. */
        make_chain(5);
        frame = make_compiled(object, 9, frame_at(4), owners[i]);
        set(tstate + SPP_L_TS_FRAME, frame);
        set_byte(frame + SPP_L_FRAME_OWNER, SPP_L_OWNED_BY_THREAD);
        WALKS(512, SPP_LOSS_bad_generator, 0, 0);
        set_byte(frame + SPP_L_FRAME_OWNER, owners[i]);
        set(object + SPP_L_OBJECT_FRAME, frame + 8);
        WALKS(512, SPP_LOSS_bad_generator, 0, 0);
        set(object + SPP_L_OBJECT_FRAME, frame);
        set(frame + SPP_L_FRAME_CODE, code(9) + 8);
        WALKS(512, SPP_LOSS_bad_code, 0, 0);
        set(frame + SPP_L_FRAME_CODE, code(9));
        const uintptr_t others[] = {0, unmapped, object + 4, frame, frame + 8, object - 256};
        for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
            set(frame + SPP_L_FRAME_OBJECT, others[k]);
            WALKS(512, SPP_LOSS_bad_generator, 0, 0);
        }
    }
    /* A generator that is being left has no caller, whatever object may name its frame. */
    make_chain(3);
    uintptr_t generator = generators + 512;
    frame = generator + SPP_L_GEN_IFRAME;
    set(generator + SPP_L_OB_TYPE, spp_py.gen_type);
    make_frame(frame, 9, 0, SPP_L_OWNED_BY_GENERATOR);
    set(frame + SPP_L_FRAME_OBJECT, generator - 64);
    set(generator - 64 + SPP_L_OBJECT_FRAME, frame);
    set(frame_at(0) + SPP_L_FRAME_PREVIOUS, frame);
    WALKS(512, SPP_LOSS_bad_generator, 0, 0);
}

static void deep_stacks(void) {
    make_chain(DEEP);
    WALKS(512, SPP_LOSS_NONE, 512, SPP_SAMPLE_TRUNCATED);
    WALKS(SPP_DEPTH_MAX, SPP_LOSS_NONE, SPP_DEPTH_MAX, SPP_SAMPLE_TRUNCATED);
    CHECK_EQUAL(spp_frame_code(found[0]), code(DEEP - 1));
    WALKS(1, SPP_LOSS_NONE, 1, SPP_SAMPLE_TRUNCATED);
    make_chain(512);
    WALKS(512, SPP_LOSS_NONE, 512, 0); /* just fits */
    /* The root part is missing: the last frame is not the first of the chunk. */
    make_chain(5);
    set(frame_at(2) + SPP_L_FRAME_PREVIOUS, 0);
    WALKS(512, SPP_LOSS_NONE, 3, SPP_SAMPLE_TRUNCATED);
}

static void cycles(void) {
    make_chain(5);
    set(frame_at(2) + SPP_L_FRAME_PREVIOUS, frame_at(2));
    WALKS(512, SPP_LOSS_bad_order, 0, 0);
    make_chain(5);
    set(frame_at(1) + SPP_L_FRAME_PREVIOUS, frame_at(3));
    WALKS(512, SPP_LOSS_bad_order, 0, 0);
    /* An entry frame, and a generator, that is its own caller: cut after a bounded time. */
    make_chain(5);
    make_entry(stack + 64, stack + 64);
    set(frame_at(2) + SPP_L_FRAME_PREVIOUS, stack + 64);
    WALKS(512, SPP_LOSS_NONE, 3, SPP_SAMPLE_TRUNCATED);
    make_chain(5);
    uintptr_t generator = generators + 512, frame = generator + SPP_L_GEN_IFRAME;
    set(generator + SPP_L_OB_TYPE, spp_py.coro_type);
    make_frame(frame, 3, frame, SPP_L_OWNED_BY_GENERATOR);
    set(tstate + SPP_L_TS_FRAME, frame);
    WALKS(512, SPP_LOSS_NONE, 512, SPP_SAMPLE_TRUNCATED);
    /* Chunks in a ring. */
    make_chain(5);
    make_chunk(chunk, old_chunk, MEMORY / 2, 0);
    make_chunk(old_chunk, chunk, 65536, 0);
    set(frame_at(0) + SPP_L_FRAME_PREVIOUS, generators + 8192);
    WALKS(512, SPP_LOSS_bad_generator, 0, 0);
}

static void broken_frames(void) {
    for (uint32_t bit = 0; bit < 3; bit++) {
        make_chain(5);
        set(tstate + SPP_L_TS_FRAME, frame_at(4) | 1u << bit); /* misaligned, or tagged */
        WALKS(512, SPP_LOSS_bad_frame, 0, 0);
        make_chain(5);
        set(frame_at(2) + SPP_L_FRAME_PREVIOUS, frame_at(1) | 1u << bit);
        WALKS(512, SPP_LOSS_bad_frame, 0, 0);
        make_chain(5);
        set(frame_at(2) + SPP_L_FRAME_CODE, code(2) | 1u << bit); /* 3.14 and later tag their code pointers, with two bits */
        int loss = 1u << bit & ~SPP_L_FRAME_CODE_MASK ? SPP_LOSS_NONE : SPP_LOSS_bad_code;
        WALKS(512, loss, 5, 0);
        if (loss == SPP_LOSS_NONE) CHECK_EQUAL(spp_frame_code(found[2]), code(2));
    }
    make_chain(5);
    set_byte(frame_at(3) + SPP_L_FRAME_OWNER, SPP_L_OWNED_BY_GENERATOR);
    WALKS(512, SPP_LOSS_bad_owner, 0, 0);
    make_chain(5);
    set(frame_at(3) + SPP_L_FRAME_CODE, 0);
    WALKS(512, SPP_LOSS_bad_code, 0, 0);
    make_chain(5);
    set(code(2) + SPP_L_OB_TYPE, spp_py.gen_type);
    WALKS(512, SPP_LOSS_bad_code, 0, 0);
    make_chain(5);
    set(frame_at(4) + SPP_L_FRAME_INSTR, code(4) + SPP_L_CODE_BYTECODE + 120); /* just behind the last instruction */
    WALKS(512, SPP_LOSS_bad_offset, 0, 0);
    set(frame_at(4) + SPP_L_FRAME_INSTR, code(4) + SPP_L_CODE_BYTECODE + 118);
    WALKS(512, SPP_LOSS_NONE, 5, 0);
    set(frame_at(4) + SPP_L_FRAME_INSTR, code(4) + SPP_L_CODE_BYTECODE - 4);
    WALKS(512, SPP_LOSS_bad_offset, 0, 0);
    /* An entry frame that holds a code object is none. */
    make_chain(5);
    make_entry(stack + 64, frame_at(1));
    set(stack + 64 + SPP_L_FRAME_CODE, code(1));
    set(frame_at(2) + SPP_L_FRAME_PREVIOUS, stack + 64);
    WALKS(512, SPP_LOSS_bad_owner, 0, 0);
    /* A generator that is none. */
    make_chain(5);
    make_frame(generators + 256 + SPP_L_GEN_IFRAME, 3, 0, SPP_L_OWNED_BY_GENERATOR);
    set(tstate + SPP_L_TS_FRAME, generators + 256 + SPP_L_GEN_IFRAME);
    WALKS(512, SPP_LOSS_bad_generator, 0, 0);
}

/* Addresses at which nothing is. The first frame is read by the handler only after it was probed; further ones were linked by
 * a frame that held, so 3.13+ trusts them: those only from outside. */
static void unmapped_frames(void) {
    static const uintptr_t beyond[] = {0, 8, 4096};
    for (size_t i = 0; i < 3; i++) {
        make_chain(5);
        set(tstate + SPP_L_TS_FRAME, unmapped + beyond[i]);
        WALKS(512, SPP_LOSS_bad_generator, 0, 0);
        make_chain(5);
        set(tstate + SPP_L_TS_FRAME, 8 + beyond[i]); /* the first page */
        WALKS(512, SPP_LOSS_bad_generator, 0, 0);
        uint32_t depth, flags;
        make_chain(5);
        set(frame_at(2) + SPP_L_FRAME_PREVIOUS, unmapped + beyond[i]);
        CHECK(walk(true, 512, &depth, &flags) != SPP_LOSS_NONE);
        make_chain(5);
        set(frame_at(2) + SPP_L_FRAME_CODE, unmapped + beyond[i]);
        CHECK(walk(true, 512, &depth, &flags) != SPP_LOSS_NONE);
        make_chain(5);
        set(tstate + SPP_L_TS_CHUNK, unmapped + beyond[i]);
        CHECK(walk(true, 512, &depth, &flags) != SPP_LOSS_NONE);
    }
    spp_walk w = {.tstate = unmapped, .out = found, .max = 512};
    CHECK(spp_frames_other(&w) != SPP_LOSS_NONE);
}

/* Any field becomes any plausible or implausible value: only ever a loss or a bounded stack. */
static void anything(void) {
    unsigned long long random = 11;
    for (int round = 0; round < 20000; round++) {
        make_frame(frame_at(0), 0, 0, SPP_L_OWNED_BY_THREAD);
        if (round % 16 == 0) {
            make_chain(8);
            make_entry(stack + 512, frame_at(2));
            set(frame_at(3) + SPP_L_FRAME_PREVIOUS, stack + 512);
        }
        const uintptr_t values[] = {0,
                                    1,
                                    8,
                                    unmapped,
                                    unmapped - 4,
                                    frame_at(0),
                                    frame_at(5),
                                    frame_at(7) + 4,
                                    stack + 512,
                                    generators + 72,
                                    chunk,
                                    old_chunk,
                                    code(1),
                                    spp_py.none,
                                    UINTPTR_MAX,
                                    UINTPTR_MAX - 7,
                                    1ull << 63};
        const uintptr_t fields[] = {tstate + SPP_L_TS_FRAME,         tstate + SPP_L_TS_CHUNK,
                                    tstate + SPP_L_TS_TOP,           chunk + SPP_L_CHUNK_PREVIOUS,
                                    chunk + SPP_L_CHUNK_TOP,         frame_at(4) + SPP_L_FRAME_PREVIOUS,
                                    frame_at(6) + SPP_L_FRAME_CODE,  frame_at(7) + SPP_L_FRAME_INSTR,
                                    frame_at(3) + SPP_L_FRAME_OWNER, stack + 512 + SPP_L_FRAME_PREVIOUS,
                                    code(3) + SPP_L_OB_SIZE,         code(5) + SPP_L_OB_TYPE};
        uint64_t value = values[check_random(&random) % (sizeof values / sizeof *values)];
        uintptr_t field = fields[check_random(&random) % (sizeof fields / sizeof *fields)];
        if (field % 8) {
            set_byte(field, (uint8_t)value);
        } else {
            set(field, value);
        }
        uint32_t depth, flags;
        enum spp_loss loss = walk(true, 512, &depth, &flags);
        CHECK(loss == SPP_LOSS_NONE || (loss >= 0 && loss <= SPP_LOSS_LAST_VALIDATION));
        for (uint32_t i = 0; loss == SPP_LOSS_NONE && i < depth; i++)
            CHECK(spp_frame_code(found[i]) % 8 == 0 && spp_frame_code(found[i]) != 0);
    }
}

int main(void) {
    CHECK_EQUAL(spp_os_memory_init(), 0);
    set_up();
    true_stacks();
    unknown_stack();
    other_stacks();
    compiled_code();
    deep_stacks();
    cycles();
    broken_frames();
    unmapped_frames();
    anything();
    free(pristine);
    return check_done();
}
#elif SPP_L_CHAIN == 2
/* 3.11 and 3.12: what a walk makes of a frame that is linked before its caller is written in it. */
#define MEMORY (1u << 20)

static uintptr_t tstate, interp, code, trampoline, cframe, entries, root, newest, outer, inner;

static void set_half(uintptr_t at, int32_t value) { memcpy((void *)at, &value, sizeof value); }

/* `waits`: for a frame that its own evaluator runs; else it runs, C code perhaps. `first`: the first of its evaluator. */
static void make_frame(uintptr_t frame, uintptr_t of, uintptr_t previous, uint8_t owner, bool waits, bool first) {
    set(frame + SPP_L_FRAME_CODE, of);
    set(frame + SPP_L_FRAME_INSTR, of + SPP_L_CODE_BYTECODE);
    *(uint8_t *)(frame + SPP_L_FRAME_OWNER) = owner;
    set_half(frame + SPP_L_FRAME_STACKTOP, waits ? 2 : -1);
#if SPP_L_FRAME_IS_ENTRY >= 0
    *(uint8_t *)(frame + SPP_L_FRAME_IS_ENTRY) = first;
    set(frame + SPP_L_FRAME_PREVIOUS, previous);
#else
    uintptr_t entry = entries; /* 3.12: on the C stack, between it and its caller */
    if (first) {
        entries += 256;
        make_frame(entry, trampoline, previous, SPP_L_OWNER_ENTRY_MIN, true, false);
    }
    set(frame + SPP_L_FRAME_PREVIOUS, first ? entry : previous);
#endif
}

static void make_generator(uintptr_t frame) { set(frame - SPP_L_GEN_IFRAME + SPP_L_OB_TYPE, spp_py.gen_type); }

static void set_up(void) {
    void *memory = spp_os_pages(MEMORY);
    CHECK(memory != NULL);
    tstate = (uintptr_t)memory;
    code = tstate + 4096;
    trampoline = code + 1024;
    cframe = tstate + 8192; /* the C stack: 8 KiB */
    entries = cframe + 1024;
    uintptr_t chunk = cframe + 8192;
    root = chunk + SPP_L_CHUNK_DATA + 8;
    newest = root + 128;
    outer = chunk + 8192 + SPP_L_GEN_IFRAME;
    inner = outer + 1024;
    interp = chunk + 16384;
    invent_types(tstate + MEMORY);
    set(code + SPP_L_OB_TYPE, spp_py.code_type);
    set(code + SPP_L_OB_SIZE, 60);
#if SPP_L_INTERP_TRAMPOLINE >= 0
    set(interp + SPP_L_INTERP_TRAMPOLINE, trampoline);
#endif
    set(tstate + SPP_L_TS_INTERP, interp);
    set(tstate + SPP_L_TS_FRAME, cframe);
    set(chunk + SPP_L_CHUNK_SIZE, 8192);
    set(tstate + SPP_L_TS_CHUNK, chunk);
    set(tstate + SPP_L_TS_TOP, newest + 128);
    set(cframe + SPP_L_CFRAME_CURRENT, newest);
    /* A function sends to a generator, that to another, and that one calls a function. */
    make_frame(root, code, 0, SPP_L_OWNED_BY_THREAD, false, true);
    make_frame(outer, code, root, SPP_L_OWNED_BY_GENERATOR, false, true);
    make_frame(inner, code, outer, SPP_L_OWNED_BY_GENERATOR, true, true);
    make_generator(outer);
    make_generator(inner);
}

/* The same answer from inside and from outside. */
static void walks_with(enum spp_loss loss, uint32_t depth, uint32_t flags) {
    spp_frame found[16];
    for (int other = 0; other < 2; other++) {
        spp_walk w = {.tstate = tstate, .sp = cframe, .stack_end = cframe + 8192, .epoch = 1, .out = found, .max = 16};
        CHECK_EQUAL(other ? spp_frames_other(&w) : spp_frames_own(&w), loss);
        CHECK_EQUAL(w.flags, flags);
        if (loss == SPP_LOSS_NONE) CHECK_EQUAL(w.depth, depth);
    }
}

static void walks(enum spp_loss loss, uint32_t depth) { walks_with(loss, depth, 0); }

int main(void) {
    CHECK_EQUAL(spp_os_memory_init(), 0);
    set_up();
    make_frame(newest, code, inner, SPP_L_OWNED_BY_THREAD, false, false);
    walks(SPP_LOSS_NONE, 4);
    /* The previous caller at that place is still there, and lives; or nobody did. */
    make_frame(newest, code, outer, SPP_L_OWNED_BY_THREAD, false, false);
    walks(SPP_LOSS_bad_order, 0);
    make_frame(newest, code, 0, SPP_L_OWNED_BY_THREAD, false, false);
    walks(SPP_LOSS_bad_order, 0);
    /* C code, which the outer generator runs, called it. */
    make_frame(newest, code, outer, SPP_L_OWNED_BY_THREAD, false, true);
    walks(SPP_LOSS_NONE, 3);
    /* The outer generator is the newest: C code ended the inner one (3.12's gen.throw). */
    set(cframe + SPP_L_CFRAME_CURRENT, outer);
    walks(SPP_LOSS_NONE, 2);
    /* A compiler's frame (Nuitka) called by the root, and calling a function. */
    uintptr_t object = outer + 4096, compiled = object + 104;
    make_frame(compiled, code, root, SPP_L_OWNED_BY_GENERATOR, false, false);
    set(compiled + SPP_L_FRAME_OBJECT, object);
    set(object + SPP_L_OBJECT_FRAME, compiled);
    make_frame(newest, code, compiled, SPP_L_OWNED_BY_THREAD, false, true);
    set(cframe + SPP_L_CFRAME_CURRENT, newest);
    walks(SPP_LOSS_NONE, 3);
    set(object + SPP_L_OBJECT_FRAME, newest);
    walks(SPP_LOSS_bad_generator, 0);
    make_frame(newest, code, outer, SPP_L_OWNED_BY_THREAD, false, true);
#if SPP_L_FRAME_IS_ENTRY >= 0
    /* Nobody called the generator: C code resumes it in a thread that runs no Python code. It calls a function. */
    uintptr_t first = tstate + SPP_L_TS_SIZE - 24, state = outer - SPP_L_GEN_IFRAME + SPP_L_GEN_STATE;
    make_frame(outer, code, 0, SPP_L_OWNED_BY_GENERATOR, true, true);
    make_frame(newest, code, outer, SPP_L_OWNED_BY_THREAD, false, false);
    set(cframe + SPP_L_CFRAME_CURRENT, newest);
    set(cframe + SPP_L_CFRAME_PREVIOUS, first);
    *(int8_t *)state = SPP_L_GEN_EXECUTING;
    walks_with(SPP_LOSS_NONE, 2, SPP_SAMPLE_TRUNCATED);
    /* It has ended: the caller at that place is the function that such a thread runs now, and is not written yet. */
    *(int8_t *)state = SPP_L_GEN_EXECUTING + 1;
    walks(SPP_LOSS_bad_generator, 0);
#endif
    return check_done();
}
#else
/* 3.9 and 3.10: frame objects, of the interpreter and of compilers. */
static void make_frame(uintptr_t frame, uintptr_t type, uintptr_t code, uintptr_t previous) {
    set(frame + SPP_L_OB_TYPE, type);
    set(frame + SPP_L_FRAME_CODE, code);
    set(frame + SPP_L_FRAME_PREVIOUS, previous);
}

int main(void) {
    CHECK_EQUAL(spp_os_memory_init(), 0);
    void *memory = spp_os_pages(1u << 16);
    CHECK(memory != NULL);
    uintptr_t tstate = (uintptr_t)memory, code = tstate + 4096, root = tstate + 8192, compiled = root + 1024;
    uintptr_t leaf = compiled + 1024, unmapped = tstate + (1u << 16);
    invent_types(unmapped);
    set(code + SPP_L_OB_TYPE, spp_py.code_type);
    set(tstate + SPP_L_TS_FRAME, leaf);
    make_frame(root, spp_py.frame_type, code, 0);
    make_frame(leaf, spp_py.frame_type, code, compiled);
    const struct {
        uintptr_t type, code;
        enum spp_loss loss;
    } cases[] = {
        {spp_py.frame_type, code, SPP_LOSS_NONE},      {unmapped + 64, code, SPP_LOSS_NONE}, /* a compiler's type */
        {unmapped + 64, unmapped, SPP_LOSS_bad_frame}, {unmapped + 64, root, SPP_LOSS_bad_frame},
        {spp_py.frame_type, root, SPP_LOSS_bad_code},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make_frame(compiled, cases[i].type, cases[i].code, root);
        for (int other = 0; other < 2; other++) {
            spp_frame found[16];
            spp_walk w = {.tstate = tstate, .epoch = 1, .out = found, .max = 16};
            CHECK_EQUAL(other ? spp_frames_other(&w) : spp_frames_own(&w), cases[i].loss);
            if (cases[i].loss == SPP_LOSS_NONE) CHECK_EQUAL(w.depth, 3);
        }
    }
    return check_done();
}
#endif
