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
    burn(units)


process = time.process_time_ns
spprof.start(1, "cpu", sys.argv[1])
begin = process()
for _ in range(int(sys.argv[2])):
    thread = threading.Thread(target=short, args=(int(sys.argv[3]),))
    thread.start()
    thread.join()
used = process() - begin
spprof.stop()
print(json.dumps({"used": used, "stats": spprof.stats()}))
