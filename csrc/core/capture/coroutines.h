/* Tasks of asyncio that do not run, each read from outside while its event loop goes on: the chain of coroutines down to the line
 * where it waits, what it waits for, and the tasks that await it.
 *
 * Nothing stops the loop meanwhile. Each step of a task enters a context and leaves it, and each of these adds to a number of its
 * thread's state. So if that number is the same before and after, no task has moved. What a step of another task may change
 * meanwhile (futures, names, the life of a task) is read twice: if nothing has changed, all of it was so between the two
 * readings, and what is reached from a task that lived then lived too. */
#ifndef SPPROF_CORE_CAPTURE_COROUTINES_H
#define SPPROF_CORE_CAPTURE_COROUTINES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/reasons.h"
#include "base/sample.h"
#include "core/capture/tasks.h"

#define SPP_CHAIN_MOST 64u    /* coroutines of a task; of more, the innermost */
#define SPP_AWAITERS_MOST 16u /* tasks that await one */

/* What the module knows of CPython (module/tasks.c). Constant while a run is active. Offsets; -1: there is none. */
typedef struct {
    long frame, top, base, depth; /* py/task_offsets.h, as are the next two */
    bool by_state;
    int above, awaits, awaits_too;
    uintptr_t task_node;                                     /* of a task: its place in a list of all (3.14+) */
    uintptr_t set_used, set_mask, set_table, weakref_object; /* of a set and of a reference in it */
    uintptr_t builtin_self, function_code, list_items;       /* of a C function, a Python function, a list */
    uintptr_t function_closure, cell_content, method_self;   /* of a Python function, a cell, a method */
    uintptr_t set, list, tuple, builtin, function, method;   /* types */
    uintptr_t parent;                                        /* a name, interned: _parent_task */
} spp_coroutine_rules;
extern spp_coroutine_rules spp_coroutine_rule;

/* Before 3.14: the set of weak references to all tasks. 0: it is not known yet. */
extern _Atomic uintptr_t spp_coroutine_all;

typedef struct {
    spp_frame frames[SPP_CHAIN_MOST]; /* the outermost coroutine first */
    uint32_t depth;
    bool cut; /* the outermost are missing */
    spp_reason reason;
    spp_task name;
    spp_task on; /* the task that it waits for */
    uint32_t awaiters;
    spp_task awaited_by[SPP_AWAITERS_MOST];
} spp_waiting_task;

typedef enum {
    SPP_TASK_WAITS, /* or is ready, but does not run */
    SPP_TASK_RUNS,
    SPP_TASK_CHANGED, /* while it was read */
    SPP_TASK_GONE,    /* this is no task, or not any more */
} spp_task_state;

/* Any thread but not a handler; one thread at a time. The loop of a task; 0: it is none. */
uintptr_t spp_coroutines_loop(uintptr_t task);
/* The same. `from`: 0, or the weak reference in a set that gave the task; `tstate`: of the thread in which its loop runs. If the
 * state is WAITS and the drain lock was held from before the call, the code objects of its frames live until that is released. */
spp_task_state spp_coroutines_read(uintptr_t task, uintptr_t from, uintptr_t tstate, spp_waiting_task *to);

#endif
