"""A program in step with the kernel's tick, at each of so many phases of it: in_step.py FOLDER CLOCK PHASES CPU_SECONDS NAPS.

In each step of the tick `a` takes 0.7 and `b` 0.3; with naps 0.35 and 0.15, and a sleep until the next step begins. Profiles are
FOLDER/0.spprof and so on; prints of each the thread's CPU time in all, in `a` and in `b`. (By its own clock: on a busy machine
what it is off the processor is often too short to be seen as a gap between two readings of another clock.)"""

import json
import os
import sys
import time

import spprof

FOLDER, CLOCK, PHASES, SECONDS, NAPS = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), sys.argv[5] == "naps"
STEP = round(time.clock_getres(6) * 1e9)  # CLOCK_MONOTONIC_COARSE, which advances at each tick
now, used = time.monotonic_ns, time.thread_time_ns


def a(end):
    while now() < end:
        pass


def b(end):
    while now() < end:
        pass


def program(phase):
    in_a = in_b = 0
    part_a, part_b = (STEP * 7 // 20, STEP // 2) if NAPS else (STEP * 7 // 10, STEP)
    at = (now() // STEP + 1) * STEP + STEP * phase // PHASES
    late = at + 10 * SECONDS * 1e9
    while in_a + in_b < SECONDS * 1e9 and at < late:
        t0 = used()
        a(at + part_a)
        t1 = used()
        b(at + part_b)
        t2 = used()
        in_a, in_b = in_a + t1 - t0, in_b + t2 - t1
        at += STEP
        left = at - now()
        if left < -STEP:  # it was kept from the processor
            at += -left // STEP * STEP
        elif NAPS and left > 0:
            time.sleep(left / 1e9)
    return in_a, in_b


truths = []
for phase in range(PHASES):
    spprof.start(1, "cpu", os.path.join(FOLDER, f"{phase}.spprof"), clock=CLOCK)
    began = used()
    parts = program(phase)
    truths.append([used() - began, *parts])
    spprof.stop()
print(json.dumps(truths))
