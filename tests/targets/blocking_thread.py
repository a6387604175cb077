"""A thread that blocks every signal, beside one that does not: blocking_thread.py OUT SECONDS

Each works for so long of its CPU time, and until the file has a sample of it; a thread that blocks all, until that was seen."""

import ctypes
import json
import platform
import sys
import threading
import time

from drive import repeat

import spprof
from spprof.model import COARSE

OUT, SECONDS = sys.argv[1], float(sys.argv[2])
late = time.monotonic() + 60
took = {}
libc = ctypes.CDLL(None)


def in_file(name):
    """Whether the file has it, and the tick stats what is to be there. A minute is for a profiler that does not."""
    spprof.flush()
    seen = name != "deaf" or CLOCK == "timer" or spprof.stats()["losses"]["signals_blocked"] > 0
    # Before it blocked them all it may have got a tick. On Linux a timer serves it then.
    coarse = name == "deaf" and platform.system() == "Linux"
    samples = [sample for sample in spprof.Profile.load(OUT).samples() if not coarse or sample.flags & COARSE]
    found = {frame.name for sample in samples for frame in sample.frames}
    return seen and name in found or time.monotonic() > late


def burn(name):
    time.sleep(0.3 if SECONDS > 0.5 else 0)  # it is found meanwhile
    begin = time.thread_time_ns()
    repeat(lambda: sum(range(1000)), SECONDS, time.thread_time)
    took[name] = time.thread_time_ns() - begin
    while not in_file(name):
        repeat(lambda: sum(range(1000)), 0.02, time.thread_time)
        took[name] = time.thread_time_ns() - begin


def deaf():
    every = (ctypes.c_ubyte * 128)(*[255] * 128)
    assert libc.pthread_sigmask(0, every, None) == 0
    burn("deaf")


def normal():
    burn("normal")


spprof.start(1, "cpu", OUT)
CLOCK = spprof.stats()["clock"]
for function in (deaf, normal):
    thread = threading.Thread(target=function, name=function.__name__)
    thread.start()
    thread.join()
spprof.stop()
print(json.dumps({"took": took, "stats": spprof.stats()}))
