"""brief.py THREADS MS AT_ONCE FILE: so many threads of so much CPU time each, some of them at once; says what their own clocks
and the profile make of it.

The name of each says which of ten functions it runs, so a sample in another one's function has a wrong name."""

import sys
import threading
import time

import says

import spprof

THREADS, MS, AT_ONCE, FILE = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
KINDS = 10
WORK = """
def work_{0}():
    end = time.thread_time_ns() + {1}
    while time.thread_time_ns() < end:
        sum(range(200))
    used.append(time.thread_time_ns())
"""

used = []
for kind in range(KINDS):
    exec(WORK.format(kind, int(MS * 1e6)))
spprof.start(1, "cpu", FILE)
began = time.perf_counter()
for first in range(0, THREADS, AT_ONCE):
    some = range(first, min(first + AT_ONCE, THREADS))
    threads = [threading.Thread(target=globals()[f"work_{i % KINDS}"], name=f"brief-{i}") for i in some]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
took = time.perf_counter() - began
profile = spprof.stop()
stats = profile.stats
called = {thread.id: thread.name for thread in profile.threads}
weight = samples = wrong = 0
for sample in profile.samples():
    kinds = [frame.name[len("work_") :] for frame in sample.frames if frame.name.startswith("work_")]
    name = called[sample.thread]
    if name.startswith("brief-"):
        weight += sample.weight
        samples += 1
    if kinds and not (name.startswith("brief-") and name.endswith(kinds[-1])):
        wrong += 1
names = [thread.name for thread in profile.threads if thread.name.startswith("brief-")]
says.write(
    own_ns=sum(used),
    weight=weight,
    samples=samples,
    wrong=wrong,
    found=len(names),
    twice=len(names) - len(set(names)),
    others=sorted({thread.name for thread in profile.threads if not thread.name.startswith("brief-")}),
    lost={reason: n for reason, n in stats["losses"].items() if n},
    lost_ns=sum(stats["losses"].values()) * stats["interval_ns"],
    took=took,
)
