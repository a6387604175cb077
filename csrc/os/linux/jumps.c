/* Ways out of a call without a return: a handler jumps, a thread is cancelled, an exception is thrown. A call that was left is
 * noted as over (handshake.h), or its thread would get no ticks.
 *
 * The C library runs the personality routine of a wrapper's frame when it unwinds it (SPP_LINUX_UNWINDS); so do
 * languages with exceptions. A jump says to which stack pointer it goes. */
#include <setjmp.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>
#include <unwind.h>

#include "os/linux/handshake.h"
#include "os/linux/linux.h"
#include "os/linux/machine.h"

/* Any thread, also in a handler: it goes on at this stack pointer. */
static void goes_to(uintptr_t sp) {
    spp_linux_handshake *h = spp_linux_handshake_own();
    uintptr_t call = h != NULL ? atomic_load_explicit(&h->call, memory_order_relaxed) : 0;
    if (call > SPP_CALL_UNKNOWN && spp_linux_outer_call(call, sp) == 0) atomic_store(&h->call, 0);
}

/* On the thread that leaves the frame of a wrapper, or seeks the catcher of an exception. */
__attribute__((used, visibility("hidden"))) int spp_linux_unwound(int version, int actions, uint64_t language, void *thrown,
                                                                  void *context) {
    (void)version, (void)language, (void)thrown, (void)context;
    spp_linux_handshake *h = (actions & _UA_CLEANUP_PHASE) ? spp_linux_handshake_own() : NULL;
    if (h != NULL) atomic_store(&h->call, 0);
    return _URC_CONTINUE_UNWIND;
}

/* ---- the stack pointer of a jmp_buf, which glibc mangles with a key of the process */

static uintptr_t key;
static bool turned, known; /* whether it is rotated, too; whether all this is known */

static uintptr_t saved_in(const void *env) {
    uintptr_t saved;
    memcpy(&saved, (const char *)env + JUMP_SP * sizeof saved, sizeof saved);
    return (turned ? JUMP_TURNED(saved) : saved) ^ key;
}

static __attribute__((noinline)) void save(void *env, uintptr_t *sp) {
    jmp_buf here;
    ucontext_t uc;
    own_registers(&uc);
    *sp = stack_pointer(&uc);
    if (_setjmp(here) == 0) memcpy(env, here, sizeof here);
}

static __attribute__((noinline)) void save_deeper(void *env, uintptr_t *sp) {
    volatile char below[256];
    below[0] = 0;
    save(env, sp);
    below[1] = below[0];
}

void spp_linux_jumps_learn(void) {
    uint8_t one[sizeof(jmp_buf)] = {0}, other[sizeof(jmp_buf)] = {0};
    uintptr_t sp, other_sp;
    save(one, &sp);
    save_deeper(other, &other_sp);
    for (int i = 0; i < 2 && !known; i++) {
        turned = i != 0;
        key = 0;
        key = saved_in(one) ^ sp;
        known = saved_in(other) == other_sp;
    }
}

/* ---- the calls */

static void (*real_longjmp)(void *, int), (*real_siglongjmp)(void *, int), (*real_chk)(void *, int);

static void own_longjmp(void *env, int value) {
    if (known) goes_to(saved_in(env));
    real_longjmp(env, value);
}

static void own_siglongjmp(void *env, int value) {
    if (known) goes_to(saved_in(env));
    real_siglongjmp(env, value);
}

static void own_longjmp_chk(void *env, int value) {
    if (known) goes_to(saved_in(env));
    real_chk(env, value);
}

static int (*real_setcontext)(const ucontext_t *);

static int own_setcontext(const ucontext_t *to) {
    goes_to(stack_pointer(to));
    return real_setcontext(to);
}

static int (*real_swapcontext)(ucontext_t *, const ucontext_t *);

/* A handler that leaves its stack in the midst of a call may come back to it, and the call goes on, perhaps in another thread. */
static int own_swapcontext(ucontext_t *from, const ucontext_t *to) {
    spp_linux_handshake *h = spp_linux_handshake_own();
    uintptr_t call = h != NULL ? atomic_load_explicit(&h->call, memory_order_relaxed) : 0;
    if (call > SPP_CALL_UNKNOWN) atomic_store(&h->call, 0);
    int result = real_swapcontext(from, to);
    if (call > SPP_CALL_UNKNOWN) (void)spp_linux_begin_call(call);
    return result;
}

const spp_linux_import spp_linux_jumps[] = {
    {"longjmp", (void *)(uintptr_t)own_longjmp, NULL, (void *)&real_longjmp},
    {"_longjmp", (void *)(uintptr_t)own_longjmp, NULL, NULL},
    {"siglongjmp", (void *)(uintptr_t)own_siglongjmp, NULL, (void *)&real_siglongjmp},
    {"__longjmp_chk", (void *)(uintptr_t)own_longjmp_chk, NULL, (void *)&real_chk},
    {"setcontext", (void *)(uintptr_t)own_setcontext, NULL, (void *)&real_setcontext},
    {"swapcontext", (void *)(uintptr_t)own_swapcontext, NULL, (void *)&real_swapcontext},
};
