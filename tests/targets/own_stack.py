"""Burns at the end of a stack of many kinds of frame and prints that stack: own_stack.py OUT"""

import functools
import json
import sys
import time

import spprof

noted = []


def note(frame):
    frames = []
    while frame is not None:
        frames.append((frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    frames.reverse()
    frames[-1] = (*frames[-1][:2], 0)
    noted.append(frames)


def burn():
    note(sys._getframe())
    end = time.thread_time() + 0.3
    while time.thread_time() < end:  # read when it may have been used up: docs/troubleshooting.md, "Hardly any samples"
        until = time.monotonic() + end - time.thread_time()
        while time.monotonic() < until:
            pass


def generate():
    yield burn()


def delegate():
    yield from generate()


class Thing:
    def __init__(self):
        self.all = [x for x in delegate()]


class Holder:
    def __getitem__(self, key):
        return self.value

    @property
    def value(self):
        return Thing()


async def inner():
    return sorted([1], key=lambda x: Holder()[x] and x)


async def outer():
    return await inner()


def reduce(a, b):
    try:
        outer().send(None)
    except StopIteration:
        pass


def program():
    exec(compile("functools.reduce(reduce, [1, 2])", "<made>", "exec"), globals())


spprof.start(1, "cpu", sys.argv[1])
program()
spprof.stop()
assert len(noted) == 1 and functools is not None
print(json.dumps(noted[0]))
