"""handler.py SECONDS: cycles of the signal handler at 10 kHz with 25 frames on the stack, as JSON."""

import json
import sys
import time

import spprof
from spprof import _core


def down(n, end):
    if n:
        return down(n - 1, end)
    total = 0
    while time.thread_time() < end:
        for i in range(3000):
            total += i
    return total


def main(seconds):
    spprof.start(0.1)
    down(22, time.thread_time() + seconds)  # with main and <module>: 25
    spprof.stop()
    cycles = sorted(_core.handler_cycles())
    n = len(cycles)
    tick_stats = spprof.stats()
    print(
        json.dumps(
            {
                "n": n,
                "median": cycles[n // 2] if n else None,
                "p90": cycles[n * 9 // 10] if n else None,
                "p99": cycles[n * 99 // 100] if n else None,
                "taken": tick_stats["taken"],
                "expected": tick_stats["expected"],
                "clock": tick_stats["clock"],
            }
        )
    )


main(float(sys.argv[1]))
