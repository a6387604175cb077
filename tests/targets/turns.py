"""One run after another in one process, each 2,001 turns deep: turns.py OUT SECONDS MAX_DEPTH...

Comments `# -> NAME` say which functions a line may call. The deepest `even` alone calls `burn`."""

import json
import sys
import time

import spprof


def even(n, seconds):
    if n == 0:
        return burn(seconds)  # -> burn
    return odd(n - 1, seconds)  # -> odd


def odd(n, seconds):
    return even(n - 1, seconds)  # -> even


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:  # read when it may have been used up: docs/troubleshooting.md, "Hardly any samples"
        until = time.monotonic() + end - time.process_time()
        while time.monotonic() < until:
            shallow()  # -> shallow


def shallow():
    sum(range(100))


def main(out, seconds, *depths):
    sys.setrecursionlimit(5000)
    for max_depth in depths:
        spprof.start(0.2, output_path=out, max_depth=int(max_depth))  # -> start __getattr__
        even(2000, float(seconds))  # -> even
        spprof.stop()  # -> stop __getattr__
    print(json.dumps(spprof.stats()))


if __name__ == "__main__":
    main(*sys.argv[1:])  # -> main
