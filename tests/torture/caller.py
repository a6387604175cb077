"""caller.py LIBRARY FOLDER THREADS TURNS SEED SECONDS [CLOCK RATE MODE [EVENTS]]: runs calls.c, profiled if a clock is named,
and prints what came of each kind of call as JSON. A thread that is not done after SECONDS hangs. EVENTS have + between."""

import ctypes
import json
import os
import sys
import threading
import time


class Counts(ctypes.Structure):
    """As in calls.c."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("calls", "signalled", "differences", "timed", "late_ns")]
    _fields_ += [("first", ctypes.c_char * 160)]


def work(over):
    """Python's part: a thread that wants the GIL."""
    while not over.wait(0.002):
        sum(range(2000))


def add_up(library, counts):
    kinds = {}
    for kind in range(library.calls_kinds()):
        each = [one[kind] for one in counts]
        sums = {name: sum(getattr(one, name) for one in each) for name, _ in Counts._fields_[:-1]}
        first = next((one.first.decode() for one in each if one.first), None)
        kinds[library.calls_name(kind).decode()] = {**sums, "first": first}
    return kinds


def main(path, folder, threads, turns, seed, seconds, clock=None, rate="1000", mode="cpu", events="time"):
    library = ctypes.CDLL(path)
    library.calls_at.restype = library.calls_name.restype = ctypes.c_char_p
    library.calls_make.argtypes = [ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p]
    library.calls_prepare.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_uint64]
    error = library.calls_prepare(folder.encode(), int(threads), int(seed))
    if error:
        sys.exit(f"prepare: {os.strerror(error)}")
    stats = None
    if clock is not None:
        import spprof

        spprof.start(1000 / int(rate), mode, os.path.join(folder, "out.spprof"), clock=clock, events=events.split("+"))
    began, over = time.monotonic(), threading.Event()
    counts = [(Counts * library.calls_kinds())() for _ in range(int(threads))]
    callers = [
        threading.Thread(target=library.calls_make, args=(i, int(turns), ctypes.addressof(one)), daemon=True)
        for i, one in enumerate(counts)
    ]
    worker = threading.Thread(target=work, args=(over,), daemon=True)
    for thread in [worker, *callers]:
        thread.start()
    for thread in callers:
        thread.join(max(0.0, began + float(seconds) - time.monotonic()))
    took = time.monotonic() - began
    hang = [library.calls_at(i).decode() for i, thread in enumerate(callers) if thread.is_alive()]
    over.set()
    if clock is not None and not hang:
        spprof.stop()
        stats = spprof.stats()
    library.calls_clean()
    print(json.dumps({"kinds": add_up(library, counts), "seconds": took, "hang": hang, "stats": stats}), flush=True)
    os._exit(0)


main(*sys.argv[1:])
