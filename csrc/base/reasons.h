/* Why a thread is off the CPU: column `reason` of the file. src/spprof/model/waits.py has the same list, and a test compares
 * them. A number never gets another meaning. */
#ifndef SPPROF_BASE_REASONS_H
#define SPPROF_BASE_REASONS_H

/* running: it is not off the CPU; of a sample that is, nobody knows why, and readers make it `unknown`, which is in no file.
 * ready: it waits for a processor. kernel: page faults and calls that are none of the others, as of the disk's folders.
 * Of tasks of asyncio alone: loop: it could go on, but its event loop does something else. task, job, future: it waits for
 * another task, for a job of another thread, for another future; readers find out more by its line. */
#define SPP_REASONS(X) \
    X(running) X(ready) X(gil) X(lock) X(io) X(child) X(sleep) X(idle) X(kernel) X(unknown) X(loop) X(task) X(job) X(future)

typedef enum {
#define SPP_REASON_NUMBER(name) SPP_REASON_##name,
    SPP_REASONS(SPP_REASON_NUMBER)
#undef SPP_REASON_NUMBER
        SPP_REASON_COUNT
} spp_reason;

#endif
