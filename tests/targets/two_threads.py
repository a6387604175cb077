"""Two threads that compute for as long as argv says, each in functions of its own."""

import sys
import threading
import time


def hot(n):
    x = 0
    for i in range(n):
        x += i * i
    return x


def through(n):
    return hot(n)


def worker(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        through(20_000)


def main(seconds):
    thread = threading.Thread(target=worker, args=(seconds,), name="wörker")
    thread.start()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        hot(20_000)
    thread.join()


main(float(sys.argv[1]))
