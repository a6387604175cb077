"""The GIL released and taken: ctypes calls that call back into Python, nested, in several threads at once, and C code that
runs without the GIL for long."""

import ctypes
import hashlib
import sqlite3
import sys
import threading
import zlib

UNITS = 40

libc = ctypes.CDLL(None if sys.platform != "win32" else "ucrtbase")
COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
inner_calls = []


def work(n):
    return sum([i * 2 for i in range(n)])


def compare(a, b):
    work(30)
    return a[0] - b[0]


def compare_nested(a, b):
    if a[0] % 16 == 0:
        sort(20, compare)  # -> sort
    return b[0] - a[0]


def sort(n, function):
    numbers = (ctypes.c_int * n)(*[(i * 7919) % 997 for i in range(n)])
    libc.qsort(numbers, n, ctypes.sizeof(ctypes.c_int), COMPARE(function))  # -> compare compare_nested
    return numbers[0]


def sorts(units):
    return [sort(120, compare) + sort(60, compare_nested) for _ in range(units)]  # -> sort <listcomp>


def released(units):
    data = bytes(range(256)) * 800
    total = 0
    for i in range(units):
        total += zlib.crc32(zlib.compress(data, 1 + i % 3))
        total += hashlib.sha256(data).digest()[0]
    return total


def upper(text):
    work(20)
    return text.upper()


def databases(units):
    connection = sqlite3.connect(":memory:")  # -> *
    connection.create_function("upper_here", 1, upper)  # -> *
    connection.execute("create table t (a integer, b text)")
    connection.executemany("insert into t values (?, ?)", [(i, f"row {i}") for i in range(400)])
    rows = 0
    for _ in range(units):
        rows += len(connection.execute("select upper_here(b) from t order by a desc").fetchall())  # -> upper
    connection.close()
    return rows


def leaves(status):
    work(5000)
    sys.exit(status)


def main(units):
    results = {}

    def keep(name, function):
        results[name] = function(units * 4)  # -> sorts released databases

    threads = [threading.Thread(target=keep, args=(f.__name__, f)) for f in (sorts, released, databases)] + [
        threading.Thread(target=leaves, args=(3,)) for _ in range(10)
    ]
    for thread in threads:
        thread.start()
    results["main"] = sorts(units * 3)[-1]
    for thread in threads:
        thread.join()
    return {name: value if isinstance(value, int) else sum(value) for name, value in sorted(results.items())}
