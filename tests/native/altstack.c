/* An alternate signal stack whose use can be seen: filled with a pattern, above memory that nothing may touch. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BELOW 65536
#define PATTERN 0xa5

static uint8_t *memory;
static size_t size;
static volatile uintptr_t seen;

static void look(int signum) {
    (void)signum;
    seen = (uintptr_t)__builtin_frame_address(0);
}

/* Gives the calling thread an alternate stack of so many bytes. */
int alternate(size_t bytes) {
    memory = mmap(NULL, BELOW + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return -1;
    size = bytes;
    memset(memory, PATTERN, BELOW + bytes);
    stack_t own = {.ss_sp = memory + BELOW, .ss_size = bytes};
    return sigaltstack(&own, NULL);
}

/* What the kernel itself takes of it for one signal, up to the handler's own frame. */
size_t kernels_part(void) {
    struct sigaction action, old;
    memset(&action, 0, sizeof action);
    action.sa_handler = look;
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR2, &action, &old);
    raise(SIGUSR2);
    sigaction(SIGUSR2, &old, NULL);
    uintptr_t top = (uintptr_t)memory + BELOW + size;
    memset(memory, PATTERN, BELOW + size);
    return top - seen;
}

/* How much of it was used at most; more than its size: what lies below it was overwritten. */
size_t used(void) {
    size_t at = 0;
    while (at < BELOW + size && memory[at] == PATTERN) at++;
    return BELOW + size - at;
}

/* Computes, and returns how much of the usual stack below was written to meanwhile: dead memory, but for a handler that runs
 * there.
 */
#define DEAD 32768
__attribute__((noinline)) size_t written_below(unsigned long n) {
    volatile uint8_t *low = (volatile uint8_t *)__builtin_frame_address(0) - 1024 - DEAD;
    size_t at = 0;
    for (size_t i = 0; i < DEAD; i++) low[i] = PATTERN;
    for (volatile unsigned long i = 0; i < n; i++) {}
    while (at < DEAD && low[at] == PATTERN) at++;
    return DEAD - at;
}

/* ---- a handler of the program's that asks for no alternate stack */

static volatile int noted, there;

static void note(int signum) {
    uintptr_t here = (uintptr_t)__builtin_frame_address(0), low = (uintptr_t)memory;
    (void)signum;
    noted++;
    there += here >= low && here < low + BELOW + size;
}

int handle(int signum) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = note;
    return sigaction(signum, &action, NULL);
}

/* How often it ran, and there. */
int times(void) { return noted; }
int times_there(void) { return there; }

/* Whether the kernel itself calls that handler. */
int kernel_has(int signum) {
    struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        unsigned long mask;
    } now = {0};
    return syscall(SYS_rt_sigaction, signum, NULL, &now, sizeof now.mask) == 0 && now.handler == note;
}
