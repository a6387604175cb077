/* Which C stack a thread is on, and how much of it can be read in place. */
#include <pthread.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/hints.h"
#include "os/context.h"
#include "os/linux/machine.h"
#include "os/memory.h"

#define PAGE ((uintptr_t)4096)
#define MOST \
    ((uintptr_t)64 << 20) /* of a stack: beyond, each walk probes what it reads. Linux keeps 128 MiB below the main one */
#define STEP 256          /* pages that one tick may probe: 25 us */

/* Returns the nearest upper end of a stack above `sp`; 0: none is near. C libraries put a thread's descriptor, to which the
 * thread pointer points, at the end of its stack; the kernel put its random bytes above all frames of the first thread. */
static uintptr_t end_above(uintptr_t sp) {
    uintptr_t of_thread = thread_pointer() & ~(uintptr_t)7, of_first = getauxval(AT_RANDOM) & ~(uintptr_t)7;
    uintptr_t a = of_thread - sp, b = of_first - sp; /* huge if it lies below */
    if (a > MOST && b > MOST) return 0;
    return a < b ? of_thread : of_first;
}

/* Probes each page once, from the stack's upper end down to `sp`. A stack in use has no hole there, and gets none later; if there
 * is one, `sp` is on another stack, such as a coroutine's. (A single mapping proves nothing: since glibc 2.42 guard pages are
 * part of mappings, and adjacent mappings are merged.) */
static SPP_COLD bool probe_stack(uintptr_t sp, spp_os_stack *stack) {
    uintptr_t end = end_above(sp);
    if (end == 0) return false;
    if (end != stack->end) *stack = (spp_os_stack){.low = end, .end = end};
    for (int i = 0; i < STEP && stack->low > sp; i++) {
        uintptr_t page = (stack->low - 1) & ~(PAGE - 1);
        if (!spp_os_readable(page)) return false;
        stack->low = page;
    }
    return stack->low <= sp;
}

spp_os_stack spp_os_stack_limits(void) {
    spp_os_stack stack = {0};
    struct rlimit most;
    pthread_attr_t attributes;
    if (gettid() == getpid()) { /* musl says of it how far it has grown */
        if (getrlimit(RLIMIT_STACK, &most) != 0) return stack;
        stack.end = getauxval(AT_RANDOM);
        stack.low = stack.end - (most.rlim_cur < MOST ? most.rlim_cur : MOST);
    } else if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        void *low;
        size_t n;
        if (pthread_attr_getstack(&attributes, &low, &n) == 0) stack = (spp_os_stack){(uintptr_t)low, (uintptr_t)low + n};
        pthread_attr_destroy(&attributes);
    }
    return stack;
}

bool spp_os_stack_known(const spp_os_context *context, spp_os_stack *stack) {
    return spp_usual(context->sp >= stack->low && context->sp < stack->end) || probe_stack(context->sp, stack);
}
