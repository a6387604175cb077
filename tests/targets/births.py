"""Threads that live a few milliseconds, hundreds at a time: births.py OUT"""

import json
import random
import sys
import threading
import time

import spprof


def live(line):
    for turn in range(20):
        time.sleep(random.random() * 0.02)
        thread = threading.Thread(target=time.sleep, args=(random.random() * 0.02,), name=f"{line}.{turn}")
        thread.start()
        thread.join()


threading.stack_size(128 * 1024)
spprof.start(1, "cpu", sys.argv[1])
lines = [threading.Thread(target=live, args=(i,), name=f"line-{i}") for i in range(150)]
for thread in lines:
    thread.start()
for thread in lines:
    thread.join()
spprof.stop()
print(json.dumps({"stats": spprof.stats()}))
