"""Threads that live a few milliseconds, up to hundreds at a time: births.py OUT LINES UNTIL_FOUND

Each line of them is made by a thread, one after the other. If it is to be so those go on until the file has all of them."""

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
    if UNTIL_FOUND:
        found.wait()


def all_found():
    spprof.flush()
    return {f"line-{i}" for i in range(LINES)} <= {thread.name for thread in spprof.Profile.load(OUT).threads}


OUT, LINES, UNTIL_FOUND = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "True"
found, late = threading.Event(), time.monotonic() + 60
threading.stack_size(128 * 1024)
spprof.start(1, "cpu", OUT)
lines = [threading.Thread(target=live, args=(i,), name=f"line-{i}") for i in range(LINES)]
for thread in lines:
    thread.start()
while UNTIL_FOUND and not all_found() and time.monotonic() < late:
    time.sleep(0.05)
found.set()
for thread in lines:
    thread.join()
spprof.stop()
print(json.dumps({"stats": spprof.stats()}))
