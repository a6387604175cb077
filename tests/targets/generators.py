"""Generators, `yield from`, generator expressions, send, throw, close, and coroutines driven by hand."""


def count(n):
    for i in range(n):
        yield i


def twice(n):
    yield from count(n)  # -> count
    yield from count(n)  # -> count


def thrice(n):
    yield from twice(n)  # -> twice
    yield from count(n)  # -> count


def work(x):
    return sum(range(x))


def echo():
    got = 0
    while True:
        try:
            got = yield work(got)  # -> work
        except ValueError:
            got = work(9)  # -> work
        finally:
            got = 1


class Once:
    def __await__(self):
        yield work(3)  # -> work


async def inner(n):
    for _ in range(n):
        await Once()  # -> Once.__await__
    return n


async def outer(n):
    return await inner(n) + await inner(n)  # -> inner


def by_hand(n):
    coroutine = outer(n)  # -> outer
    try:
        while True:
            coroutine.send(None)  # -> outer
    except StopIteration as stop:
        return stop.value


def step():
    for _ in thrice(20):  # -> thrice
        work(4)  # -> work
    sum(work(i) for i in count(20))  # -> step.<locals>.<genexpr> work count
    e = echo()  # -> echo
    next(e)  # -> echo
    for i in range(10):
        e.send(i)  # -> echo
        e.throw(ValueError("x"))  # -> echo
    e.close()  # -> echo
    by_hand(5)  # -> by_hand
