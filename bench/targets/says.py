"""What a target finds out about itself, written as JSON to the file $BENCH_SAYS.

    with says.work(): ...       # clocks before and after; arms the empty handler if $BENCH_EMPTY asks for it
    work = says.work().begin(); ...; work.end()      # the same

BENCH_EMPTY=LIBRARY,CLOCK,NANOSECONDS arms bench/empty.c on the calling thread for the time of the work."""

import json
import os
import threading
import time


def write(**facts):
    path = os.environ.get("BENCH_SAYS")
    if path:
        with open(path, "w") as file:
            json.dump(facts, file)


class work:
    def __init__(self, **facts):
        self.facts = facts
        self.empty = None

    def begin(self):
        asked = os.environ.get("BENCH_EMPTY")
        if asked:
            import ctypes

            library, clock, period = asked.split(",")
            self.empty = ctypes.CDLL(library)
            self.empty.empty_count.restype = ctypes.c_uint64
            if self.empty.empty_arm(clock.encode(), ctypes.c_uint64(int(period))) != 0:
                raise OSError("the empty handler cannot be armed on " + clock)
        self.cpu = time.process_time_ns()
        self.thread_cpu = time.thread_time_ns()
        self.began = time.monotonic_ns()
        return self

    def end(self):
        ended = time.monotonic_ns()
        thread_cpu = time.thread_time_ns() - self.thread_cpu
        cpu = time.process_time_ns() - self.cpu
        if self.empty is not None:
            self.empty.empty_disarm()
            self.facts["ticks"] = self.empty.empty_count()
        write(
            began_ns=self.began,
            ended_ns=ended,
            thread_cpu_ns=thread_cpu,
            cpu_ns=cpu,
            tid=threading.get_native_id(),
            **self.facts,
        )

    def __enter__(self):
        return self.begin()

    def __exit__(self, *error):
        self.end()
