"""nested.py UNITS: a fixed amount of CPU work on one thread, in C code called by Python code called by C code, ten deep."""

import functools
import re
import sys
import zlib

import says

data = bytes(range(256)) * 64


def leaf():
    # No zlib.compress: its 256 KiB are mapped again each time, or not, by what glibc's malloc saw before; a profiler changes
    # that.
    return zlib.crc32(data) + len(re.sub("a+", lambda found: found[0], "aab" * 20)) + sum(map(abs, range(200)))


def down(n):
    if n == 0:
        return leaf()
    if n % 2:
        return sorted([n], key=lambda one: down(one - 1))
    return functools.reduce(lambda a, b: down(a - 1), [n, n])


def main(units):
    with says.work():
        for _ in range(units):
            down(10)


main(int(sys.argv[1]))
