"""driver.py CASE OUT MODE INTERVAL_MS UNITS CLOCK: runs one case, profiled unless OUT is `-`, and prints what came of it as JSON.

The truth about ticks comes from clocks that are not the profiler's: the process's CPU clock less that of the profiler's
own threads (CPU mode), the monotonic clock of the main thread (wall mode)."""

import contextlib
import importlib.util
import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from switches import switch

del sys.path[0]  # the cases do not see it
NATIVE = switch("TORTURE_NATIVE")
CASE, OUT, MODE, CLOCK = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[6]
INTERVAL_MS, UNITS = float(sys.argv[4]), int(sys.argv[5])


def own_threads_cpu():
    """Nanoseconds of CPU of the profiler's own threads, by the scheduler; None: unknown, as on Windows."""
    if sys.platform == "win32":
        return None
    total = 0
    for tid in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError):  # it has ended
            with open(f"/proc/self/task/{tid}/comm") as comm, open(f"/proc/self/task/{tid}/schedstat") as stat:
                if comm.read().startswith("spprof"):
                    total += int(stat.read().split()[0])
    return total


def load():
    spec = importlib.util.spec_from_file_location("case", CASE)
    case = importlib.util.module_from_spec(spec)
    sys.modules["case"] = case
    spec.loader.exec_module(case)
    return case


def run():
    said = {}
    if OUT == "-":
        result = case.main(UNITS)
    else:
        import spprof

        spprof.start(INTERVAL_MS, MODE, OUT, clock=CLOCK, native=NATIVE)
        cpu, wall, own = time.process_time_ns(), time.monotonic_ns(), own_threads_cpu()
        result = case.main(UNITS)
        if getattr(case, "STOPS", True):
            if own is not None:
                said["cpu_ns"] = time.process_time_ns() - cpu - (own_threads_cpu() - own)
            said["wall_ns"] = time.monotonic_ns() - wall
            spprof.stop()
            said["stats"] = spprof.stats()
    print("torture " + json.dumps({"result": result, **said}), flush=True)
    if hasattr(case, "last"):
        case.last()


case = load()  # in children of multiprocessing too, which find their functions in it
if __name__ == "__main__":
    run()
