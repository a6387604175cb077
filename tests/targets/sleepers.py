"""100 threads that sleep in wall mode: sleepers.py OUT CLOCK. Prints their counts of voluntary switches before and after."""

import json
import re
import sys
import threading
import time

import spprof

N = 100
inside = threading.Barrier(N + 1)
wake = threading.Event()


def sleep():
    inside.wait()
    wake.wait()


def switches():
    result = {}
    for thread in threads:
        with open(f"/proc/self/task/{thread.native_id}/status") as file:
            result[thread.name] = [int(n) for n in re.findall(r"ctxt_switches:\s*(\d+)", file.read())]
    return result


threads = [threading.Thread(target=sleep, name=f"sleeper-{i}") for i in range(N)]
for thread in threads:
    thread.start()
inside.wait()
time.sleep(0.5)
spprof.start(1, "wall", sys.argv[1], clock=sys.argv[2])
time.sleep(0.3)
begin, before = time.monotonic_ns(), switches()
time.sleep(1.5)
after, end = switches(), time.monotonic_ns()
spprof.stop()
wake.set()
for thread in threads:
    thread.join()
print(json.dumps({"before": before, "after": after, "wall": end - begin, "stats": spprof.stats()}))
