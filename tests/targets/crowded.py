"""Threads that know their own shares, where processors are scarce: crowded.py OUT CLOCK INTERVAL_MS PROGRAM PLACE. Prints what
each took.

A thread works in `a` and in `b` by turns of drawn length, some take a nap then; its CPU clock is read at each end. PLACE is
`one`: all of it on one processor, beside a process that always computes; `starved`: the same, and spprof's own threads get a
processor only if nobody else wants it; or a folder of a cgroup, which has a quota: in there, on all processors."""

import ctypes
import hashlib
import json
import os
import random
import subprocess
import sys
import threading
import time

import spprof
from spprof import _core

OUT, CLOCK, INTERVAL, PROGRAM, PLACE = sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4], sys.argv[5]
SECONDS = 0.8  # of CPU, of all threads together
cpu = time.thread_time_ns
block = bytes(16384)


def computing(times):
    for _ in range(times):
        sum(range(100))


def hashing(times):
    """Without the GIL."""
    for _ in range(times):
        hashlib.sha256(block)


def a(work, times):
    began = cpu()
    work(times)
    return cpu() - began


def b(work, times):
    began = cpu()
    work(times)
    return cpu() - began


# Threads, work, microseconds of a turn of `a` and of `b`, and of the nap.
THREADS, WORK, A, B, NAP = {
    "busy": (1, computing, 700, 300, 0),
    "naps": (1, computing, 70, 30, 50),
    "crowd": (5, hashing, 1400, 600, 0),
}[PROGRAM]


def turns(draw, ns):
    """For so much of the thread's CPU time. Returns ns in `a` and in `b`."""
    in_a = in_b = 0
    end = cpu() + ns
    while cpu() < end:
        factor = 0.5 + draw()
        in_a += a(WORK, max(1, int(A * factor / took)))
        in_b += b(WORK, max(1, int(B * factor / took)))
        if NAP:
            time.sleep(NAP / 1e6)
    return in_a, in_b


def thread(seed):
    draw = random.Random(seed).random
    while not found.is_set():
        turns(draw, 5_000_000)
    turns(draw, 20_000_000)  # what it owed when it was found goes to its first samples
    began, before = time.monotonic_ns(), cpu()
    in_a, in_b = turns(draw, SECONDS * 1e9 / THREADS)
    facts[threading.get_native_id()] = {
        "began": began, "ended": time.monotonic_ns(), "cpu": cpu() - before, "a": in_a, "b": in_b,
    }  # fmt: skip
    done.wait()  # its CPU clock is read until then


def own_threads():
    for tid in map(int, os.listdir("/proc/self/task")):
        with open(f"/proc/self/task/{tid}/comm") as comm:
            if comm.read().startswith("spprof-"):
                yield tid


facts, found, done = {}, threading.Event(), threading.Event()
ctypes.CDLL(None).prctl(29, 1)  # PR_SET_TIMERSLACK: naps as short as they are asked for
took = min(a(WORK, 100) for _ in range(50)) / 100 / 1000  # us
beside = []
if PLACE in ("one", "starved"):
    os.sched_setaffinity(0, {random.choice(sorted(os.sched_getaffinity(0)))})
    busy = "import os, sys\nwhile os.getppid() == int(sys.argv[1]): sum(range(100000))"
    beside = [subprocess.Popen([sys.executable, "-c", busy, str(os.getpid())])]
else:
    with open(os.path.join(PLACE, "cgroup.procs"), "w") as file:
        file.write(str(os.getpid()))
spprof.start(INTERVAL, "cpu", OUT, clock=CLOCK)
threads = [threading.Thread(target=thread, args=(i,)) for i in range(THREADS)]
for one in threads:
    one.start()
while _core.stats()["threads"] < THREADS + 1:  # with this one
    time.sleep(0.01)
if PLACE == "starved":
    for tid in own_threads():
        os.sched_setscheduler(tid, os.SCHED_IDLE, os.sched_param(0))
found.set()
while len(facts) < THREADS:
    time.sleep(0.01)
for process in beside:  # spprof's threads are needed now
    process.kill()
    process.wait()
spprof.stop()
done.set()
for one in threads:
    one.join()
print(json.dumps({"threads": facts, "stats": spprof.stats()}))
