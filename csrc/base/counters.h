/* What the tick stats count of samples, and of ticks that gave none. Each counter is one row: all that keeps, sums and writes it
 * is made from the row. */
#ifndef SPPROF_BASE_COUNTERS_H
#define SPPROF_BASE_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

/* X(name, key, native): what samples lacked, of a thread; its key in the tick stats; whether only native frames may lack it, so
 * that without them it is left out. */
#define SPP_COUNTERS(X)                                                                         \
    X(truncated, "truncated", false)     /* deeper than the configured depth */                 \
    X(unpaired, "native_unpaired", true) /* native frames that did not fit the Python frames */ \
    X(gaps, "native_gaps", true)         /* native frames are missing */

enum spp_counter {
#define X(name, key, native) SPP_COUNTER_##name,
    SPP_COUNTERS(X)
#undef X
        SPP_COUNTERS_N,
};

typedef struct {
    const char *key;
    bool native;
} spp_counter_row;
extern const spp_counter_row spp_counter_rows[SPP_COUNTERS_N];

/* Every tick that gives no sample ends in exactly one of these.
 *
 * X(name, title): reasons for which a tick gives no sample. The first group are validation drops: the frame chain was
 * caught in the middle of a change and failed a check of frames.c. */
#define SPP_LOSSES(X)                                                                                  \
    X(bad_cframe, "thread's frame anchor was not on its stack")                                        \
    X(bad_frame, "a frame lay outside every place where frames can be")                                \
    X(bad_owner, "a frame's owner did not fit its place")                                              \
    X(bad_order, "frames were not in the order of calls")                                              \
    X(bad_generator, "a generator's frame was not in a generator")                                     \
    X(bad_code, "a frame's code was not a code object")                                                \
    X(bad_offset, "an instruction lay outside its code")                                               \
    X(queue_full, "the thread's queue was full: the drain thread came too late")                       \
    X(store_full, "the drain thread's memory limit was reached")                                       \
    X(writer_behind, "the output took no more: too much waited to be written")                         \
    X(not_written, "the file could not be written")                                                    \
    X(overrun, "the kernel merged this tick with the next one (timer resolution or a late interrupt)") \
    X(slow_tick, "one tick took so long that they came more rarely, for the program to go on")         \
    X(in_kernel, "fell inside the kernel; its time is in one sample at the end of the system call")    \
    X(signals_blocked, "the thread blocks the signal")                                                 \
    X(no_trigger, "nothing ticked: the program closed the descriptor, or the system gave no timer")    \
    X(not_suspended, "the system did not let the thread be suspended")                                 \
    X(no_stack, "the thread's alternate signal stack was too small for a walk")                        \
    X(before_found, "the thread had not been found yet, or ended before its next tick")                \
    X(in_hook, "a sample of another kind was just being taken")                                        \
    X(moved, "threads came or went while an off-CPU thread was looked up")                             \
    X(task_changed, "a task went on while it was read, or another thread was replacing the table of tasks")

enum spp_loss {
#define X(name, title) SPP_LOSS_##name,
    SPP_LOSSES(X)
#undef X
        SPP_LOSS_COUNT,
    SPP_LOSS_NONE = -1,
};

#define SPP_LOSS_LAST_VALIDATION SPP_LOSS_bad_offset

/* Key (as in stats()) and title (for people) of each loss. */
extern const char *const spp_loss_keys[SPP_LOSS_COUNT];
extern const char *const spp_loss_titles[SPP_LOSS_COUNT];

#endif
