"""many.py wall|cpu SECONDS: 100 threads that sleep (wall) or compute (cpu), profiled at 1 kHz; what happened to each, as JSON."""

import json
import os
import sys
import threading
import time

import spprof

THREADS = 100


def switches(tid):
    """Voluntary and other context switches of a thread."""
    with open(f"/proc/self/task/{tid}/status") as file:
        found = dict(line.split(":", 1) for line in file)
    return int(found["voluntary_ctxt_switches"]), int(found["nonvoluntary_ctxt_switches"])


def sampler():
    """(thread id, nanoseconds on the processor) of the sampler thread, or None."""
    for tid in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{tid}/comm") as file:
            if file.read().strip() == "spprof-sampler":
                try:
                    with open(f"/proc/self/task/{tid}/schedstat") as file:
                        return int(tid), int(file.read().split()[0])
                except OSError:  # a kernel without it: clock ticks, mostly 10 ms
                    with open(f"/proc/self/task/{tid}/stat") as file:
                        words = file.read().rsplit(")", 1)[1].split()
                    return int(tid), (int(words[11]) + int(words[12])) * 1_000_000_000 // os.sysconf("SC_CLK_TCK")
    return None


def wall(seconds):
    awake = threading.Event()
    sleepers = [threading.Thread(target=awake.wait) for _ in range(THREADS)]
    for sleeper in sleepers:
        sleeper.start()
    time.sleep(0.5)
    tids = [sleeper.native_id for sleeper in sleepers]
    spprof.start(1.0, "wall")
    time.sleep(0.5)
    before, clock = [switches(tid) for tid in tids], sampler()
    began = time.monotonic()
    time.sleep(seconds)
    lasted = time.monotonic() - began
    after, later = [switches(tid) for tid in tids], sampler()
    profile = spprof.stop()
    awake.set()
    for sleeper in sleepers:
        sleeper.join()
    samples = {thread.tid: thread for thread in profile.threads}
    return {
        "woken": sum(b != a for b, a in zip(before, after)),
        "wakings": sum(a[0] - b[0] for b, a in zip(before, after)),
        "sampler_share": (later[1] - clock[1]) / 1e9 / lasted if clock and later else None,
        "least_wall_s": min(samples[tid].weight for tid in tids if tid in samples) / 1e9,
        "silent": sum(tid not in samples or samples[tid].samples == 0 for tid in tids),
        "seconds": seconds,
        "tick_stats": profile.stats,
    }


def cpu(seconds):
    own = {}
    ready = threading.Barrier(THREADS + 1)

    def compute():
        ready.wait()
        before = time.thread_time_ns()
        end = time.monotonic() + seconds
        total = 0
        while time.monotonic() < end:
            for i in range(1000):
                total += i
        own[threading.get_native_id()] = time.thread_time_ns() - before

    workers = [threading.Thread(target=compute) for _ in range(THREADS)]
    spprof.start(1.0)
    for worker in workers:
        worker.start()
    ready.wait()
    for worker in workers:
        worker.join()
    profile = spprof.stop()
    weights = {thread.tid: thread.weight for thread in profile.threads}
    return {
        "silent": sum(weights.get(tid, 0) == 0 for tid in own),
        "least_cpu_ms": min(own.values()) / 1e6,
        "least_share": min(weights.get(tid, 0) / spent for tid, spent in own.items()),
        "most_share": max(weights.get(tid, 0) / spent for tid, spent in own.items()),
        "cpu_s": sum(own.values()) / 1e9,
        "tick_stats": profile.stats,
    }


print(json.dumps({"wall": wall, "cpu": cpu}[sys.argv[1]](float(sys.argv[2]))))
