"""100 threads that all work: crowd.py OUT MODE MILLISECONDS"""

import json
import sys
import threading
import time

from drive import repeat

import spprof

took = {}


def burn():
    begin = time.thread_time_ns()
    repeat(lambda: sum(range(1000)), int(sys.argv[3]) / 1000 * more, time.thread_time)
    took[threading.current_thread().name] = time.thread_time_ns() - begin


spprof.start(1, sys.argv[2], sys.argv[1])
if spprof.stats()["clock"] == "timer":
    sys.setswitchinterval(0.012)  # a thread's turn with the GIL is longer than a tick, and meets one
more = 2 if spprof.stats()["clock"] == "timer" else 1  # its ticks are the kernel's, 4 to 10 ms apart
threads = [threading.Thread(target=burn, name=f"crowd-{i}") for i in range(100)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
spprof.stop()
print(json.dumps({"took": took, "stats": spprof.stats()}))
