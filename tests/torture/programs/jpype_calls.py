"""A JVM in the process. It has handlers for SIGSEGV, SIGBUS and others, alternate stacks, safepoints by protected pages, a
compiler and a collector in threads of its own. Java calls Python by proxies, also from threads that Java began."""

import threading

import jpype
from _truth import burn, part

PYPI = ["JPype1"]
COMMANDS = {"java": "default-jre-headless"}
HEAVY = True
ROOTS = ["run", "compare", "apply"]


@jpype.JImplements("java.util.Comparator", deferred=True)
class Order:
    @jpype.JOverride
    def compare(self, a, b):
        return (int(a) * 7919 % 997) - (int(b) * 7919 % 997)

    @jpype.JOverride
    def equals(self, other):
        return self is other


@jpype.JImplements("java.lang.Runnable", deferred=True)
class Job:
    def __init__(self, log):
        self.log = log

    @jpype.JOverride
    def run(self):
        self.log.append(burn(30000))


def sorts(n):
    numbers = jpype.java.util.ArrayList()  # -> *
    for i in range(n):
        numbers.add(i)  # -> *
    numbers.sort(Order())  # -> * compare equals
    return [int(numbers.get(i)) for i in range(3)]  # -> *


def garbage(n):
    held = jpype.java.util.LinkedList()  # -> *
    for i in range(n):
        held.add(jpype.java.lang.String(f"text {i}"))  # -> *
        if held.size() > 100:  # -> *
            held.removeFirst()  # -> *
    jpype.java.lang.System.gc()  # -> *
    return int(held.size())  # -> *


def null(n):
    """A null pointer in compiled Java code is a SIGSEGV that the JVM takes."""
    caught = 0
    for _ in range(n):
        try:
            jpype.java.util.Objects.requireNonNull(None)  # -> *
        except jpype.JException:
            caught += 1
        try:
            jpype.java.lang.Integer.parseInt("word")  # -> *
        except jpype.JException:
            caught += 1
    return caught


def heavy(n):
    return burn(n)


def main():
    jpype.startJVM()  # -> *
    log = []
    pool = jpype.java.util.concurrent.Executors.newFixedThreadPool(4)  # -> *
    for _ in range(20):
        pool.submit(jpype.JObject(Job(log), "java.lang.Runnable"))  # -> *
    results = {}

    def each(i):
        results[i] = sorts(1500 + i)

    threads = [threading.Thread(target=each, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pool.shutdown()  # -> *
    ended = pool.awaitTermination(60, jpype.java.util.concurrent.TimeUnit.SECONDS)  # -> *
    left = garbage(8000), null(200)
    with part("heavy"):
        total = heavy(6000000)
    print(sorted(results.items()), bool(ended), len(log), left, total)
    jpype.shutdownJVM()  # -> *


if __name__ == "__main__":
    main()
