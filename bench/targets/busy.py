"""busy.py UNITS [DEPTH]: a fixed amount of CPU work on one thread, at recursion depth DEPTH (default 20)."""

import sys

import says


def down(n):
    if n:
        return down(n - 1)
    total = 0
    for i in range(3000):
        total += i
    return total


def main(units, depth):
    with says.work():
        for _ in range(units):
            down(depth)


main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20)
