"""What can be said exactly of time: clocks.py OUT MODE CLOCK. Nothing here is over at a time, but when so many samples were
taken.

The main thread notes when each of many short phases began and ended, on the clock of timestamps, and reads its CPU clock before
and after all that it was sampled in. A thread sleeps from before the profile begins until after it ended."""

import json
import sys
import threading
import time

import spprof
import spprof.files.profile

OUT, MODE, CLOCK = sys.argv[1:]
SAMPLES, KEYS = 60, ["taken", "repeated"] if MODE == "wall" else ["taken"]
used, now = time.thread_time_ns, time.monotonic_ns


def alternate_a(end):
    while now() < end:
        pass


def alternate_b(end):
    while now() < end:
        pass


def asleep():
    over.wait()


def until_taken(samples):
    """Phases until so many samples more were taken, and in wall mode also repeated, as those of the sleeper are. A minute is
    for a clock that has stopped."""
    late, before, stats = now() + 60_000_000_000, spprof.stats(), spprof.stats()
    while now() < late and any(stats[key] < before[key] + samples for key in KEYS):
        begin = now()
        (alternate_a, alternate_b)[len(phases) % 2](begin + 3_000_000)
        phases.append((begin, now()))
        stats = spprof.stats()


phases, over = [], threading.Event()
sleeper = threading.Thread(target=asleep)
sleeper.start()
slept = time.pthread_getcpuclockid(sleeper.ident)
before = -1
while before != time.clock_gettime_ns(slept):  # until it sleeps
    before = time.clock_gettime_ns(slept)
    time.sleep(0.05)
used_0, now_0 = used(), now()
spprof.start(1, MODE, OUT, clock=CLOCK)
used_1, now_1 = used(), now()
until_taken(SAMPLES)
used_2, now_2 = used(), now()
until_taken(3)  # so that all until here is in a sample
spprof.stop()
used_3, now_3 = used(), now()
print(json.dumps({
    "phases": phases, "stats": spprof.stats(), "sleeper": sleeper.native_id, "main": threading.get_native_id(),
    "slept": time.clock_gettime_ns(slept) - before,
    "used": [used_2 - used_1, used_3 - used_0], "passed": [now_2 - now_1, now_3 - now_0],
}))  # fmt: skip
over.set()
