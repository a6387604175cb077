"""Code that numba compiles while the program runs: with the GIL and without, called from Python and calling back into it."""

import threading

import numba
import numpy
from _truth import burn, part

PYPI = ["numpy", "numba"]
HEAVY = True


@numba.njit(nogil=True)
def summed(a):
    total = 0
    for _ in range(30):
        for i in range(a.shape[0]):
            total = (total * 3 + a[i]) % 1000003
    return total


@numba.njit
def recursed(n):
    return n if n < 2 else recursed(n - 1) + recursed(n - 2)


@numba.njit(parallel=True)
def spread(a):
    total = 0
    for i in numba.prange(a.shape[0]):
        total += a[i] * 3
    return total


def compiled(a):
    return summed(a)  # -> *


def heavy(n):
    return burn(n)


def main():
    a = numpy.arange(300000)
    results = {}

    def each(i):
        results[i] = int(summed(a[i:]))  # -> *

    with part("compiled"):
        first = int(compiled(a))  # compiles it
    threads = [threading.Thread(target=each, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with part("heavy"):
        total = heavy(5000000)
    print(first, sorted(results.items()), recursed(30), int(spread(a)), total)  # -> *


if __name__ == "__main__":
    main()
