/* Tasks of asyncio: a sample carries the name of the task that runs at its instant.
 *
 * From 3.14 on a thread's state names its running task. Before, a dict of the module `_asyncio` does, by event loop, and the
 * thread's state says which loop runs. Both are read where they are, by guarded reads; nothing of the program's is changed. */
#ifndef SPPROF_CORE_CAPTURE_TASKS_H
#define SPPROF_CORE_CAPTURE_TASKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SPP_TASK_WORDS 16u  /* of a name; longer ones are cut */
#define SPP_TASK_NUMBERED 8 /* the kind of a task that was given no name (3.12+): its number, which its name will be made of */

/* A task's name as CPython has it. */
typedef struct {
    uint32_t bytes; /* 0: no task runs, or it has no name that can be read */
    uint32_t kind;  /* bytes of a character, or SPP_TASK_NUMBERED */
    uint64_t text[SPP_TASK_WORDS];
} spp_task;

/* What the module knows of CPython (module/tasks.h). Constant while a run is active. */
typedef struct {
    uintptr_t modules;                        /* the dict `sys.modules`; 0: nothing is looked up */
    uintptr_t asyncio, task, future, current; /* keys, interned: _asyncio, Task, Future, _current_tasks */
    uintptr_t loop;                           /* a thread state's dict has its loop by this key */
    uintptr_t tstate_dict, basicsize, base;   /* offsets: of that dict; of a type's size and base */
    uintptr_t tstate_version; /* and of a number in a thread state, which is another at each step of a task: context_ver */
    long tstate_loop, tstate_task, tstate_tasks; /* offsets in a thread state; -1: it has none */
    uintptr_t str, integer, module, dict, type;  /* types; `integer` 0: names are no numbers */
    void (*check)(void); /* called when asyncio is found, and when there are tasks; on the drain thread and the sampler */
} spp_task_rules;
extern spp_task_rules spp_task_rule;

/* `_asyncio.Task`; 0: samples have no tasks, since the program has not imported asyncio. */
extern _Atomic uintptr_t spp_task_type;

/* The name of the task that a thread runs. `own`: in a handler, for its own thread. `other`: on any thread but not in a handler,
 * for a thread that does not run. False: it cannot be known now. */
bool spp_task_own(uintptr_t tstate, spp_task *task);
bool spp_task_other(uintptr_t tstate, spp_task *task);

/* Whether a task's structure is another than spprof knows: no sample has a task, and the tick stats say so. */
extern _Atomic bool spp_task_unknown;
/* Any thread: that is so. */
void spp_task_refuse(void);

/* Of other threads' objects, which may be gone; any thread but not in a handler. Whether one is a task, or a future (each task is
 * one too); the name of a task; the text of a str; the loop that runs in a thread, or 0. */
bool spp_task_is(uintptr_t object);
bool spp_task_is_future(uintptr_t object);
void spp_task_name_of(uintptr_t task, spp_task *name);
void spp_task_text(uintptr_t text, spp_task *to);
uintptr_t spp_task_loop(uintptr_t tstate);
/* The task that runs in a thread, or 0. */
uintptr_t spp_task_running(uintptr_t tstate);

/* Looks whether the program has imported asyncio by now. Not a handler; one thread at a time. */
void spp_task_look(void);
/* Before a run: what was found is forgotten. */
void spp_task_forget(void);

/* The value of a key in a dict, found by identity; 0: none. As a handler reads, or another thread. For the module's proof. Not a
 * handler. */
uintptr_t spp_task_found(uintptr_t dict, uintptr_t key, bool from_outside);

#endif
