/* What is known of a thread's C stack: its own is, up to its end and no further, whatever lies in the same mapping; others are
 * not. */
#include "check.h"

#if defined(__linux__)
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "os/context.h"
#include "os/memory.h"

#define STACK ((size_t)4 << 20)
#define PAGE ((uintptr_t)4096)

static bool known(uintptr_t sp, spp_os_stack *stack) {
    const spp_os_context context = {.sp = sp};
    return spp_os_stack_known(&context, stack);
}

/* Writes to the pages below, as calls would: valgrind grows the first thread's stack then only. */
static __attribute__((noinline)) void grow(void) {
    volatile uint8_t pages[42 * PAGE];
    for (size_t at = sizeof pages; at >= PAGE; at -= PAGE) pages[at - 1] = 1;
}

static void looks_at(spp_os_stack *stack) {
    uintptr_t sp = (uintptr_t)__builtin_frame_address(0);
    CHECK(known(sp, stack));
    CHECK(stack->low <= sp && sp < stack->end);
    for (uintptr_t at = sp; at < stack->end; at += PAGE) CHECK(spp_os_readable(at));
    CHECK(spp_os_readable(stack->end - 8));
    /* Deeper: it has grown. And back. */
    grow();
    for (uintptr_t deeper = PAGE; deeper < 40 * PAGE; deeper += 13 * PAGE) {
        CHECK(known(sp - deeper, stack) && stack->low <= sp - deeper);
    }
    CHECK(known(sp, stack));
}

/* The stack's place is given: right below and above it lies more of the same mapping. */
static void *on_its_own(void *given) {
    uintptr_t low = (uintptr_t)given;
    spp_os_stack stack = {0, 0};
    looks_at(&stack);
    CHECK(stack.low >= low && stack.end <= low + STACK); /* not what lies above */
    spp_os_stack before = stack;
    /* Other stacks: in the next mapping below a guard page, and far away. */
    CHECK(!known(low - 2 * PAGE, &stack));
    uint8_t *other = calloc(1, STACK);
    CHECK(!known((uintptr_t)other + STACK / 2, &stack));
    free(other);
    CHECK(known((uintptr_t)__builtin_frame_address(0), &stack));
    CHECK_EQUAL(stack.end, before.end);
    return NULL;
}

int main(void) {
    spp_os_stack stack = {0, 0};
    CHECK_EQUAL(spp_os_memory_init(), 0);
    looks_at(&stack); /* the first thread's */
    CHECK(!known(8, &stack) && !known(UINTPTR_MAX - 7, &stack));
    /* A guard page, the stack, a guard page, and more; to the kernel one mapping, if it knows such guards (Linux 6.13). */
    uint8_t *memory = mmap(NULL, 4 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED);
    uint8_t *at = memory + STACK;
    uint8_t *guards[] = {at - PAGE, at + STACK};
    for (int i = 0; i < 2; i++) {
        (void)madvise(guards[i], PAGE, 102 /* MADV_GUARD_INSTALL */);
        if (spp_os_readable((uintptr_t)guards[i])) CHECK_EQUAL(mprotect(guards[i], PAGE, PROT_NONE), 0);
        CHECK(!spp_os_readable((uintptr_t)guards[i]));
    }
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    CHECK_EQUAL(pthread_attr_setstack(&attributes, at, STACK), 0);
    int failed = pthread_create(&thread, &attributes, on_its_own, at);
    if (failed == 0) pthread_join(thread, NULL); /* first: it counts checks too */
    CHECK_EQUAL(failed, 0);
    return check_done();
}
#else
int main(void) { return check_done(); }
#endif
