"""How long a part of a program took, by clocks that are not the profiler's: `with part("heavy"): heavy()`.

Written to the folder $TORTURE_TRUTH, a file for each process, when that ends (or by `write`, where its finalisers
do not run). Nothing of it is printed: what a program prints must not depend on time."""

import atexit
import json
import os
import threading
import time
from collections import defaultdict

_lock = threading.Lock()
_sums = defaultdict(lambda: [0, 0])


class part:
    """The name is that of a function that is called within and nowhere else; it must not end up on another thread."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.cpu, self.wall = time.thread_time_ns(), time.monotonic_ns()

    def __exit__(self, *error):
        cpu, wall = time.thread_time_ns() - self.cpu, time.monotonic_ns() - self.wall
        with _lock:
            _sums[self.name][0] += cpu
            _sums[self.name][1] += wall


def write():
    folder = os.environ.get("TORTURE_TRUTH")
    if folder and _sums:
        with open(os.path.join(folder, f"{os.getpid()}.json"), "w") as file:
            json.dump(_sums, file)


atexit.register(write)
os.register_at_fork(after_in_child=_sums.clear)


def burn(n):
    """Work that has a result: so much of it that 100 take about 1 ms."""
    return sum([i * i % 7 for i in range(n)])
