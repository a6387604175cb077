"""The interpreter shuts down while it is profiled: daemon threads still run, threads leave by sys.exit, callbacks of atexit run
in their order, and the profile is finished by none of them."""

import atexit
import sys
import threading

UNITS = 4
STOPS = False  # the shutdown stops the profiler
STATUS = 3
ROOTS = {"said_first", "said_last", "_shutdown"}
LEAST = {"cpu": 0.0, "wall": 0.0}  # nobody is left to read clocks at the end


def work(n):
    return sum([i * 2 for i in range(n)])


def daemon():
    while True:
        work(1000)


def leaves():
    work(20000)
    sys.exit(9)  # ends the thread, not the program


def said_first():
    work(3000)
    print("registered last, called first")


def said_last():
    work(3000)
    print("registered first, called last")


def main(units):
    atexit.register(said_last)
    atexit.register(said_first)
    for _ in range(4):
        threading.Thread(target=daemon, daemon=True).start()
    threads = [threading.Thread(target=leaves) for _ in range(units)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    work(units * 100000)
    return units


def last():
    """Called by the driver after it said what main returned."""
    sys.exit(STATUS)
