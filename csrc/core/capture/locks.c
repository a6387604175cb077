#include "core/capture/locks.h"

#include <string.h>

#include "core/capture/copies.h"
#include "core/capture/frames.h"
#include "os/memory.h"
#include "py/layout.h"

#define DEPTH_MOST 512u          /* frames, from the leaf, whose blocks are looked at */
#define VALUES_MOST 64u          /* of a frame */
#define BLOCKS_MOST 20           /* CO_MAXBLOCKS */
#define TABLE_MOST 8192u         /* bytes of a code object's table */
#define UNTAGGED (~(uintptr_t)7) /* of a reference; an address has none of these bits */
#define LOCKED_AND_AWAITED 3u    /* the bits of a PyMutex */

spp_lock_rules spp_lock_rule;

static spp_copies pages; /* the sampler's */

static void forget_pages(void) {
    memset(pages.page, 0, sizeof pages.page);
    pages.next = 0;
}

/* 0: it cannot be read. */
static uintptr_t word(uintptr_t at) {
    uintptr_t value = 0;
    const uint8_t *copy = spp_copies_at(&pages, at, sizeof value);
    if (copy != NULL) memcpy(&value, copy, sizeof value);
    return value;
}

static int32_t half(uintptr_t at) {
    int32_t value = 0;
    const uint8_t *copy = spp_copies_at(&pages, at, sizeof value);
    if (copy != NULL) memcpy(&value, copy, sizeof value);
    return value;
}

static uint8_t byte(uintptr_t at) {
    const uint8_t *copy = spp_copies_at(&pages, at, 1);
    return copy != NULL ? *copy : 0;
}

/* The lock that a value is or is a method of; 0: neither. */
static uintptr_t lock_of(uintptr_t value) {
    uintptr_t type = value != 0 ? word(value + SPP_L_OB_TYPE) : 0;
    if (type != 0 && type == spp_lock_rule.builtin) {
        value = word(value + spp_lock_rule.self);
        type = value != 0 ? word(value + SPP_L_OB_TYPE) : 0;
    }
    return type != 0 && (type == spp_lock_rule.lock || type == spp_lock_rule.rlock) ? value : 0;
}

static uintptr_t key_of(uintptr_t lock) {
    bool is_rlock = word(lock + SPP_L_OB_TYPE) == spp_lock_rule.rlock;
    bool is_mutex = is_rlock ? spp_lock_rule.rlock_is_mutex : spp_lock_rule.lock_is_mutex;
    return is_mutex ? lock + spp_lock_rule.first : word(lock + spp_lock_rule.first);
}

/* ---- the values of a frame */

static uintptr_t values_of(uintptr_t frame, uintptr_t code) {
    if (SPP_L_CHAIN == 1) return word(frame + spp_lock_rule.stack);
    int32_t n = half(code + spp_lock_rule.nlocalsplus);
    return frame + SPP_L_FRAME_SIZE + 8u * (uintptr_t)(n > 0 ? n : 0);
}

/* A number of a table of exceptions, and *at moves behind it. */
static uint32_t number(uintptr_t *at, uintptr_t end) {
    uint32_t value = 0;
    while (*at < end) {
        uint8_t next = byte((*at)++);
        value = value << 6 | (next & 63u);
        if (!(next & 64u)) break;
    }
    return value;
}

/* How many values are on the stack at least: where an exception would be caught, so many are left. */
static uint32_t kept_by_table(uintptr_t code, uint32_t unit) {
    uintptr_t table = word(code + spp_lock_rule.exceptions), size = table != 0 ? word(table + SPP_L_OB_SIZE) : 0;
    uintptr_t at = table + SPP_L_BYTES_DATA, end = at + (size < TABLE_MOST ? size : 0);
    while (at < end) {
        uint32_t start = number(&at, end), length = number(&at, end);
        (void)number(&at, end); /* where it is caught */
        uint32_t depth = number(&at, end);
        if (start > unit) break; /* they are in order */
        if (unit < start + length) return depth >> 1;
    }
    return 0;
}

static uint32_t kept_by_blocks(uintptr_t frame) {
    int32_t n = half(frame + spp_lock_rule.block), depth = 0;
    for (int32_t i = 0; i < n && i < BLOCKS_MOST; i++) {
        int32_t level = half(frame + spp_lock_rule.blocks + (uintptr_t)i * spp_lock_rule.block_bytes + spp_lock_rule.block_level);
        if (level > depth) depth = level;
    }
    return (uint32_t)depth;
}

/* ---- Condition.wait: the lock of the block around it is released meanwhile */

static bool ends_with(uintptr_t text, const char *end, bool whole) {
    size_t n = strlen(end), length = text != 0 ? word(text + SPP_L_STR_LENGTH) : 0;
    if (length < n || (whole && length != n) || !((uint32_t)half(text + SPP_L_STR_STATE) >> SPP_L_STR_ASCII_BIT & 1u))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (byte(text + SPP_L_STR_ASCII_DATA + length - n + i) != (uint8_t)end[i]) return false;
    }
    return true;
}

static bool is_condition_wait(uintptr_t code) {
    return ends_with(word(code + SPP_L_CODE_NAME), "wait", true) &&
           ends_with(word(code + SPP_L_CODE_FILENAME), "threading.py", false);
}

/* Appends the keys of a frame's locks, the innermost first, to n others. *released: those of the innermost block that is one of a
 * lock or of a method in Python are left out; it is false then. */
static uint32_t add_keys(uintptr_t frame, uintptr_t code, uint32_t unit, bool *released, uintptr_t *keys, uint32_t n) {
    uint32_t kept = SPP_L_CHAIN == 1 ? kept_by_blocks(frame) : kept_by_table(code, unit);
    uintptr_t values = kept != 0 ? values_of(frame, code) : 0, left_out = 0;
    for (uint32_t i = kept < VALUES_MOST ? kept : VALUES_MOST; i-- > 0 && n < SPP_LOCKS_MOST;) {
        uintptr_t value = word(values + 8u * i) & UNTAGGED, lock = lock_of(value);
        uintptr_t type = *released && lock == 0 && value != 0 ? word(value + SPP_L_OB_TYPE) : 0;
        if (*released && lock != 0) left_out = lock;
        if (lock != 0 || (type != 0 && (type == spp_lock_rule.method || type == spp_lock_rule.function))) *released = false;
        if (lock != 0 && lock != left_out) keys[n++] = key_of(lock);
    }
    return n;
}

uint32_t spp_locks_entered(uintptr_t tstate, uintptr_t keys[SPP_LOCKS_MOST]) {
    static spp_frame frames[DEPTH_MOST];
    static uintptr_t at[DEPTH_MOST];
    spp_walk walk = {.tstate = tstate, .out = frames, .at = at, .max = DEPTH_MOST};
    uint32_t n = 0;
    bool released = false;
    if (spp_frames_other(&walk) != SPP_LOSS_NONE) return SPP_LOCKS_UNREADABLE;
    forget_pages();
    for (uint32_t i = 0; i < walk.depth && n < SPP_LOCKS_MOST; i++) {
        uintptr_t code = spp_frame_code(frames[i]), again, before = n;
        uint32_t unit = (uint32_t)frames[i] & SPP_NO_OFFSET;   /* of bytecode, two bytes each */
        if (i < 2 && is_condition_wait(code)) released = true; /* or it takes the lock again, by a function of its own */
        n = add_keys(at[i], code, unit, &released, keys, n);
        /* If the frame has ended, another one may be there. */
        if (n != before && (spp_os_read(&again, at[i] + SPP_L_FRAME_CODE, sizeof again) != 0 ||
                            (again & (uintptr_t)SPP_L_FRAME_CODE_MASK) != code))
            return SPP_LOCKS_UNREADABLE;
    }
    return n;
}

/* ---- what a thread waits for */

/* A thread that waits for a mutex waits at a semaphore on its own stack. In struct wait_entry (Python/parking_lot.c) the mutex is
 * the word before that. */
static uintptr_t mutex_of(uintptr_t futex) {
    uintptr_t mutex;
    uint8_t bits;
    bool is = spp_os_read(&mutex, futex - sizeof mutex, sizeof mutex) == 0 && spp_os_read(&bits, mutex, sizeof bits) == 0 &&
              (bits & LOCKED_AND_AWAITED) == LOCKED_AND_AWAITED;
    return is ? mutex : futex;
}

/* An RLock with a semaphore, which has this key: searched among the values of the leaf, which has called a method of it. 0: none.
 */
static uintptr_t rlock_among(uintptr_t frame, uintptr_t code, uintptr_t key) {
    uintptr_t values = values_of(frame, code);
    int32_t n = half(code + spp_lock_rule.stacksize);
    for (uint32_t i = 0; values != 0 && n > 0 && i < (uint32_t)n && i < VALUES_MOST; i++) {
        uintptr_t lock = lock_of(word(values + 8u * i) & UNTAGGED);
        if (lock != 0 && word(lock + SPP_L_OB_TYPE) == spp_lock_rule.rlock && key_of(lock) == key) return lock;
    }
    return 0;
}

spp_awaited spp_lock_awaited(uintptr_t tstate, uintptr_t futex) {
    spp_awaited lock = {0};
    spp_frame leaf;
    uintptr_t at;
    spp_walk walk = {.tstate = tstate, .out = &leaf, .at = &at, .max = 1};
    if (spp_lock_rule.lock == 0 || tstate == 0 || futex < SPP_COPIES_PAGE) return lock;
    if (spp_frames_other(&walk) != SPP_LOSS_NONE || walk.depth == 0) return lock;
    forget_pages();
    if (is_condition_wait(spp_frame_code(leaf))) return lock;
    lock.key = spp_lock_rule.lock_is_mutex || spp_lock_rule.rlock_is_mutex ? mutex_of(futex) : futex;
    if (!spp_lock_rule.rlock_is_mutex)
        lock.rlock = rlock_among(at, spp_frame_code(leaf), lock.key);
    else if (word(lock.key - spp_lock_rule.first + SPP_L_OB_TYPE) == spp_lock_rule.rlock)
        lock.rlock = lock.key - spp_lock_rule.first;
    return lock;
}

uintptr_t spp_lock_owner(const spp_awaited *lock) {
    forget_pages();
    bool is = word(lock->rlock + SPP_L_OB_TYPE) == spp_lock_rule.rlock && key_of(lock->rlock) == lock->key;
    return is ? word(lock->rlock + spp_lock_rule.owner) : 0;
}
