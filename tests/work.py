"""Work of known length, for tests that profile themselves."""

import time

import spprof


def burn(seconds=0.05, samples=0):
    """Uses so much of the thread's CPU time, and goes on until so many samples more are taken: by timers there are few, of 4 to
    10 ms each. A thread that reads its own CPU clock all the time gets hardly any on a full machine (docs/troubleshooting.md), so
    that is read when the time may have been used up."""
    wanted, late = samples and spprof.stats()["taken"] + samples, time.monotonic() + 60
    end = time.thread_time() + seconds
    while True:
        left = end - time.thread_time()
        if left <= 0:
            if not samples or spprof.stats()["taken"] >= wanted or time.monotonic() > late:
                return
            left = 0.01
        until = time.monotonic() + left
        while time.monotonic() < until:
            sum(range(200))
