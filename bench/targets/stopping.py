"""stopping.py SAMPLES FILE: milliseconds of start(), and of stop() with writing speedscope after so many samples at 20 kHz."""

import sys
import time

import says

import spprof


def down(n):
    if n:
        return down(n - 1)
    total = 0
    for i in range(1000):
        total += i
    return total


def main(samples, file):
    began = time.perf_counter()
    spprof.start(0.05)
    started = time.perf_counter()
    depth = 0
    while samples and spprof.stats()["taken"] < samples:
        for _ in range(2000):
            depth = (depth + 1) % 30
            down(depth)
    before = time.perf_counter()
    profile = spprof.stop()
    stopped = time.perf_counter()
    if samples:
        profile.save(file, "speedscope")
    saved = time.perf_counter()
    says.write(
        start_ms=(started - began) * 1e3,
        stop_ms=(stopped - before) * 1e3,
        save_ms=(saved - stopped) * 1e3,
        taken=spprof.stats()["taken"],
    )


main(int(sys.argv[1]), sys.argv[2])
