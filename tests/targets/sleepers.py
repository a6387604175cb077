"""100 threads that sleep in wall mode: sleepers.py OUT CLOCK. Prints their counts of switches before and after they were looked
at."""

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


def settled():
    """Their counts when all have come to where they sleep: until then each waits for the GIL or a processor, and has it soon."""
    last = None
    while last != (last := switches()):
        time.sleep(0.1)
    return last


def until_repeated(times):
    """Until they were looked at so often, and were as they were. A minute is for a sampler that does not."""
    wanted, late = spprof.stats()["repeated"] + N * times, time.monotonic() + 60
    while spprof.stats()["repeated"] < wanted and time.monotonic() < late:
        time.sleep(0.01)


threads = [threading.Thread(target=sleep, name=f"sleeper-{i}") for i in range(N)]
for thread in threads:
    thread.start()
inside.wait()
settled()
spprof.start(1, "wall", sys.argv[1], clock=sys.argv[2])
until_repeated(3)
begin, before = time.monotonic_ns(), switches()
until_repeated(50)
after, end = switches(), time.monotonic_ns()
until_repeated(3)
spprof.stop()
wake.set()
for thread in threads:
    thread.join()
print(json.dumps({"before": before, "after": after, "wall": end - begin, "stats": spprof.stats()}))
