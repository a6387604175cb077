"""Threads of every origin, each burning CPU in a function of its own: many_threads.py OUT MODE SECONDS

Each burns for so long, and until the file has a sample of its function."""

import _thread
import ctypes
import json
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from drive import repeat

import spprof

OUT, MODE, SECONDS = sys.argv[1], sys.argv[2], float(sys.argv[3])
late = time.monotonic() + 60
took = {}
tids = {}
go = threading.Event()


def in_file(*names):
    """Whether a sample of each is in the file. A minute is for a profiler that finds no thread."""
    spprof.flush()
    found = {frame.name for sample in spprof.Profile.load(OUT).samples() for frame in sample.frames}
    return found.issuperset(names) or time.monotonic() > late


def burn(name):
    tids[name] = threading.get_native_id()
    begin = time.thread_time()
    repeat(lambda: sum(range(1000)), SECONDS, time.thread_time)
    while not in_file(name):
        repeat(lambda: sum(range(1000)), 0.02, time.thread_time)
    took[name] = time.thread_time() - begin


def early():
    go.wait()
    burn("early")


def by_threading():
    burn("by_threading")


def by_thread():
    burn("by_thread")
    finished.release()


def by_executor():
    burn("by_executor")


def by_c(arg):
    burn("by_c")
    return None


START = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
callback = START(by_c)
libc = ctypes.CDLL("kernel32" if os.name == "nt" else None, use_errno=True)


def run_by_c(function, argument, wait=True):
    if os.name == "nt":
        libc.CreateThread.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p]
        libc.CreateThread.restype = ctypes.c_void_p
        handle = libc.CreateThread(None, 0, ctypes.cast(function, ctypes.c_void_p), argument, 0, None)
        assert handle
        assert not wait or libc.WaitForSingleObject(ctypes.c_void_p(handle), ctypes.c_ulong(0xFFFFFFFF)) == 0
        return
    handle = ctypes.c_ulong()
    assert libc.pthread_create(ctypes.byref(handle), None, function, argument) == 0
    libc.pthread_join.argtypes = [ctypes.c_ulong, ctypes.c_void_p]
    if wait:
        libc.pthread_join(handle, None)


before = threading.Thread(target=early, name="Frühaufsteher")
before.start()
spprof.start(1, MODE, OUT)
go.set()
before.join()
t = threading.Thread(target=by_threading, name="im Faden")
t.start()
t.join()
finished = threading.Semaphore(0)
_thread.start_new_thread(by_thread, ())
finished.acquire()
with ThreadPoolExecutor(1, thread_name_prefix="pool") as pool:
    pool.submit(by_executor).result()
# A thread of a C library that calls back into Python.
run_by_c(callback, None)
# A thread of a C library that never runs Python: it sleeps (a function of libc with one argument) until the process ends.
wait, argument = (libc.Sleep, 1000_000) if os.name == "nt" else (libc.usleep, 1000_000_000)
asleep = time.monotonic_ns()
run_by_c(ctypes.cast(wait, ctypes.c_void_p), ctypes.c_void_p(argument), wait=False)
time.sleep(SECONDS)
while MODE == "wall" and not in_file("[no Python frames]"):
    time.sleep(0.02)
spprof.stop()
asleep = time.monotonic_ns() - asleep
print(json.dumps({"took": took, "tids": tids, "main": threading.get_native_id(), "slept": asleep, "stats": spprof.stats()}))
