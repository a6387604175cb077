"""Threads of every origin, each burning CPU in a function of its own: many_threads.py OUT MODE"""

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

took = {}
tids = {}
go = threading.Event()


def burn(name, seconds=0.5):
    tids[name] = threading.get_native_id()
    begin = time.thread_time()
    repeat(lambda: sum(range(1000)), seconds, time.thread_time)
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


def run_by_c(function, argument):
    if os.name == "nt":
        libc.CreateThread.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p]
        libc.CreateThread.restype = ctypes.c_void_p
        handle = libc.CreateThread(None, 0, ctypes.cast(function, ctypes.c_void_p), argument, 0, None)
        assert handle and libc.WaitForSingleObject(ctypes.c_void_p(handle), ctypes.c_ulong(0xFFFFFFFF)) == 0
        return
    handle = ctypes.c_ulong()
    assert libc.pthread_create(ctypes.byref(handle), None, function, argument) == 0
    libc.pthread_join.argtypes = [ctypes.c_ulong, ctypes.c_void_p]
    libc.pthread_join(handle, None)


before = threading.Thread(target=early, name="Frühaufsteher")
before.start()
spprof.start(1, sys.argv[2], sys.argv[1])
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
# A thread of a C library that never runs Python: it sleeps (a function of libc with one argument) and ends.
wait, argument = (libc.Sleep, 400) if os.name == "nt" else (libc.usleep, 400_000)
slept = time.monotonic_ns()
run_by_c(ctypes.cast(wait, ctypes.c_void_p), ctypes.c_void_p(argument))
slept = time.monotonic_ns() - slept
time.sleep(0.05)
spprof.stop()
print(json.dumps({"took": took, "tids": tids, "main": threading.get_native_id(), "slept": slept, "stats": spprof.stats()}))
