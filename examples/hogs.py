"""Threads that hold the GIL while another one waits for it.

spprof run --mode wall examples/hogs.py
"""

import json
import re
import threading
import time

ENDS = time.monotonic() + 3


def parse():
    """Python code gives the GIL away after 5 ms, if another thread wants it."""
    while time.monotonic() < ENDS:
        json.loads("[" + "1, " * 1000 + "1]")


def match():
    """A regular expression keeps it to the end: here some 100 ms."""
    while time.monotonic() < ENDS:
        re.match("(a+)+$", "a" * 21 + "b")
        time.sleep(0.1)


def main():
    """Has little to do, and waits for the GIL each time."""
    for each in (parse, match):
        threading.Thread(target=each, name=each.__name__).start()
    while time.monotonic() < ENDS:
        time.sleep(0.001)


if __name__ == "__main__":
    main()
