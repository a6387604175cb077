"""Runs a target program under spprof: drive.py TARGET OUT MODE CLOCK INTERVAL_MS SECONDS [MAX_DEPTH]

SECONDS are CPU time of the process. Comments `# -> NAME` say which functions a line may call."""

import importlib.util
import json
import sys
import time

import spprof


def repeat(step, seconds, clock=time.process_time):
    end = clock() + seconds
    while clock() < end:  # read when it may have been used up: docs/troubleshooting.md, "Hardly any samples"
        until = time.monotonic() + end - clock()
        while time.monotonic() < until:
            step()  # -> step


def main(path, out, mode, clock, interval_ms, seconds, max_depth="512"):
    spec = importlib.util.spec_from_file_location("target", path)
    target = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(target)
    sys.setrecursionlimit(20000)
    spprof.start(float(interval_ms), mode, out, clock=clock, max_depth=int(max_depth))  # -> start __getattr__
    repeat(target.step, float(seconds))  # -> repeat
    spprof.stop()  # -> stop __getattr__
    print(json.dumps(spprof.stats()))


if __name__ == "__main__":
    main(*sys.argv[1:])  # -> main
