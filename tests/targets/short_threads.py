"""Many threads, each shorter than the watch's look: short_threads.py OUT N UNITS"""

import json
import sys
import threading
import time

import spprof


def burn(units):
    for _ in range(units):
        sum(range(1000))


def short(units):
    global used
    burn(units)
    used += time.thread_time_ns()  # a thread's clock begins at 0; the profiler's own thread is not among these


used = 0
spprof.start(1, "cpu", sys.argv[1])
process = time.process_time_ns()
begin = time.thread_time_ns()
for _ in range(int(sys.argv[2])):
    thread = threading.Thread(target=short, args=(int(sys.argv[3]),))
    thread.start()
    thread.join()
used += time.thread_time_ns() - begin
process = time.process_time_ns() - process
spprof.stop()
print(json.dumps({"used": used, "process": process, "stats": spprof.stats()}))
