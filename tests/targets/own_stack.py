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
    end = time.thread_time() + 1
    while time.thread_time() < end:
        pass


def generate():
    yield burn()


def delegate():
    yield from generate()


class Thing:
    def __init__(self):
        self.all = [x for x in delegate()]

    def __getitem__(self, key):
        return Thing()

    @property
    def value(self):
        return self[1]


async def inner():
    return sorted([1, 2], key=lambda x: Thing().value if x == 2 else 0)


async def outer():
    await inner()


def reduce(a, b):
    try:
        outer().send(None)
    except StopIteration:
        pass


def program():
    exec(compile("functools.reduce(reduce, [1, 2])", "<made>", "exec"), globals())


real = burn
spprof.start(1, "cpu", sys.argv[1])
burn = lambda: None  # noqa: E731  the first Thing() is the path to the second, that burns
Thing.__getitem__ = lambda self, key: Burning()


class Burning(Thing):
    def __init__(self):
        for self.all in delegate_real():
            pass


def delegate_real():
    yield from map(lambda x: real(), [1])


program()
spprof.stop()
assert len(noted) == 1 and functools is not None
print(json.dumps(noted[0]))
