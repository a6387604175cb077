"""Lines and branches that are hard to count. Each function that work() calls is counted; their lines are what is tested."""

import asyncio
import contextlib


def loops(n):
    out = []
    for i in range(n):
        if i % 3 == 0 and i % 2:
            out.append(i)
        elif i > 5:
            continue
        else:
            pass
    k = 0
    while k < n: k += 1
    while True:
        k -= 1
        if out.append(k) or k < 0: break
    for i in range(2):
        for j in range(3): out.append(j)
    else:
        out.append(n)
    while True:
        k += 1 if k < 5 else 1 / 0


def within_a_line(n):
    squares = [x * x for x in range(n)]
    pairs = {x: y for x in range(3) for y in range(2) if x != y}
    return sum(x for x in squares if x % 2), pairs


def one_line(x): return x


def steps(n):
    for i in range(n):
        yield i
        x = yield i + 1
    return x


def delegates(n):
    got = yield from steps(n)
    while n:
        n -= 1
        try:
            raise ValueError(n)
        except ValueError: pass
        finally:
            n += 0
    return got


def matches(value):
    match value:
        case [1]: return 1
        case [a, b] if a > b: return 2
        case {"x": x,
              "y": _}: return x
        case str() | bytes(): return 4
    return [
        one_line(
            5,
        ),
        one_line(6) if
        value else 7]


@contextlib.contextmanager
def manager():
    try:
        yield 1
    finally:
        one_line(1)


def with_statements(n):
    for _ in range(n):
        with manager() as a, manager():
            if a: continue
            raise KeyError


def long_lines(n):
    total = 0
    for i in range(n):
        total += (i
                  + one_line(i)
                  if i % 2
                  else -i)
        total = total if total > 0 and i or not total else (
            -total)
    return total


class Counter:
    base = 1

    def __init__(self, n):
        self.n = n

    @property
    def double(self):
        return self.base + self.n * 2

    def recursive(self, n):
        if n == 0:
            return 0
        return self.recursive(n - 1) + 1


def wide(n):
    """Jumps over more than 255 instructions, whose arguments take two."""
    for i in range(n):
        if i % 2:
            a = [i + 1, i + 2, i + 3, i + 4, i + 5, i + 6, i + 7, i + 8, i + 9, i + 10, i + 11, i + 12, i + 13, i + 14]
            b = [i + 1, i + 2, i + 3, i + 4, i + 5, i + 6, i + 7, i + 8, i + 9, i + 10, i + 11, i + 12, i + 13, i + 14]
            c = [i + 1, i + 2, i + 3, i + 4, i + 5, i + 6, i + 7, i + 8, i + 9, i + 10, i + 11, i + 12, i + 13, i + 14]
            d = [i + 1, i + 2, i + 3, i + 4, i + 5, i + 6, i + 7, i + 8, i + 9, i + 10, i + 11, i + 12, i + 13, i + 14]
            e = [a, b, c, d, i + 5, i + 6, i + 7, i + 8, i + 9, i + 10, i + 11, i + 12, i + 13, i + 14]
            one_line(e)
        else:
            one_line(i)


async def waits(n):
    async for i in numbers(n):
        if i % 2:
            await asyncio.sleep(0)
    return [i async for i in numbers(n)]


async def numbers(n):
    for i in range(n):
        yield i


def closures(n):
    def inner(x):
        return x + n

    return [inner(x) for x in range(n)], list(map(lambda x: x * n, range(n)))


def never_called():
    return 1


def work():
    try:
        loops(10)
    except ZeroDivisionError:
        pass
    within_a_line(10)
    list(delegates(3))
    generator = steps(5)
    next(generator)
    generator.close()
    for value in ([1], [2, 1], {"x": 1, "y": 2}, "x", b"x", 5, 0):
        matches(value)
    with_statements(3)
    long_lines(9)
    Counter(3).double
    Counter(3).recursive(4)
    wide(7)
    asyncio.run(waits(4))
    closures(3)
