"""calls.py LIBRARY TIMES: so many calls that wait, of seven kinds, by bench/calls.c; says what became of them."""

import ctypes
import os
import sys
import threading

import says

# In the order of bench/calls.c, with their threads: so many that all kinds end at about the same time.
KINDS = {"nanosleep": 1, "select": 1, "futex": 1, "semaphore": 1, "poll": 3, "epoll_wait": 3, "recv": 10}


class Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("calls", "ended", "early", "failed", "late_ns", "latest_ns")]


def make(library, number, times, seed, counts):
    error = library.calls_make(number, ctypes.c_uint64(times), ctypes.c_uint64(seed), ctypes.byref(counts))
    if error:
        raise OSError(error, os.strerror(error))


def main(library, times):
    library = ctypes.CDLL(library)
    threads, kinds = [], {}
    for number, (kind, many) in enumerate(KINDS.items()):
        kinds[kind] = [Counts() for _ in range(many)]
        for seed, counts in enumerate(kinds[kind]):
            each = max(1, times // len(KINDS) // many)
            threads.append(threading.Thread(target=make, args=(library, number, each, seed + 1, counts)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    by_kind = {}
    for kind, all in kinds.items():
        by_kind[kind] = {name: sum(getattr(one, name) for one in all) for name, _ in Counts._fields_}
        by_kind[kind]["latest_ns"] = max(one.latest_ns for one in all)
    says.write(kinds=by_kind)


main(sys.argv[1], int(sys.argv[2]))
