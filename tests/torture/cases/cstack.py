"""The C stack: nearly used up by nested calls through C, RecursionError out of them, and threads on the smallest stacks."""

import functools
import json
import sys
import threading

UNITS = 10
DEEP = True


def work(n):
    return sum([i * 2 for i in range(n)])


def through_c(n):
    if n == 0:
        return work(300)
    return max([n], key=lambda _: through_c(n - 1))  # -> <lambda>


def folded(n):
    return functools.reduce(lambda a, b: folded(n - 1) if n else work(100), [1, 2])  # -> <lambda>


class Again:
    def __init__(self, depth):
        self.depth = depth

    def __repr__(self):
        return repr(Again(self.depth - 1)) if self.depth else str(work(50))  # -> __repr__ __init__


def nested_lists(n):
    made = []
    for _ in range(n):
        made = [made]
    return made


DEEP_LISTS = nested_lists(10**5)


def exhausted(units):
    caught = 0
    for _ in range(units):
        for deep in (
            lambda: through_c(10**6),
            lambda: repr(Again(10**6)),  # -> __repr__ __init__
            lambda: json.dumps(nested_lists(10**5)),
        ):  # -> __repr__
            try:
                deep()  # -> <lambda>
            except RecursionError:
                caught += 1
    return caught


def small(results, i):
    results.append(through_c(8) + work(i))


def smallest_stack():
    """Sets the smallest size that this interpreter allows; gives the one before."""
    for size in range(32768, 1 << 20, 4096):
        try:
            return threading.stack_size(size)
        except ValueError:  # 3.14d asks for 100 KiB
            continue


def main(units):
    results = []
    old = smallest_stack()
    for i in range(units * 10):
        thread = threading.Thread(target=small, args=(results, i))
        thread.start()
        thread.join()
    threading.stack_size(old)
    total = sum(through_c(60) + folded(40) + len(repr(Again(50))) for _ in range(units * 10))  # -> * __repr__ __init__
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(800)
    caught = exhausted(units)
    sys.setrecursionlimit(limit)
    return [total, caught, sum(results)]
