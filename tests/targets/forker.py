"""Forks beside busy threads, in many ways. Threads of the parent and each child run functions that the other never runs.

forker.py OUT WAY THREADS CHILDREN MODE RATE SEED [LIBRARY]: each child profiles itself into OUT.N.spprof
and works until it has samples. LIBRARY: of tests/native/forks.c, for the ways of C.
What it prints is a JSON list: of each child its number, how it ended, and its tick stats' `taken`."""

import contextlib
import ctypes
import json
import os
import random
import signal
import sys
import threading
import time
import traceback

import spprof

out, way, threads, children, mode, rate, seed = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:5]), sys.argv[5], *map(int, sys.argv[6:8])
forks = ctypes.PyDLL(sys.argv[8]) if len(sys.argv) > 8 else None
random.seed(seed)
over = False
SAMPLES = 10
# Without the GIL a child waits for ever for CPython's lock of new code, if a thread had it at the fork (3.13.15: 3 of 400 children
# of a program without spprof).
making = contextlib.nullcontext() if getattr(sys, "_is_gil_enabled", lambda: True)() else threading.Lock()


def of_the_parent(n):
    return sum(range(100 + n))


def parents_thread(n):
    while not over:
        exec_made(n)


def exec_made(n):
    """Code objects die all the time, as at a fork; and a part of the time is not spent on a processor."""
    names = {"of_the_parent": of_the_parent}
    with making:
        code = compile(f"def made_by_the_parent(k):\n  for i in range(50): of_the_parent(k)\nmade_by_the_parent({n})", "<string>", "exec")
    exec(code, names)
    if n % 3 == 0:
        time.sleep(0.0005)


def of_the_child(n):
    return sum(range(100 + n))


def childs_thread(n):
    late = time.monotonic() + 60
    while time.monotonic() < late:
        of_the_child(n)
        if n % 16 == 0 and spprof.stats()["taken"] >= SAMPLES:
            break


def child(number):
    # Whatever else this process inherited to run, it does not.
    signal.alarm(120)
    try:
        spprof.start(output_path=f"{out}.{number}.spprof", mode=mode, interval_ms=1000 / rate)
        for n in range(1 << 30):
            of_the_child(n % 64)
            if n % 64 == 0 and spprof.stats()["taken"] >= SAMPLES:
                break
        spprof.stop()
    except BaseException:  # its stderr may be a terminal that nobody reads
        with open(f"{out}.errors", "a") as errors:
            traceback.print_exc(file=errors)
        os._exit(1)
    os._exit(0)


def by_fork(number):
    pid = os.fork()
    if pid == 0:
        child(number)
    return pid


def by_forkpty(number):
    pid, fd = os.forkpty()
    if pid == 0:
        child(number)
    os.set_inheritable(fd, False)
    return pid


def by_thread(number):
    pids = []

    def forks():
        pids.append(by_fork(number))

    thread = threading.Thread(target=forks)
    thread.start()
    thread.join()
    return pids[0]


def by_grandchild(number):
    pid = os.fork()
    if pid == 0:
        signal.alarm(120)
        spprof.start(output_path=f"{out}.{number}.between.spprof", mode=mode, interval_ms=1000 / rate)
        of_the_child(1)
        below = by_fork(number)
        status = os.waitpid(below, 0)[1]
        spprof.stop()
        os._exit(0 if status == 0 else 1)
    return pid


def by_c(number):
    pid = forks.by_c()
    if pid == 0:
        child(number)
    return pid


def by_system_call(number):
    pid = forks.by_system_call()
    if pid == 0:
        child(number)
    return pid


def main():
    global over
    started = [threading.Thread(target=parents_thread, args=(n,)) for n in range(threads)]
    for thread in started:
        thread.start()
    spprof.start(output_path=f"{out}.spprof", mode=mode, interval_ms=1000 / rate)
    ended = []
    for number in range(children):
        time.sleep(random.random() * 0.05)
        with making:
            pid = globals()[f"by_{way}"](number)
        ended.append([number, os.waitpid(pid, 0)[1]])
    over = True
    for thread in started:
        thread.join()
    spprof.stop()
    print(json.dumps(ended))


main()
