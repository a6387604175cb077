"""Threads that C made: they take the GIL for a callback, which makes them a thread state, and give it back with it."""

import ctypes
import sys
import threading

UNITS = 12

libc = ctypes.CDLL(None if sys.platform != "win32" else "kernel32")
START = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
ROOTS = {"began"}
# Threads of a millisecond are mostly over before anyone could see them: those ticks are counted as such, not taken.
LEAST = {"cpu": 0.0}
done = []
lock = threading.Lock()


def work(n):
    return sum([i * 2 for i in range(n)])


def began(argument):
    total = work(20000)
    with lock:
        done.append(total)
    return 0


entry = START(began)


def round_on_windows(count):
    libc.CreateThread.restype = ctypes.c_void_p
    threads = [libc.CreateThread(None, ctypes.c_size_t(0), entry, None, 0, None) for _ in range(count)]
    for thread in map(ctypes.c_void_p, threads):
        assert thread.value and libc.WaitForSingleObject(thread, 0xFFFFFFFF) == 0
        libc.CloseHandle(thread)


def round_of(count):
    if sys.platform == "win32":
        return round_on_windows(count)  # -> round_on_windows
    threads = (ctypes.c_ulong * count)()
    for i in range(count):
        assert libc.pthread_create(ctypes.byref(threads, 8 * i), None, entry, None) == 0
    for i in range(count):
        libc.pthread_join(ctypes.c_ulong(threads[i]), None)


def main(units):
    for _ in range(units * 20):
        round_of(8)
        work(3000)
    return [len(done), sum(done)]
