"""Sixteen threads that share functions, classes and generators, and free code objects that others made."""

import gc
import queue
import threading

UNITS = 20


class Shared:
    def method(self, n):
        return work(n)

    @property
    def value(self):
        return work(20)


def work(n):
    return sum([i * 2 for i in range(n)])


def numbers(n):
    for i in range(n):
        yield work(10) * 0 + i


def source(file):
    if file.startswith("<torture made "):
        n = file.rpartition(" ")[2][:-1]
        return f"def made_{n}(k):\n    return sum([i for i in range(k)])"
    return None


def make(n):
    space = {}
    exec(compile(source(f"<torture made {n}>"), f"<torture made {n}>", "exec"), space)  # -> <module>
    return space[f"made_{n}"]


def worker(number, units, shared, made, results):
    total = 0
    for i in range(units * 25):
        total += shared.method(60)  # -> method
        total += shared.value  # -> value
        total += sum(numbers(20))  # -> numbers
        made.put(make(number * 1000000 + i))  # -> put make
        function = made.get()  # -> get
        total += function(50)  # -> made_{n}
        del function
        if i % 50 == 0 and number == 0:
            gc.collect()
    results[number] = total


def main(units):
    shared, made, results = Shared(), queue.Queue(), {}  # -> __init__
    threads = [threading.Thread(target=worker, args=(i, units, shared, made, results)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(results.values())
