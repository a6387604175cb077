"""A process of two threads and three children of two threads each, forked one after the other while the parent's thread works: so
three threads want a processor at a time. Each process writes what its own clocks say that each of its threads used: NAME.json, a
JSON object of thread ids and nanoseconds.

fork_sums.py [MODE RATE SEED]: with them each process profiles itself into NAME.spprof, and its main thread counts from the
start to the stop; without, the command that runs it records it, and main threads, which begin before and end after, are left
out."""

import json
import os
import random
import sys
import threading
import time

profiled = len(sys.argv) > 1
mode, rate, seed = (sys.argv[1], int(sys.argv[2]), int(sys.argv[3])) if profiled else ("cpu", 1000, 1)
if profiled:
    import spprof
random.seed(seed)
counted = {}


def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:  # read when it may have been used up: docs/troubleshooting.md, "Hardly any samples"
        until = time.monotonic() + end - time.thread_time()
        while time.monotonic() < until:
            sum(range(300))


def thread(seconds):
    burn(seconds)
    counted[threading.get_native_id()] = time.thread_time_ns()


def process(name, seconds, forks=()):
    counted.clear()
    if profiled:
        spprof.start(output_path=name + ".spprof", mode=mode, rate=rate)
    begin = time.thread_time_ns()
    worker = threading.Thread(target=thread, args=(seconds,))
    worker.start()
    for number in forks:
        burn(random.random() * 0.03)
        pid = os.fork()
        if pid == 0:
            process(f"child{number}", 0.15)
            sys.stdout.flush()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    burn(seconds)
    worker.join()
    if profiled:
        counted[threading.get_native_id()] = time.thread_time_ns() - begin
        spprof.stop()
    with open(name + ".json", "w") as file:
        json.dump({"pid": os.getpid(), "counted": counted}, file)


process("parent", 0.6, range(3))
