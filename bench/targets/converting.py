"""converting.py FILE FORMAT OUT: seconds and greatest memory of a process that reads a profile and writes it in a format."""

import os
import resource
import sys
import time

import says

began = time.perf_counter()
from spprof import Profile  # noqa: E402

profile = Profile.load(sys.argv[1])
loaded = time.perf_counter()
profile.save(sys.argv[3], sys.argv[2], force=True)  # a round writes what the one before wrote
ended = time.perf_counter()
says.write(
    samples=len(profile),
    stacks=len(set(profile.stack_keys())),
    seconds=ended - began,
    load_seconds=loaded - began,
    cpu_seconds=time.process_time(),
    rss=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    bytes=os.path.getsize(sys.argv[3]),
)
