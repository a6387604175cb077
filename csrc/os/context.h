/* An interrupted or suspended thread, as the core sees it during a tick.
 *
 * "Handler" marks what runs while the thread cannot move: in its own signal handler, or on our thread that suspended it. No lock,
 * no allocation, bounded; and if it was suspended, nothing that it may hold: the allocator's lock, the loader's or the bell's. */
#ifndef SPPROF_OS_CONTEXT_H
#define SPPROF_OS_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

/* A suspended thread: facts that a handler would ask of the calling thread. */
typedef struct {
    int32_t tid;
    uint64_t cpu_ns; /* its CPU clock, read just before it was suspended */
    uintptr_t slots; /* for spp_os_slot_of */
} spp_os_subject;

typedef struct {
    uintptr_t pc, sp;
    bool at_syscall;     /* interrupted in a system call, or on its way in or out; set only where the core asks for it */
    uint32_t source;     /* SPP_TICK_EVENT: as armed */
    uint32_t more;       /* clock `signal`: so many more instants found the thread in the same call */
    bool coarse;         /* clock `signal`: the instant was drawn, but the scheduler chose the moment, so it is not random */
    uint64_t instant_ns; /* clock `signal`: the time one instant represents, if it is more than an interval */
    uint64_t began_ns;   /* clock `signal`: the monotonic clock, as the handler began; 0: not read */
    uint64_t looked_cpu; /* clock `signal`: the thread's CPU clock, as the last look read it; 0: no look did */
    uintptr_t called;    /* the tick belongs to this function, from which the thread has just returned; 0: it was interrupted */
    const void *machine;
    const spp_os_subject *subject; /* the suspended thread; NULL: the calling thread was interrupted */
} spp_os_context;

/* Handler. All general registers of the thread, by DWARF number. */
#define SPP_OS_REGISTERS 32u
void spp_os_registers(const spp_os_context *context, uintptr_t to[SPP_OS_REGISTERS]);
/* Handler. A thread-specific slot of a suspended thread, by a guarded read; 0 if it cannot be read. */
uintptr_t spp_os_slot_of(const spp_os_subject *subject, uint32_t slot);

/* The part of a thread's own C stack that can be read in place: [low, end). Zero at first. */
typedef struct {
    uintptr_t low, end;
} spp_os_stack;
/* Handler. Updates *stack and returns true if the thread is on its own stack, so that everything from its stack pointer to `end`
 * can be read in place while it stays there. Returns false on another stack (a coroutine's, an alternate one): probe each page.
 */
bool spp_os_stack_known(const spp_os_context *context, spp_os_stack *stack);
/* Of the calling thread: how far its own C stack may grow. {0, 0}: not known. Not a handler. */
spp_os_stack spp_os_stack_limits(void);

#endif
