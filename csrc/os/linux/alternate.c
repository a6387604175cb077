/* Alternate signal stacks for the program's threads: a signal's frame may be 3 KiB and more, and the kernel lays it down before
 * anybody can look whether the thread's own stack, or a coroutine's that it is on, has room. So a thread that is made during a
 * run, and the one that begins it, get a stack for signals, if they have none. The program does not see it, and its own takes
 * precedence. (A thread that was there before, or that is not made by the C library, keeps taking ticks on its own stack.) */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "os/linux/linux.h"
#include "os/linux/machine.h"

/* As programs make them: their handlers that ask for an alternate stack run here too. What is not used takes no memory. */
#define GUARD ((size_t)65536) /* a page or more, whatever its size */
#define BYTES ((size_t)65536)
#define SPARES 16

/* Of a thread that is just made: it lies where its signals will. */
typedef struct {
    void *(*start)(void *);
    void *arg;
} beginning;

static _Atomic bool on;
static bool keyed;
static pthread_key_t key; /* a thread's own; given back when it ends */
static _Atomic(uint8_t *) spares[SPARES];

/* Any thread, not a handler. */
static uint8_t *take(void) {
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

static void give(uint8_t *stack) {
    uint8_t *none = NULL;
    for (int i = 0; i < SPARES; i++, none = NULL) {
        if (atomic_compare_exchange_strong(&spares[i], &none, stack)) return;
    }
    munmap(stack - GUARD, GUARD + BYTES);
}

/* Whether the calling thread may be told, in a program that has a filter, what its stack for signals is. */
static bool may_ask(void) { return !atomic_load_explicit(&spp_linux_confined, memory_order_relaxed); }

static int ask(const stack_t *wanted, stack_t *old) {
    return (int)raw_call(SYS_sigaltstack, (long)(uintptr_t)wanted, (uintptr_t)old, 0, 0);
}

static bool is_ours(const stack_t *stack) { return keyed && stack->ss_sp != NULL && stack->ss_sp == pthread_getspecific(key); }

/* Whether it is the calling thread's now. */
static bool adopt(uint8_t *stack) {
    stack_t own = {.ss_sp = stack, .ss_size = BYTES}, old = {.ss_flags = 0};
    if (!keyed || !may_ask() || ask(NULL, &old) != 0 || !(old.ss_flags & SS_DISABLE)) return false;
    if (pthread_setspecific(key, stack) != 0) return false;
    if (ask(&own, NULL) == 0) return true;
    pthread_setspecific(key, NULL);
    return false;
}

/* The thread ends. If it may not be asked any more its stack stays: signals may come there. */
static void let_go(void *stack) {
    stack_t none = {.ss_flags = SS_DISABLE}, now = {.ss_flags = 0};
    if (!may_ask() || ask(NULL, &now) != 0 || (now.ss_flags & SS_ONSTACK)) return;
    if (now.ss_sp == stack && ask(&none, NULL) != 0) return;
    give(stack);
}

static void (*_Atomic on_birth)(void);

void spp_linux_births(void (*born)(void)) { atomic_store(&on_birth, born); }

static void *begin(void *at) {
    beginning it = *(beginning *)at;
    void (*born)(void) = atomic_load(&on_birth);
    if (!adopt(at)) give(at);
    if (born != NULL) born();
    return it.start(it.arg);
}

static int (*real_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static int (*real_stack)(const stack_t *, stack_t *);

static int own_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *), void *arg) {
    uint8_t *stack = on && keyed && may_ask() && spp_linux_signals_own() ? take() : NULL;
    if (stack == NULL) return real_create(thread, attributes, start, arg);
    *(beginning *)(void *)stack = (beginning){start, arg};
    int error = real_create(thread, attributes, begin, stack);
    if (error != 0) give(stack);
    return error;
}

/* Async-signal-safe, as the function is. What the program takes off comes back when it has none of its own. */
static int own_stack(const stack_t *wanted, stack_t *old) {
    stack_t before = {.ss_flags = 0};
    bool ours = real_stack(NULL, &before) == 0 && is_ours(&before), none = wanted != NULL && (wanted->ss_flags & SS_DISABLE);
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
    if (wanted && !keyed) keyed = pthread_key_create(&key, let_go) == 0;
    uint8_t *stack = wanted && keyed && pthread_getspecific(key) == NULL ? take() : NULL;
    if (stack != NULL && !adopt(stack)) give(stack);
    atomic_store(&on, wanted);
}

const spp_linux_import spp_linux_alternate[] = {
    {"pthread_create", (void *)(uintptr_t)own_create, NULL, (void *)&real_create},
    {"sigaltstack", (void *)(uintptr_t)own_stack, NULL, (void *)&real_stack},
};
