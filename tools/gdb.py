"""What spprof keeps of each thread, for gdb: gdb -x tools/gdb.py -p PID, or `source tools/gdb.py` in gdb.

  spprof-threads        a line for each thread that is sampled: slot, id, ticks, samples, words that wait in its queue
  spprof-queue TID      the records that wait in a thread's queue, oldest first; each frame with its code object's address

Reads memory and calls nothing in the program, so it works on a core dump and while threads hold locks. Needs debug information:
`make dev`, and the interpreters of tools/matrix, have it. Ticks go on: `handle SIGURG nostop noprint pass` is set.
"""

import gdb

RECORD_WORDS = 3  # SPP_RECORD_HEAD: time, weight, and depth | flags << 16 | new frames << 32 | label's words << 48
OFFSET_BITS = 20  # SPP_OFFSET_BITS of base/sample.h, on x86_64
NO_OFFSET = (1 << OFFSET_BITS) - 1
NATIVE_BITS = NO_OFFSET & ~31
STATES = ("free", "armed", "ended")  # spp_thread_state, which an optimized build has no name of


def atomic(value):
    """gdb shows an _Atomic as its type."""
    return int(value.cast(value.type.unqualified()))


def threads():
    slab = gdb.parse_and_eval("spp_threads")
    if int(slab) == 0:
        raise gdb.GdbError("no run has begun in this process")
    for slot in range(atomic(gdb.parse_and_eval("spp_threads_used"))):
        thread = slab[slot]
        if int(thread["tid"]) != 0:
            yield slot, thread


def ends(thread):
    queue = thread["tick"]["queue"]
    return atomic(queue["tail"]), atomic(queue["head"])


def frame(word):
    low = word & NO_OFFSET
    if low & ~15 == NATIVE_BITS:
        return f"native {word >> OFFSET_BITS << 3 | word & 7:#x}"
    if low == NATIVE_BITS | 16:
        return f"resolved, id {word >> OFFSET_BITS}"
    return f"code {word >> OFFSET_BITS << 3:#x}" + ("" if low == NO_OFFSET else f" + {low * 2}")


class Threads(gdb.Command):
    """The threads that spprof samples."""

    def __init__(self):
        super().__init__("spprof-threads", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        for slot, thread in threads():
            tick, (tail, head) = thread["tick"], ends(thread)
            print(
                f"slot {slot}  tid {int(thread['tid'])}  {STATES[atomic(thread['state'])]}"
                f"  {thread['clock']}  {atomic(tick['ticks'])} ticks, {atomic(tick['taken'])} samples, {head - tail} words wait"
            )


class Queue(gdb.Command):
    """The records that wait in the queue of the thread TID."""

    def __init__(self):
        super().__init__("spprof-queue", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        found = [thread for _, thread in threads() if argument and int(thread["tid"]) == int(argument, 0)]
        if not found:
            raise gdb.GdbError("spprof-queue TID, one of spprof-threads")
        for thread in found:
            self.show(thread)

    def show(self, thread):
        words = thread["tick"]["queue"]["words"]
        at, head = ends(thread)
        size = 1 << 14  # SPP_QUEUE_WORDS
        while at < head:
            now, weight, rest = (int(words[(at + i) % size]) for i in range(RECORD_WORDS))
            depth, flags, fresh, labels = (rest >> shift & 0xFFFF for shift in (0, 16, 32, 48))
            print(f"at {at}: {now} ns, weight {weight} ns, depth {depth}, flags {flags:#x}, {fresh} new frames")
            at += RECORD_WORDS + labels
            for i in range(fresh):
                print(f"    {frame(int(words[(at + i) % size]))}")
            at += fresh
        print(f"{at - head} words too many" if at > head else f"read to the end, {head}")


gdb.execute("handle SIGURG nostop noprint pass", to_string=True)
Threads()
Queue()
