/* The handshake of a handler and the end of a run (csrc/core/capture/capture.c, run.c), for spin (tests/model/run): "stop() clears `active`,
 * then waits for `busy`: one of the two sees the other". This is Dekker's pattern, which every processor with store buffers breaks,
 * x86_64 too, if it may: a thread that stores one location and loads the other can be given the old value by both. So those four
 * accesses are sequentially consistent. As in queue.pml a location keeps its values, and a weak load may give an older one; a
 * consistent one gives the newest. -DWEAK: all four are acquire and release; then the handler must be found at work when all is
 * freed. */

byte actives = 1, active_value[2] = 1; /* 1, and then 0 */
byte busies = 1, busy_value[5];        /* 0, and then 1 and 0 for each tick */
bool freed;

#define STORE(values, list, x) atomic { list[values] = x; values++ }
#ifdef WEAK
#define LOAD(to, values, list, seen) atomic { do :: seen + 1 < values -> seen++ :: break od; to = list[seen] }
#else
#define LOAD(to, values, list, seen) atomic { seen = values - 1; to = list[seen] }
#endif

proctype handler() {
    byte seen, value, ticks;
    do
    :: ticks == 2 -> break
    :: ticks < 2 ->
        ticks++;
        STORE(busies, busy_value, 1);
        LOAD(value, actives, active_value, seen);
        if
        :: value == 1 -> assert(!freed); assert(!freed) /* walks, and pushes */
        :: else -> skip
        fi;
        STORE(busies, busy_value, 0)
    od
}

proctype stop() {
    byte seen, busy = 1;
    STORE(actives, active_value, 0);
    do
    :: busy == 0 -> break
    :: busy != 0 -> LOAD(busy, busies, busy_value, seen)
    od;
    freed = true
}

init {
    atomic {
        active_value[1] = 0;
        run handler();
        run stop()
    }
}
