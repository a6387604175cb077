"""A thread that blocks every signal, beside one that does not: blocking_thread.py OUT"""

import ctypes
import json
import sys
import threading
import time

from drive import repeat

import spprof

took = {}
libc = ctypes.CDLL(None)


def burn(name):
    time.sleep(0.3)  # it is found meanwhile
    begin = time.thread_time_ns()
    repeat(lambda: sum(range(1000)), 1.0, time.thread_time)
    took[name] = time.thread_time_ns() - begin


def deaf():
    every = (ctypes.c_ubyte * 128)(*[255] * 128)
    assert libc.pthread_sigmask(0, every, None) == 0
    burn("deaf")


def normal():
    burn("normal")


spprof.start(1, "cpu", sys.argv[1])
for function in (deaf, normal):
    thread = threading.Thread(target=function, name=function.__name__)
    thread.start()
    thread.join()
spprof.stop()
print(json.dumps({"took": took, "stats": spprof.stats()}))
