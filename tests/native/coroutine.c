/* Calls a function on a stack of its own, as a coroutine's (ucontext): below all others in memory, or above the thread's. */
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/mman.h>
#include <ucontext.h>

#define SIZE ((size_t)1 << 20)

static ucontext_t outside, inside;
static void (*called)(void);

static void enter(void) { called(); }

int call_inside(void (*function)(void), uintptr_t at) {
    void *stack =
        mmap((void *)at, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED_NOREPLACE : 0), -1, 0);
    if (stack == MAP_FAILED) return -1;
    called = function;
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = SIZE;
    inside.uc_link = &outside;
    makecontext(&inside, enter, 0);
    swapcontext(&outside, &inside);
    return munmap(stack, SIZE);
}
