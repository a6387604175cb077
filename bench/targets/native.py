"""native.py SECONDS INTERVAL_MS NATIVE NESTED: cycles of the signal handler with native frames (NATIVE empty: without), as JSON.

The stack: Python code called by C code called by Python code, NESTED times over, and C code of the library at the leaf."""

import functools
import json
import re
import sys
import time
import zlib

import spprof
from spprof import _core

data = bytes(range(256)) * 8


def leaf(end):
    total = 0
    while time.thread_time() < end:
        for _ in range(20):
            total += len(zlib.compress(data)) + len(re.sub("a+", lambda found: found[0], "aab" * 20)) + sum(map(abs, range(200)))
    return total


def down(n, end):
    if n == 0:
        return leaf(end)
    if n % 2:
        return sorted([n], key=lambda one: down(one - 1, end))
    return functools.reduce(lambda a, b: down(a - 1, end), [n, n])


def main(seconds, interval_ms, native, nested):
    spprof.start(interval_ms, native=native or False)
    down(nested, time.thread_time() + seconds)
    profile = spprof.stop()
    cycles = sorted(_core.handler_cycles())
    tick_stats = spprof.stats()
    frames = python = samples = 0
    for stack, total in profile.aggregate().items():
        samples += total.samples
        frames += total.samples * sum(frame.native for frame in stack)
        python += total.samples * sum(not frame.native for frame in stack)
    print(
        json.dumps(
            {
                "n": len(cycles),
                "median": cycles[len(cycles) // 2] if cycles else None,
                "p90": cycles[len(cycles) * 9 // 10] if cycles else None,
                "native_frames": frames / samples,
                "python_frames": python / samples,
                "unpaired": tick_stats.get("native_unpaired", 0),
                "taken": tick_stats["taken"],
                "expected": tick_stats["expected"],
                "clock": tick_stats["clock"],
            }
        )
    )


main(float(sys.argv[1]), float(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
