/* Tasks of asyncio in invented memory: which one runs, and of one that waits its chain of coroutines, what for, and what awaits
 * it. */
#include <pthread.h>
#include <string.h>

#include "check.h"
#include "core/capture/coroutines.h"
#include "core/capture/frames.h"
#include "core/capture/tasks.h"
#include "os/memory.h"
#include "py/layout.h"

#define OBJECT (SPP_L_OB_TYPE + 8u)
#define OBJECTS 64u
#define WORDS 96u
static _Atomic uint64_t memory[OBJECTS][WORDS];
static _Atomic bool stop; /* other threads end */

/* Objects by their numbers. */
enum {
    MODULES,
    MODULES_KEYS,
    MODULE,
    DICT,
    DICT_KEYS,
    CURRENT,
    CURRENT_KEYS,
    TSTATE,
    TSTATE_DICT,
    TSTATE_KEYS,
    HOLDER,
    LOOP,
    TASK_TYPE,
    FUTURE_TYPE,
    OWN_TYPE,
    KEY,
    KEY_TASK,
    KEY_FUTURE,
    KEY_CURRENT,
    KEY_LOOP,
    TASK,
    NAME,
    OTHER,
    OTHER_NAME,
    FUTURE,
    OUTER,
    MIDDLE,
    INNER,
    WRAPPER,
    ITERATOR,
    CODE_1,
    CODE_2,
    CODE_3,
    FRAME_1,
    FRAME_2,
    FRAME_3,
    BYTES,
    CALLBACK,
    CALLBACK_CODE,
    CALLBACK_NAME,
    SET,
    TABLE,
    LIST,
    ITEMS,
    PAIR,
    REFERENCE,
    STACK_1,
    STACK_2,
    STACK_3,
}; /* clang-format keeps it so */

/* Types that are compared by address alone. */
enum {
    STR = 0x1000,
    INTEGER = 0x2000,
    MODULE_TYPE = 0x3000,
    DICT_TYPE = 0x4000,
    TYPE = 0x5000,
    SET_TYPE = 0x6000,
    LIST_TYPE = 0x7000,
    TUPLE = 0x8000,
    BUILTIN = 0x9000,
    FUNCTION = 0xA000,
    STRANGE = 0xB000,
    NONE = 0xC000,
    CODE = 0xD000,
    CORO = 0xE000,
    GEN = 0xF000,
    ASYNC_GEN = 0x10000
};

#define BASE 64u
#define BASICSIZE 72u
#define TSTATE_TASK 16u
#define TSTATE_LOOP 24u
#define TSTATE_VERSION 32u
#define FRAME_TOP 64u /* of our own frames */
#define SELF (OBJECT + 8u)

static uintptr_t at(unsigned i) { return (uintptr_t)memory[i]; }
static void put(unsigned i, size_t byte, uint64_t value) { atomic_store(&memory[i][byte / 8], value); }
static void put_byte(uintptr_t where, uint8_t value) { memcpy((void *)where, &value, 1); }
static void put_half(uintptr_t where, int32_t value) { memcpy((void *)where, &value, sizeof value); }
static void typed(unsigned i, uint64_t type) { put(i, SPP_L_OB_TYPE, type); }

/* A dict with these pairs, its keys in another object. */
static void dict(unsigned of, unsigned keys, unsigned n, const uint64_t (*pairs)[2]) {
    size_t entry = SPP_L_KEYS_USED + 8u + 8u, before = SPP_L_KEYS_SHAPE ? 0 : 8; /* 8 slots of a byte each */
    typed(of, DICT_TYPE);
    put(of, SPP_L_DICT_KEYS, at(keys));
    put(of, SPP_L_DICT_KEYS + 8u, 0);
    put(keys, 8, SPP_L_KEYS_SHAPE ? 3u | 3u << 8 | 1u << 16 : 8u);
    put(keys, SPP_L_KEYS_USED, n);
    put(of, OBJECT, n);
    for (unsigned i = 0; i < n; i++, entry += 16 + before) {
        put(keys, entry + before, pairs[i][0]);
        put(keys, entry + before + 8, pairs[i][1]);
    }
}

static void text(unsigned of, const char *letters) {
    uint64_t state =
        (uint64_t)1 << SPP_L_STR_KIND_SHIFT | (uint64_t)1 << SPP_L_STR_COMPACT_BIT | (uint64_t)1 << SPP_L_STR_ASCII_BIT;
    typed(of, STR);
    put(of, SPP_L_STR_LENGTH, strlen(letters));
    put(of, SPP_L_STR_STATE & ~7u, state << SPP_L_STR_STATE % 8 * 8);
    memcpy((char *)at(of) + SPP_L_STR_ASCII_DATA, letters, strlen(letters));
}

static void task(unsigned of, unsigned name, unsigned coroutine, uint64_t waiter) {
    typed(of, at(TASK_TYPE));
    put(of, OBJECT, at(LOOP));
    put(of, SPP_L_TASK_NAME, at(name));
    put(of, SPP_L_TASK_NAME - 8u, coroutine != 0 ? at(coroutine) : 0);
    put(of, SPP_L_TASK_NAME - 16u, waiter);
    if (SPP_L_FUTURE_AWAITED_BY >= 0) put(of, SPP_L_TASK_SIZE - 16u, at(LOOP)); /* it is in a list, somewhere */
}

static void asyncio(uint64_t size) {
    memset((void *)memory, 0, sizeof memory);
    spp_task_forget();
    spp_task_rule = (spp_task_rules){.modules = at(MODULES),
                                     .asyncio = at(KEY),
                                     .task = at(KEY_TASK),
                                     .future = at(KEY_FUTURE),
                                     .current = at(KEY_CURRENT),
                                     .loop = at(KEY_LOOP),
                                     .tstate_dict = 8,
                                     .tstate_version = TSTATE_VERSION,
                                     .basicsize = BASICSIZE,
                                     .base = BASE,
                                     .tstate_loop = TSTATE_LOOP,
                                     .tstate_task = TSTATE_TASK,
                                     .tstate_tasks = -1,
                                     .str = STR,
                                     .integer = INTEGER,
                                     .module = MODULE_TYPE,
                                     .dict = DICT_TYPE,
                                     .type = TYPE};
    typed(TASK_TYPE, TYPE);
    typed(FUTURE_TYPE, TYPE);
    put(TASK_TYPE, BASICSIZE, size);
    put(OWN_TYPE, BASE, at(TASK_TYPE));
    typed(MODULE, MODULE_TYPE);
    put(MODULE, OBJECT, at(DICT));
    dict(MODULES, MODULES_KEYS, 1, (const uint64_t[][2]){{at(KEY), at(MODULE)}});
    dict(CURRENT, CURRENT_KEYS, 1, (const uint64_t[][2]){{at(LOOP), at(TASK)}});
    dict(DICT, DICT_KEYS, 3,
         (const uint64_t[][2]){{at(KEY_TASK), at(TASK_TYPE)}, {at(KEY_FUTURE), at(FUTURE_TYPE)}, {at(KEY_CURRENT), at(CURRENT)}});
    text(NAME, "red");
    task(TASK, NAME, 0, 0);
    put(TSTATE, TSTATE_TASK, at(TASK));
    put(TSTATE, TSTATE_LOOP, at(LOOP));
}

static bool is_named(const spp_task *name, const char *wanted) {
    return name->bytes == strlen(wanted) && memcmp(name->text, wanted, name->bytes) == 0;
}

static void both_say(const char *wanted) {
    spp_task own, other;
    spp_task_own(at(TSTATE), &own);
    spp_task_other(at(TSTATE), &other);
    CHECK(is_named(&own, wanted));
    CHECK(is_named(&other, wanted));
}

static void test_the_running_task(void) {
    asyncio(SPP_L_TASK_SIZE);
    CHECK_EQUAL(spp_task_type, 0);
    spp_task_look();
    CHECK_EQUAL(spp_task_type, at(TASK_TYPE));
    CHECK(!spp_task_unknown);
    both_say("red");
    typed(TASK, at(OWN_TYPE)); /* of a subclass */
    both_say("red");
    typed(TASK, STRANGE);
    both_say("");
    typed(TASK, at(TASK_TYPE));
    typed(NAME, INTEGER); /* a number, not read yet as a name */
    put(NAME, OBJECT, 1 << 3);
    put(NAME, OBJECT + 8, 77);
    spp_task name;
    spp_task_own(at(TSTATE), &name);
    CHECK_EQUAL(name.kind, SPP_TASK_NUMBERED);
    CHECK_EQUAL(name.text[0], 77);
    typed(NAME, STRANGE);
    both_say("");
    put(TSTATE, TSTATE_TASK, 0);
    both_say("");
}

static void test_the_running_task_before_3_14(void) {
    asyncio(SPP_L_TASK_SIZE);
    spp_task_rule.tstate_task = -1;
    spp_task_look();
    both_say("red");
    spp_task_rule.tstate_loop = -1; /* before 3.13 */
    put(TSTATE, 8, at(TSTATE_DICT));
    dict(TSTATE_DICT, TSTATE_KEYS, 1, (const uint64_t[][2]){{at(KEY_LOOP), SPP_L_LOOP_HOLDER >= 0 ? at(HOLDER) : at(LOOP)}});
    if (SPP_L_LOOP_HOLDER >= 0) put(HOLDER, (size_t)SPP_L_LOOP_HOLDER, at(LOOP));
    both_say("red");
    CHECK_EQUAL(spp_task_loop(at(TSTATE)), at(LOOP));
    dict(CURRENT, CURRENT_KEYS, 1, (const uint64_t[][2]){{at(KEY), at(TASK)}}); /* of another loop */
    both_say("");
    put(CURRENT, OBJECT, 2); /* its table is being filled */
    spp_task unknown;
    CHECK(!spp_task_own(at(TSTATE), &unknown));
    CHECK_EQUAL(unknown.bytes, 0);
    CHECK(!spp_task_other(at(TSTATE), &unknown));
    CHECK_EQUAL(unknown.bytes, 0);
}

/* A thread replaces the table of all tasks all the time, as `dictresize` does: the new one first, how many it has last. */
static void *replaces(void *unused) {
    (void)unused;
    for (unsigned i = 0; !stop; i++) {
        unsigned keys = i % 2 != 0 ? CURRENT_KEYS : TABLE;
        put(keys, SPP_L_KEYS_USED, 0);
        put(CURRENT, SPP_L_DICT_KEYS, at(keys));
        for (volatile unsigned k = 0; k < i % 10 * 10; k++) {}
        put(keys, SPP_L_KEYS_USED, 1);
        for (volatile unsigned k = 0; k < i % 100 * 10; k++) {}
    }
    return NULL;
}

static void test_a_table_that_is_replaced(void) {
    pthread_t thread;
    asyncio(SPP_L_TASK_SIZE);
    spp_task_rule.tstate_task = -1;
    spp_task_look();
    memcpy((void *)at(TABLE), (void *)at(CURRENT_KEYS), sizeof memory[0]);
    stop = false;
    CHECK_EQUAL(pthread_create(&thread, NULL, replaces, NULL), 0);
    for (unsigned i = 0, known = 0; i < 20000 || known == 0; i++) {
        spp_task name;
        if (!spp_task_other(at(TSTATE), &name)) continue;
        known++;
        CHECK(is_named(&name, "red"));
    }
    stop = true;
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
}

static void test_another_structure_is_said(void) {
    asyncio(SPP_L_TASK_SIZE + 8u);
    spp_task_look();
    CHECK(spp_task_unknown);
    CHECK_EQUAL(spp_task_type, 0);
    asyncio(SPP_L_TASK_SIZE);
    CHECK(!spp_task_unknown);
    spp_task_look();
    spp_task_refuse(); /* its fields are elsewhere */
    CHECK(spp_task_unknown);
    CHECK_EQUAL(spp_task_type, 0);
    spp_task_look();
    CHECK_EQUAL(spp_task_type, 0);
}

/* A suspended coroutine: at the n-th instruction of a code object, with one object on its stack, which it awaits or not. */
static uintptr_t frame_of(unsigned generator, unsigned frame) {
    return SPP_L_GEN_IFRAME >= 0 ? at(generator) + (size_t)SPP_L_GEN_IFRAME : at(frame);
}

#define AWAITS_STATE 9 /* no state of ours is that by chance */
#define AWAITS_TOO 10

static void suspended(unsigned generator, uint64_t type, unsigned frame, unsigned code, unsigned stack, unsigned n,
                      uint64_t newest, bool awaits) {
    uintptr_t of = frame_of(generator, frame), start;
    typed(generator, type);
    typed(code, CODE);
    put(code, SPP_L_OB_SIZE, 20);
    if (SPP_L_GEN_IFRAME < 0) put(generator, OBJECT, of);
    if (SPP_L_GEN_STATE >= 0) put_byte(at(generator) + (size_t)SPP_L_GEN_STATE, awaits ? AWAITS_STATE : 7);
    memcpy((void *)(of + SPP_L_FRAME_CODE), &(uint64_t){at(code)}, 8);
    if (SPP_L_CHAIN == 1) {
        put(code, (size_t)SPP_L_CODE_CODEOBJ, at(BYTES));
        put_half(of + SPP_L_FRAME_INSTR, (int32_t)(n * 2 / SPP_L_INSTR_SCALE));
        start = at(BYTES) + SPP_L_BYTES_DATA;
        put_byte(start + n * 2 + 2, awaits ? 72 : 1);
    } else {
        start = at(code) + (size_t)SPP_L_CODE_BYTECODE;
        memcpy((void *)(of + SPP_L_FRAME_INSTR), &(uint64_t){start + n * 2}, 8);
        put_byte(start + n * 2 + 3, awaits ? 3 : 1);
    }
    put(stack, 0, newest);
    memcpy((void *)(of + FRAME_TOP), &(uint64_t){at(stack) + 8}, 8);
}

/* A task in OUTER, which awaits MIDDLE by what wraps it, which awaits INNER, which awaits a future. */
static void waiting(bool by_state) {
    asyncio(SPP_L_TASK_SIZE);
    spp_task_look();
    spp_py.code_type = CODE;
    spp_py.coro_type = CORO;
    spp_py.gen_type = GEN;
    spp_py.async_gen_type = ASYNC_GEN;
    spp_py.none = NONE;
    spp_coroutine_rule = (spp_coroutine_rules){.frame = SPP_L_GEN_IFRAME < 0 ? (long)OBJECT : -1,
                                               .top = FRAME_TOP,
                                               .base = -1,
                                               .depth = -1,
                                               .by_state = by_state && SPP_L_GEN_STATE >= 0,
                                               .awaits = AWAITS_STATE,
                                               .awaits_too = AWAITS_TOO,
                                               .task_node = SPP_L_TASK_SIZE - 16u,
                                               .set_used = OBJECT,
                                               .set_mask = OBJECT + 8,
                                               .set_table = OBJECT + 16,
                                               .weakref_object = OBJECT,
                                               .builtin_self = SELF,
                                               .function_code = OBJECT,
                                               .list_items = OBJECT + 8,
                                               .set = SET_TYPE,
                                               .list = LIST_TYPE,
                                               .tuple = TUPLE,
                                               .builtin = BUILTIN,
                                               .function = FUNCTION};
    typed(FUTURE, at(FUTURE_TYPE));
    typed(ITERATOR, STRANGE);
    put(ITERATOR, OBJECT, at(FUTURE));
    typed(WRAPPER, STRANGE);
    put(WRAPPER, OBJECT, at(MIDDLE));
    suspended(OUTER, CORO, FRAME_1, CODE_1, STACK_1, 1, at(WRAPPER), true);
    suspended(MIDDLE, ASYNC_GEN, FRAME_2, CODE_2, STACK_2, 2, at(INNER), true);
    suspended(INNER, GEN, FRAME_3, CODE_3, STACK_3, 3, at(ITERATOR), true);
    task(TASK, NAME, OUTER, at(FUTURE));
}

static spp_waiting_task seen;

static void test_the_chain(bool by_state) {
    waiting(by_state);
    CHECK_EQUAL(spp_coroutines_read(at(TASK), 0, at(TSTATE), &seen), SPP_TASK_WAITS);
    CHECK_EQUAL(seen.depth, 3);
    for (unsigned i = 0; i < 3; i++) {
        CHECK_EQUAL(spp_frame_code(seen.frames[i]), at(CODE_1 + i));
        CHECK_EQUAL(spp_frame_offset(seen.frames[i]), (i + 1) * 2);
    }
    CHECK(is_named(&seen.name, "red"));
    CHECK_EQUAL(spp_coroutines_loop(at(TASK)), at(LOOP));
    CHECK_EQUAL(seen.reason, SPP_REASON_future);
    CHECK_EQUAL(seen.awaiters, 0);
    if (SPP_L_GEN_STATE >= 0) put_byte(at(OUTER) + (size_t)SPP_L_GEN_STATE, AWAITS_TOO);
    CHECK_EQUAL(spp_coroutines_read(at(TASK), 0, at(TSTATE), &seen), SPP_TASK_WAITS);
    CHECK_EQUAL(seen.depth, 3);
    suspended(MIDDLE, ASYNC_GEN, FRAME_2, CODE_2, STACK_2, 2, at(INNER), false); /* it yields, with a generator on its stack */
    CHECK_EQUAL(spp_coroutines_read(at(TASK), 0, at(TSTATE), &seen), SPP_TASK_WAITS);
    CHECK_EQUAL(seen.depth, 2);
    typed(CODE_1, STRANGE);
    CHECK_EQUAL(spp_coroutines_read(at(TASK), 0, at(TSTATE), &seen), SPP_TASK_CHANGED);
}

static void test_what_is_no_waiting_task(void) {
    waiting(true);
    if (SPP_L_GEN_STATE >= 0)
        put_byte(at(INNER) + (size_t)SPP_L_GEN_STATE, (uint8_t)SPP_L_GEN_EXECUTING);
    else
        memset((void *)(frame_of(INNER, FRAME_3) + FRAME_TOP), 0, 8);
    CHECK_EQUAL(spp_coroutines_read(at(TASK), 0, at(TSTATE), &seen), SPP_TASK_RUNS);
    waiting(true);
    put(REFERENCE, OBJECT, at(TASK));
    CHECK_EQUAL(spp_coroutines_read(at(TASK), at(REFERENCE), at(TSTATE), &seen), SPP_TASK_WAITS);
    put(REFERENCE, OBJECT, NONE); /* it dies */
    CHECK_EQUAL(spp_coroutines_read(at(TASK), at(REFERENCE), at(TSTATE), &seen), SPP_TASK_GONE);
    typed(TASK, STRANGE);
    CHECK_EQUAL(spp_coroutines_read(at(TASK), 0, at(TSTATE), &seen), SPP_TASK_GONE);
    CHECK_EQUAL(spp_coroutines_read(8, 0, at(TSTATE), &seen), SPP_TASK_GONE); /* nothing is there */
}

static void test_what_it_waits_for(void) {
    waiting(true);
    put(TASK, SPP_L_TASK_NAME - 16u, 0);
    CHECK_EQUAL(spp_coroutines_read(at(TASK), 0, at(TSTATE), &seen), SPP_TASK_RUNS); /* its step begins or ends */
    put(TSTATE, TSTATE_TASK, 0);
    CHECK_EQUAL(spp_coroutines_read(at(TASK), 0, at(TSTATE), &seen), SPP_TASK_WAITS);
    CHECK_EQUAL(seen.reason, SPP_REASON_loop); /* its step is scheduled */
    waiting(true);
    put_half(at(FUTURE) + SPP_L_FUTURE_STATE, 2);
    put(TSTATE, TSTATE_TASK, 0);
    CHECK_EQUAL(spp_coroutines_read(at(TASK), 0, at(TSTATE), &seen), SPP_TASK_WAITS);
    CHECK_EQUAL(seen.reason, SPP_REASON_loop); /* its future is done */
    waiting(true);
    text(OTHER_NAME, "blue");
    task(OTHER, OTHER_NAME, 0, 0);
    put(TASK, SPP_L_TASK_NAME - 16u, at(OTHER));
    CHECK_EQUAL(spp_coroutines_read(at(TASK), 0, at(TSTATE), &seen), SPP_TASK_WAITS);
    CHECK_EQUAL(seen.reason, SPP_REASON_task);
    CHECK(is_named(&seen.on, "blue"));
    waiting(true);
    put(FUTURE, OBJECT + 8, at(CALLBACK));
    typed(CALLBACK, FUNCTION);
    put(CALLBACK, OBJECT, at(CALLBACK_CODE));
    typed(CALLBACK_CODE, CODE);
    put(CALLBACK_CODE, SPP_L_CODE_NAME, at(CALLBACK_NAME));
    text(CALLBACK_NAME, "_call_check_cancel");
    CHECK_EQUAL(spp_coroutines_read(at(TASK), 0, at(TSTATE), &seen), SPP_TASK_WAITS);
    CHECK_EQUAL(seen.reason, SPP_REASON_job);
    waiting(true);
    typed(FUTURE, STRANGE); /* a future that is written in Python */
    put_half(at(FUTURE) + SPP_L_FUTURE_STATE, 2);
    CHECK_EQUAL(spp_coroutines_read(at(TASK), 0, at(TSTATE), &seen), SPP_TASK_WAITS);
    CHECK_EQUAL(seen.reason, SPP_REASON_future);
}

/* Two tasks await it, one of them by a future of its own; before 3.14, by callbacks. */
static void test_what_awaits_it(void) {
    waiting(true);
    text(OTHER_NAME, "blue");
    task(OTHER, OTHER_NAME, 0, 0);
#if SPP_L_FUTURE_AWAITED_BY >= 0
    put(TASK, SPP_L_FUTURE_AWAITED_BY, at(OTHER));
    CHECK_EQUAL(spp_coroutines_read(at(TASK), 0, at(TSTATE), &seen), SPP_TASK_WAITS);
    CHECK_EQUAL(seen.awaiters, 1);
    typed(SET, SET_TYPE);
    put(SET, OBJECT + 8, 3);
    put(SET, OBJECT + 16, at(TABLE));
    put(TABLE, 0, at(KEY)); /* deleted */
    put(TABLE, 8, UINT64_MAX);
    put(TABLE, 16, at(OTHER));
    put(TABLE, 48, at(FUTURE));
    put(FUTURE, SPP_L_FUTURE_AWAITED_BY, at(OTHER));
    put(TASK, SPP_L_FUTURE_AWAITED_BY, at(SET));
#else
    put(TASK, OBJECT + 8, at(CALLBACK));
    typed(CALLBACK, BUILTIN);
    put(CALLBACK, SELF, at(OTHER));
    CHECK_EQUAL(spp_coroutines_read(at(TASK), 0, at(TSTATE), &seen), SPP_TASK_WAITS);
    CHECK_EQUAL(seen.awaiters, 1);
    typed(WRAPPER, STRANGE);
    put(WRAPPER, OBJECT, at(OTHER));
    put(TASK, OBJECT + 24, at(LIST));
    typed(LIST, LIST_TYPE);
    put(LIST, SPP_L_OB_SIZE, 1);
    put(LIST, OBJECT + 8, at(ITEMS));
    put(ITEMS, 0, at(PAIR));
    typed(PAIR, TUPLE);
    put(PAIR, SPP_L_OB_SIZE + 8u, at(WRAPPER));
    put(TASK, SPP_L_TASK_NAME - 8u, at(INNER)); /* what wrapped a coroutine is another thing now */
#endif
    CHECK_EQUAL(spp_coroutines_read(at(TASK), 0, at(TSTATE), &seen), SPP_TASK_WAITS);
    CHECK_EQUAL(seen.awaiters, 2);
    CHECK(is_named(&seen.awaited_by[0], "blue") && is_named(&seen.awaited_by[1], "blue"));
}

/* An awaited object may keep the coroutine around it, as an iterator with a field for that: the chain ends there. */
static void test_a_chain_that_comes_back(void) {
    waiting(true);
    put(ITERATOR, OBJECT, at(OUTER));
    CHECK_EQUAL(spp_coroutines_read(at(TASK), 0, at(TSTATE), &seen), SPP_TASK_WAITS);
    CHECK_EQUAL(seen.depth, 3);
    CHECK(!seen.cut);
    put(ITERATOR, OBJECT, at(INNER));
    CHECK_EQUAL(spp_coroutines_read(at(TASK), 0, at(TSTATE), &seen), SPP_TASK_WAITS);
    CHECK_EQUAL(seen.depth, 3);
}

/* A thread moves a task all the time, one word after the other, within a step: what is read is never a mixture. */
static void *moves(void *unused) {
    (void)unused;
    for (uint64_t i = 1; !stop; i++) {
        bool odd = i % 2 != 0;
        put(TSTATE, TSTATE_VERSION, 2 * i);
        put(TSTATE, TSTATE_TASK, at(TASK));
        put(TASK, SPP_L_TASK_NAME - 16u, 0);
        put(TASK, SPP_L_TASK_NAME, odd ? at(OTHER_NAME) : at(NAME));
        put(STACK_1, 0, odd ? at(ITERATOR) : at(WRAPPER));
        put(TASK, SPP_L_TASK_NAME - 16u, at(FUTURE));
        put(TSTATE, TSTATE_TASK, 0);
        put(TSTATE, TSTATE_VERSION, 2 * i + 1);
        for (volatile unsigned k = 0; k < i % 100 * 100; k++) {} /* so that some reads come between */
    }
    return NULL;
}

static void test_no_mixture(void) {
    pthread_t thread;
    unsigned long read = 0;
    waiting(true);
    put(TSTATE, TSTATE_TASK, 0);
    text(OTHER_NAME, "blue");
    stop = false;
    CHECK_EQUAL(pthread_create(&thread, NULL, moves, NULL), 0);
    for (unsigned i = 0; i < 2000 || read == 0; i++) {
        spp_task_state state = spp_coroutines_read(at(TASK), 0, at(TSTATE), &seen);
        CHECK(state == SPP_TASK_WAITS || state == SPP_TASK_CHANGED || state == SPP_TASK_RUNS);
        if (state != SPP_TASK_WAITS) continue;
        read++;
        CHECK_EQUAL(seen.reason, SPP_REASON_future);
        CHECK(is_named(&seen.name, seen.depth == 1 ? "blue" : "red"));
    }
    stop = true;
    CHECK_EQUAL(pthread_join(thread, NULL), 0);
}

int main(void) {
    CHECK_EQUAL(spp_os_memory_init(), 0);
    test_the_running_task();
    test_the_running_task_before_3_14();
    test_a_table_that_is_replaced();
    test_another_structure_is_said();
    test_the_chain(true);
    test_the_chain(false);
    test_what_is_no_waiting_task();
    test_what_it_waits_for();
    test_what_awaits_it();
    test_a_chain_that_comes_back();
    test_no_mixture();
    return check_done();
}
