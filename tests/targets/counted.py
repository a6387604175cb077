"""Programs whose calls are known to be the same each time: what a counter of calls may get wrong."""

import asyncio
import contextlib
import functools
import re
import threading
import types
import weakref


def leaf(x=0):
    return x


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def mutual_a(n):
    return mutual_b(n - 1) if n else 0


def mutual_b(n):
    return mutual_a(n - 1) if n else 0


def counting(n):
    for i in range(n):
        yield leaf(i)


def delegating(n):
    got = yield from counting(n)
    return got


def plain():
    for i in range(10):
        leaf(i)
    leaf()
    leaf()


def recursion():
    fibonacci(12)
    mutual_a(21)


def generators():
    list(counting(7))
    for _ in counting(5):
        pass
    next(counting(3))
    counting(4)  # never begun
    sum(delegating(6))
    a, b, *c = counting(5)


def closed_generators():
    one = counting(9)
    next(one)
    one.close()
    two = counting(9)
    next(two)
    try:
        two.throw(KeyError)
    except KeyError:
        pass
    counting(3).close()


def sending():
    def averaging():
        total = 0
        while True:
            total += (yield total)

    one = averaging()
    next(one)
    for i in range(5):
        one.send(i)
    one.close()


def raising(depth):
    if depth == 0:
        raise ValueError(depth)
    try:
        raising(depth - 1)
    finally:
        leaf()


def exceptions():
    for depth in range(6):
        try:
            raising(depth)
        except ValueError:
            leaf()
    with contextlib.suppress(ValueError):
        raising(2)


def key_of(x):
    return -x


def callbacks_from_c():
    sorted(range(9), key=key_of)
    list(map(leaf, range(4)))
    list(filter(leaf, range(4)))
    max([3, 1, 2], key=key_of)
    functools.reduce(lambda a, b: leaf(a) + b, range(5))
    re.sub("a", lambda match: match.group().upper(), "banana")


class Compared:
    def __init__(self, x):
        self.x = x

    def __lt__(self, other):
        return self.x < other.x

    def __eq__(self, other):
        return self.x == other.x

    def __hash__(self):
        return hash(self.x)

    def __len__(self):
        return leaf(2)

    def __getattr__(self, name):
        return leaf(name)

    def __call__(self):
        return leaf()

    @property
    def double(self):
        return 2 * leaf(self.x)

    @staticmethod
    def fixed():
        return leaf()

    @classmethod
    def made(cls):
        return cls(1)


def special_methods():
    all = [Compared(i % 3) for i in range(8)]
    sorted(all)
    len({one: 1 for one in all})
    for one in all:
        len(one), one.missing, one(), one.double, one.fixed(), one.made(), bool(one)


def comprehensions():
    [leaf(i) for i in range(5)]
    {leaf(i) for i in range(5)}
    {leaf(i): i for i in range(5)}
    list(leaf(i) for i in range(5))
    (lambda: [leaf(j) for j in range(3)])()


def class_bodies():
    for _ in range(3):
        class Made:
            leaf()

            def method(self):
                return leaf()

        Made().method()


@functools.lru_cache(maxsize=None)
def cached(x):
    return leaf(x)


def caches():
    cached.cache_clear()
    for i in (1, 2, 1, 2, 3):
        cached(i)
    functools.partial(leaf, 1)()
    bound = Compared(1).fixed
    bound()


@contextlib.contextmanager
def managed():
    leaf()
    yield
    leaf()


def context_managers():
    for _ in range(3):
        with managed():
            leaf()
    with contextlib.ExitStack() as stack:
        stack.callback(leaf)
        stack.enter_context(managed())


async def stepping(n):
    for _ in range(n):
        await pausing()
    return leaf()


@types.coroutine
def pausing():
    yield


def coroutines():
    one = stepping(3)
    with contextlib.suppress(StopIteration):
        while True:
            one.send(None)
    two = stepping(5)
    two.send(None)
    two.close()
    stepping(1).close()


async def ticking(n):
    for i in range(n):
        yield leaf(i)


async def many():
    await asyncio.gather(*(stepping(2) for _ in range(3)))
    async for _ in ticking(4):
        leaf()
    return [i async for i in ticking(3)]


def event_loops():
    loop = asyncio.SelectorEventLoop()
    task = loop.create_task(many())
    for _ in range(20):
        loop.call_soon(loop.stop)
        loop.run_forever()
    task.result()
    loop.close()


class Finalized:
    def __del__(self):
        leaf()


def finalizers():
    for _ in range(4):
        Finalized()
    one = Compared(1)
    weakref.finalize(one, leaf)
    del one


def made_code():
    for i in range(3):
        names = {"leaf": leaf}
        exec("def made():\n    return leaf()\nmade(); made()\n", names)
    eval("leaf(1)", {"leaf": leaf})


def many_places():
    leaf(leaf(leaf()))
    (leaf(
        1),
     leaf(
        2))
    x = leaf() if leaf(1) else leaf(2)
    assert [leaf() for _ in range(2)] == [0, 0]


def interned_lines(n=3):
    while leaf(n):
        n -= 1


def deep():
    def down(n):
        return down(n - 1) + 1 if n else 0

    down(300)


def sibling_generators():
    ones = [counting(3) for _ in range(4)]
    for some in zip(*ones):
        leaf(some)


CASES = [
    plain, recursion, generators, closed_generators, sending, exceptions, callbacks_from_c, special_methods, comprehensions,
    class_bodies, caches, context_managers, coroutines, event_loops, finalizers, made_code, many_places, interned_lines, deep,
    sibling_generators,
]


def work_in_thread(n):
    for i in range(n):
        leaf(i)
    fibonacci(5)


def threads(n):
    """`n` threads, in turn and at once."""
    for i in range(n):
        thread = threading.Thread(target=work_in_thread, args=(i,))
        thread.start()
        thread.join()
    some = [threading.Thread(target=work_in_thread, args=(100,)) for _ in range(n)]
    for each in some:
        each.start()
    for each in some:
        each.join()
