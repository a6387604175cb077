"""100 threads that all work: crowd.py OUT MODE MILLISECONDS"""

import json
import sys
import threading
import time

import spprof

took = {}


def burn():
    begin = time.thread_time_ns()
    end = begin + int(sys.argv[3]) * 1_000_000
    while time.thread_time_ns() < end:
        sum(range(1000))
    took[threading.current_thread().name] = time.thread_time_ns() - begin


spprof.start(1, sys.argv[2], sys.argv[1])
threads = [threading.Thread(target=burn, name=f"crowd-{i}") for i in range(100)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
spprof.stop()
print(json.dumps({"took": took, "stats": spprof.stats()}))
