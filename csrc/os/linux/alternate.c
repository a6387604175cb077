/* Alternate signal stacks for the program's threads. A signal's frame takes 3 KiB and more, and the kernel writes it before a
 * handler can check whether the thread's stack, or the stack of a coroutine, is large enough. So threads created during a run,
 * and the thread that starts it, get an alternate stack if they have none. The program does not see it, and its own takes
 * precedence. (Older threads, and those not created by the C library, take ticks on their own stacks.) */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "os/linux/linux.h"
#include "os/linux/machine.h"

/* As large as programs make them, since their handlers with SA_ONSTACK run here too. Unused pages take no memory. */
#define GUARD ((size_t)65536) /* at least a page, whatever its size */
#define BYTES ((size_t)65536)
#define SPARES 16

/* What a new thread runs. Kept in its alternate stack until it starts. */
typedef struct {
    void *(*start)(void *);
    void *arg;
} beginning;

static _Atomic bool on;
static bool keyed;
static pthread_key_t key; /* a thread's stack, released when it ends */
static _Atomic(uint8_t *) spares[SPARES];

/* Returns an unused stack, or NULL. Any thread, not in a handler. */
static uint8_t *take_stack(void) {
    for (int i = 0; i < SPARES; i++) {
        uint8_t *spare = atomic_exchange(&spares[i], NULL);
        if (spare != NULL) return spare;
    }
    uint8_t *at = mmap(NULL, GUARD + BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return NULL;
    if (mprotect(at + GUARD, BYTES, PROT_READ | PROT_WRITE) == 0) return at + GUARD;
    munmap(at, GUARD + BYTES);
    return NULL;
}

static void release_stack(uint8_t *stack) {
    uint8_t *none = NULL;
    for (int i = 0; i < SPARES; i++, none = NULL) {
        if (atomic_compare_exchange_strong(&spares[i], &none, stack)) return;
    }
    munmap(stack - GUARD, GUARD + BYTES);
}

/* Whether sigaltstack() may be called: a confined program's filter may forbid it. */
static bool may_call_sigaltstack(void) { return !atomic_load_explicit(&spp_linux_confined, memory_order_relaxed); }

static int call_sigaltstack(const stack_t *wanted, stack_t *old) {
    return (int)raw_call(SYS_sigaltstack, (long)(uintptr_t)wanted, (uintptr_t)old, 0, 0);
}

static bool is_our_stack(const stack_t *stack) {
    return keyed && stack->ss_sp != NULL && stack->ss_sp == pthread_getspecific(key);
}

/* Makes it the calling thread's alternate stack. False: it has one, or it may not be set. */
static bool adopt_stack(uint8_t *stack) {
    stack_t own = {.ss_sp = stack, .ss_size = BYTES}, old = {.ss_flags = 0};
    if (!keyed || !may_call_sigaltstack() || call_sigaltstack(NULL, &old) != 0 || !(old.ss_flags & SS_DISABLE)) return false;
    if (pthread_setspecific(key, stack) != 0) return false;
    if (call_sigaltstack(&own, NULL) == 0) return true;
    pthread_setspecific(key, NULL);
    return false;
}

/* The thread ends. If sigaltstack() may not be called any more, the stack is not reused, since signals may still use it. */
static void leave_stack(void *stack) {
    stack_t none = {.ss_flags = SS_DISABLE}, now = {.ss_flags = 0};
    if (!may_call_sigaltstack() || call_sigaltstack(NULL, &now) != 0 || (now.ss_flags & SS_ONSTACK)) return;
    if (now.ss_sp == stack && call_sigaltstack(&none, NULL) != 0) return;
    release_stack(stack);
}

static void (*_Atomic on_birth)(void);

void spp_linux_births(void (*born)(void)) { atomic_store(&on_birth, born); }

static void *begin_thread(void *at) {
    beginning it = *(beginning *)at;
    void (*born)(void) = atomic_load(&on_birth);
    if (!adopt_stack(at)) release_stack(at);
    if (born != NULL) born();
    return it.start(it.arg);
}

static int (*real_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static int (*real_stack)(const stack_t *, stack_t *);

static int own_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *arg) {
    uint8_t *stack = on && keyed && may_call_sigaltstack() && spp_linux_signals_own() ? take_stack() : NULL;
    if (stack == NULL) return real_create(thread, attributes, start, arg);
    *(beginning *)(void *)stack = (beginning){start, arg};
    int error = real_create(thread, attributes, begin_thread, stack);
    if (error != 0) release_stack(stack);
    return error;
}

/* Async-signal-safe, as sigaltstack(). When the program disables its own stack, ours is set again. */
static int own_stack(const stack_t *wanted, stack_t *old) {
    stack_t before = {.ss_flags = 0};
    bool ours = real_stack(NULL, &before) == 0 && is_our_stack(&before), none = wanted != NULL && (wanted->ss_flags & SS_DISABLE);
    int result = real_stack(ours && none ? NULL : wanted, old);
    if (result != 0) return result;
    if (ours && old != NULL) *old = (stack_t){.ss_flags = SS_DISABLE};
    if (!ours && none && keyed) {
        stack_t again = {.ss_sp = pthread_getspecific(key), .ss_size = BYTES};
        if (again.ss_sp != NULL) (void)real_stack(&again, NULL);
    }
    return 0;
}

void spp_linux_alternates(bool wanted) {
    if (wanted && !keyed) keyed = pthread_key_create(&key, leave_stack) == 0;
    uint8_t *stack = wanted && keyed && pthread_getspecific(key) == NULL ? take_stack() : NULL;
    if (stack != NULL && !adopt_stack(stack)) release_stack(stack);
    atomic_store(&on, wanted);
}

const spp_linux_import spp_linux_alternate[] = {
    {"pthread_create", (void *)(uintptr_t)own_create, NULL, (void *)&real_create},
    {"sigaltstack", (void *)(uintptr_t)own_stack, NULL, (void *)&real_stack},
};
