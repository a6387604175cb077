"""wrapped.py LIBRARY BLOCKS: what wrapped.c measures while the clock `signal` samples at 1 kHz, as JSON."""

import ctypes
import json
import sys

import spprof

KINDS = ("read of /dev/zero", "the same by syscall()", "getppid by syscall()")


def main(library, blocks):
    calls = ctypes.CDLL(library)
    calls.keep()
    spprof.start(rate=1000, clock="signal")
    times = (ctypes.c_double * (2 * len(KINDS) * blocks))()
    wrapped = bool(calls.measure(blocks, times))
    spprof.stop()
    rows = [sorted(times[i * blocks : (i + 1) * blocks]) for i in range(2 * len(KINDS))]
    more = {
        kind: {"least": rows[2 * i + 1][0] - rows[2 * i][0], "median": rows[2 * i + 1][blocks // 2] - rows[2 * i][blocks // 2]}
        for i, kind in enumerate(KINDS)
    }
    print(json.dumps({"wrapped": wrapped, "more_ns": more}))


main(sys.argv[1], int(sys.argv[2]))
