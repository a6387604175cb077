"""crowd_start.py wall|cpu THREADS: starts a profile of so many threads that wait; says how long that took, and how long no other
thread of Python's ran meanwhile, and what share of a processor the profiler takes after a second."""

import sys
import threading
import time

import says

import spprof

MODE, THREADS = sys.argv[1], int(sys.argv[2])
AROUND_S = 0.2  # before and after the start: the sampler's first looks count


def watch(over, gaps):
    """The longest time between two turns of its own: it sleeps 0.2 ms in each, so it asks for the GIL all the time."""
    last = time.perf_counter()
    while not over.is_set():
        time.sleep(0.0002)
        now = time.perf_counter()
        gaps.append((now - last, now))
        last = now


def longest(gaps, begin, end):
    return max((gap for gap, at in gaps if begin <= at <= end), default=0.0)


threading.stack_size(65536)
done, over, gaps = threading.Event(), threading.Event(), []
waiting = [threading.Thread(target=done.wait) for _ in range(THREADS)]
for thread in waiting:
    thread.start()
watcher = threading.Thread(target=watch, args=(over, gaps))
watcher.start()
time.sleep(2 * AROUND_S)
began = time.perf_counter()
spprof.start(mode=MODE, interval_ms=1)
ended = time.perf_counter()
time.sleep(AROUND_S)
later = time.perf_counter()
over.set()
watcher.join()
time.sleep(1)
cpu, since = time.process_time(), time.perf_counter()
time.sleep(1)
taken = (time.process_time() - cpu) / (time.perf_counter() - since)
stats = spprof.stats()
spprof.stop()
done.set()
for thread in waiting:
    thread.join()
says.write(
    start_ms=(ended - began) * 1e3,
    alone_ms=longest(gaps, began - AROUND_S, began) * 1e3,
    gap_ms=longest(gaps, began, later) * 1e3,
    taken=taken,
    threads=stats["threads"],
)
