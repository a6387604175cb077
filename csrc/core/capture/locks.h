/* Python's locks, read from outside: which one a thread waits for, who owns it, and whose `with` blocks are open. Nothing is
 * recorded when a lock is taken, so one that nobody waits for costs nothing.
 *
 * An RLock has its owner. A Lock has none; but a frame in the block of `with lock:` keeps the lock, or its method __exit__, on
 * its stack of values until the block ends. How much of that stack is in use for sure, the table of exceptions says (3.9, 3.10:
 * the stack of blocks): an exception in the block would find it there. */
#ifndef SPPROF_CORE_CAPTURE_LOCKS_H
#define SPPROF_CORE_CAPTURE_LOCKS_H

#include <stdbool.h>
#include <stdint.h>

#define SPP_LOCKS_MOST 8u               /* of a thread's open blocks: the innermost */
#define SPP_LOCKS_UNREADABLE UINT32_MAX /* the thread moved meanwhile */

/* What the module found out about this interpreter (module/locks.c): addresses of types, and offsets. */
typedef struct {
    uintptr_t lock, rlock;                       /* types; lock 0: nothing is known of locks */
    uintptr_t builtin, method, function;         /* types: a method of C bound to its object, one of Python, a function */
    uintptr_t self;                              /* in a method of C */
    uintptr_t first;                             /* in a lock: its mutex, or the address of its semaphore */
    bool lock_is_mutex, rlock_is_mutex;          /* ... which of the two: 3.13 has one of each */
    uintptr_t owner;                             /* in an RLock: a pthread */
    uintptr_t exceptions, nlocalsplus;           /* in a code object, from 3.11 on */
    uintptr_t stacksize;                         /* in a code object */
    uintptr_t stack, block, blocks, block_level; /* in a frame, up to 3.10 */
    uintptr_t block_bytes;
} spp_lock_rules;
extern spp_lock_rules spp_lock_rule;

typedef struct {
    uintptr_t key;   /* the address of its mutex or semaphore; 0: none */
    uintptr_t rlock; /* the object, if it is an RLock */
} spp_awaited;

/* Below: the sampler of wall mode, by guarded reads. */

/* What a thread with this state waits for in a futex call with this address; key 0: not for a lock of Python's, or in
 * Condition.wait to be notified. */
spp_awaited spp_lock_awaited(uintptr_t tstate, uintptr_t futex);
/* The pthread that owns an RLock; 0: none, or the object is gone. */
uintptr_t spp_lock_owner(const spp_awaited *lock);
/* The keys of the locks whose blocks a thread with this state is in: the number of them, or SPP_LOCKS_UNREADABLE. */
uint32_t spp_locks_entered(uintptr_t tstate, uintptr_t keys[SPP_LOCKS_MOST]);

#endif
