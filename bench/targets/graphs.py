"""graphs.py PROGRAM CPU_SECONDS: programs whose call graph is fully known.

Every line that calls says in a comment `-> ` which functions of this file it may call, callbacks included; `-> *` means
that what is below is not checked. targets/edges.py reads these comments. A call is on one line. close() of a coroutine
closes what it awaits first, without entering the outer ones: so CPython, and so the comment there."""

import functools  # -> *
import sys  # -> *
import threading  # -> *
import time  # -> *


# Mutual recursion, to changing depths.
def even(n):
    if n:
        return odd(n - 1)  # -> odd
    return True


def odd(n):
    if n:
        return even(n - 1)  # -> even
    return False


def first(n):
    if n > 0:
        second(n - 1)  # -> second
        third(n - 2)  # -> third


def second(n):
    if n > 0:
        third(n - 1)  # -> third


def third(n):
    if n > 0:
        first(n - 2)  # -> first


def recursion():
    for n in range(40):
        even(n)  # -> even
        odd(n)  # -> odd
        first(n // 3)  # -> first


# Generators and coroutines, left half-way too.
def leaf(x):
    return x


def counts(n):
    for i in range(n):
        yield leaf(i)  # -> leaf


def nested(n):
    if n:
        yield from nested(n - 1)  # -> nested
    yield leaf(n)  # -> leaf


def filtered(source):
    for x in source:  # -> counts nested filtered
        yield leaf(x)  # -> leaf


class Pause:  # -> Pause
    def __await__(self):
        yield leaf(0)  # -> leaf


async def waits(n):
    if n:
        return await waits(n - 1)  # -> waits
    return await Pause()  # -> __await__


def generators():
    for x in counts(7):  # -> counts
        leaf(x)  # -> leaf
    for x in nested(9):  # -> nested
        leaf(x)  # -> leaf
    for x in filtered(filtered(counts(5))):  # -> filtered counts
        leaf(x)  # -> leaf
    for x in filtered(nested(5)):  # -> filtered nested
        leaf(x)  # -> leaf
    sum(leaf(x) for x in range(5))  # -> <genexpr> leaf
    [leaf(x) for x in range(5)]  # -> <listcomp> leaf
    half = counts(5)  # -> counts
    next(half)  # -> counts
    half.close()  # -> counts
    coroutine = waits(6)  # -> waits
    coroutine.send(None)  # -> waits
    coroutine.close()  # -> waits __await__


# Exceptions, `finally`, context managers.
class Trouble(Exception):  # -> Trouble
    pass


def throws(n):
    if n:
        throws(n - 1)  # -> throws
    raise Trouble(n)


def cleans(n):
    try:
        if n:
            cleans(n - 1)  # -> cleans
        else:
            throws(3)  # -> throws
    finally:
        leaf(n)  # -> leaf


def wraps(n):
    try:
        throws(n)  # -> throws
    except Trouble as error:
        raise ValueError(leaf(n)) from error  # -> leaf


class Guard:  # -> Guard
    def __enter__(self):
        return leaf(self)  # -> leaf

    def __exit__(self, *error):
        leaf(error)  # -> leaf
        return True


def exceptions():
    for n in (3, 12):
        try:
            cleans(n)  # -> cleans
        except Trouble:
            leaf(n)  # -> leaf
        try:
            wraps(n)  # -> wraps
        except ValueError:
            leaf(n)  # -> leaf
        with Guard():  # -> __enter__ __exit__
            throws(n)  # -> throws __exit__


# Python called back by C, attribute and operator hooks.
def minus(x):
    return -x


def plus(a, b):
    return a + b


class Thing:  # -> Thing
    def __init__(self, x):
        self.x = leaf(x)  # -> leaf

    @property
    def half(self):
        return leaf(self.x) / 2  # -> leaf

    def __getitem__(self, i):
        return leaf(i)  # -> leaf

    def __eq__(self, other):
        return leaf(True)  # -> leaf

    __hash__ = None


def callbacks():
    sorted(range(20), key=minus)  # -> minus
    list(map(minus, range(10)))  # -> minus
    functools.reduce(plus, range(10))  # -> plus
    thing = Thing(3)  # -> __init__
    x = thing.half  # -> half
    x = thing[1]  # -> __getitem__
    x = thing == 2  # -> __eq__
    return x


# Threads: six that last and many that do not, with different work.
def short():
    for n in range(30):
        even(n)  # -> even


def long(which):
    while not over():  # -> over
        recursion()  # -> recursion
        if which % 2:
            generators()  # -> generators
        else:
            exceptions()  # -> exceptions


def threads():
    lasting = [threading.Thread(target=long, args=(i,)) for i in range(6)]  # -> *
    for thread in lasting:
        thread.start()  # -> *
    while not over():  # -> over
        passing = threading.Thread(target=short)  # -> *
        passing.start()  # -> *
        passing.join()  # -> *
    for thread in lasting:
        thread.join()  # -> *


end = 0.0


def over():
    return time.process_time() > end


def main(program, seconds):
    global end
    end = time.process_time() + seconds
    if program == "threads":
        threads()  # -> threads
    while not over():  # -> over
        if program == "recursion":
            recursion()  # -> recursion
        elif program == "generators":
            generators()  # -> generators
        elif program == "exceptions":
            exceptions()  # -> exceptions
        elif program == "callbacks":
            callbacks()  # -> callbacks


# ROOTS <module> long short
main(sys.argv[1], float(sys.argv[2]))  # -> main
