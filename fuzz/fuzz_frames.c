/* libFuzzer target: the frame walker over synthetic memory, from inside and from outside. Input: how deep the walk may go, then
 * writes of 4 bytes each, where (2), what (1), which (1), onto a sound chain of two frames. Whatever the memory holds, the walk
 * ends, stays within its bounds, reads nothing unmapped, and gives only what is a code object by the rules of frames.h. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/capture/frames.h"
#include "invented.h"
#include "os/memory.h"
#include "py/layout.h"

#define SIZE (1u << 18)
#define CODES 16u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static uint8_t *memory;
static uintptr_t tstate, codes, stack, chunk, old_chunk, unmapped;
static uint32_t max;
static spp_frame found[2][SPP_DEPTH_MAX + 1];

static uint64_t get(uintptr_t at) {
    uint64_t value;
    memcpy(&value, (const void *)at, sizeof value);
    return value;
}

static void set_up(void) {
    if (spp_os_memory_init() != 0) abort();
    /* Unmapped pages on both sides. */
    uint8_t *all = mmap(NULL, SIZE + 65536, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED || mprotect(all + 32768, SIZE, PROT_READ | PROT_WRITE) != 0) abort();
    memory = all + 32768;
    unmapped = (uintptr_t)all + 4096;
    tstate = (uintptr_t)memory;
    codes = tstate + 8192;
    stack = codes + 16384;
    old_chunk = stack + 65536;
    chunk = old_chunk + 65536;
    invent_types(unmapped);
}

/* What a write puts down: numbers, types, and addresses of every kind. */
static uint64_t value(uint8_t what, uint8_t which) {
    switch (what % 16) {
    case 0: return which;
    case 1: return (uint64_t) - (int64_t)which;
    case 2: return tstate + 8u * which;
    case 3: return codes + 1024u * (which % CODES);
    case 4: return codes + 1024u * (which % CODES) + which / 16u; /* tagged or misaligned */
    case 5: return stack + 64u * which;
    case 6: return chunk + 64u * which;
    case 7: return old_chunk + 64u * which;
    case 8: return chunk + 8u * which + 65536u - 2048u; /* around the end of what is mapped */
    case 9: return unmapped + 8u * which;
    case 10: return spp_py.code_type + 8u * (which % 6u);
    case 11: return (uint64_t)which << 56 | codes;
    case 12: return (uint64_t)which << 40;
    case 13: return tstate + SIZE - 8u * which;
    case 14: return chunk + SPP_L_CHUNK_DATA + 8u * which;
    default: return UINT64_MAX - which;
    }
}

static void sound_chain(void) {
    memset(memory, 0, SIZE);
    for (uint32_t i = 0; i < CODES; i++) {
        set(codes + 1024 * i + SPP_L_OB_TYPE, spp_py.code_type);
        set(codes + 1024 * i + SPP_L_OB_SIZE, 60);
    }
    uintptr_t newest = chunk + 8 + SPP_L_CHUNK_DATA + 512, root = chunk + 8 + SPP_L_CHUNK_DATA;
    for (int i = 0; i < 2; i++) {
        uintptr_t frame = i ? root : newest;
        set(frame + SPP_L_FRAME_CODE, codes + 1024u * (uint32_t)i);
        set(frame + SPP_L_FRAME_PREVIOUS, i ? 0 : root);
        if (SPP_L_CHAIN == 1) {
            set(frame + SPP_L_OB_TYPE, spp_py.frame_type);
        } else {
            set(frame + SPP_L_FRAME_INSTR, codes + 1024u * (uint32_t)i + (uint64_t)SPP_L_CODE_BYTECODE + 4);
        }
    }
#if SPP_L_CHAIN != 1
    set(tstate + (uintptr_t)SPP_L_TS_CHUNK, chunk);
    set(tstate + (uintptr_t)SPP_L_TS_TOP, newest + 512);
    set(chunk + SPP_L_CHUNK_PREVIOUS, old_chunk);
    set(old_chunk + SPP_L_CHUNK_TOP, 512);
#endif
    if (SPP_L_CHAIN == 2) {
        set(tstate + SPP_L_TS_FRAME, stack + 1024);
        set(stack + 1024 + (uintptr_t)SPP_L_CFRAME_CURRENT, newest);
    } else {
        set(tstate + SPP_L_TS_FRAME, newest);
    }
}

static spp_walk walk(int number) {
    found[number][max] = 0x5afe;
    return (spp_walk){.tstate = tstate, .sp = stack, .stack_end = stack + 65536, .epoch = 1, .out = found[number], .max = max};
}

/* Whether the thread's list of chunks is one that the interpreter could have made: each in memory, and ending. */
static bool own_chunks(void) {
#if SPP_L_CHAIN != 1
    uint64_t at = get(tstate + (uintptr_t)SPP_L_TS_CHUNK);
    for (int n = 0; at != 0; n++) {
        if (n == 8 || (at & 7) || at < tstate || at > tstate + SIZE - 64) return false;
        at = get(at + SPP_L_CHUNK_PREVIOUS);
    }
#endif
    return true;
}

static void check(const spp_walk *w, enum spp_loss loss) {
    if (w->out[max] != 0x5afe || w->depth > max || (loss != SPP_LOSS_NONE && (unsigned)loss >= SPP_LOSS_COUNT)) abort();
    for (uint32_t i = 0; loss == SPP_LOSS_NONE && i < w->depth; i++) {
        uintptr_t code = spp_frame_code(w->out[i]);
        if ((code & 7) || code < tstate || code >= tstate + SIZE || get(code + SPP_L_OB_TYPE) != spp_py.code_type) abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (memory == NULL) set_up();
    if (n < 1) return 0;
    sound_chain();
    max = 1u + data[0];
    for (size_t i = 1; i + 4 <= n; i += 4) {
        uint32_t where = (data[i] | (uint32_t)data[i + 1] << 8) * 4u; /* every 4 bytes of the memory */
        if (where + 8 <= SIZE) set(tstate + where, value(data[i + 2], data[i + 3]));
    }
    /* From outside first: that walk may meet anything. The one in place trusts what a thread's own frames and chunks point to, as
     * it may on its own thread, so it runs where the other found nothing wrong, and then sees the same. */
    spp_walk outside = walk(0), inside;
    enum spp_loss loss = spp_frames_other(&outside);
    check(&outside, loss);
    if (loss != SPP_LOSS_NONE || !own_chunks()) return 0;
    inside = walk(1);
    loss = spp_frames_own(&inside);
    check(&inside, loss);
    if (loss == SPP_LOSS_NONE && (inside.depth != outside.depth || inside.flags != outside.flags)) abort();
    if (loss == SPP_LOSS_NONE && memcmp(found[0], found[1], inside.depth * sizeof(spp_frame)) != 0) abort();
    return 0;
}
