"""Thousands of short threads, the smallest stacks, many at once, daemons that are still running when the program ends."""

import threading

UNITS = 6
DIES = ["3.9", "3.10"]  # a daemon that runs on while the interpreter ends; one run of 30 was seen on 3.10
LEAST = {"cpu": 0.0, "wall": 0.0}  # threads shorter than the time in which they are found: counted as such


def work(n):
    return sum([i * 2 for i in range(n)])


def short(results, n):
    results.append(work(3000 + n))


def waits(gate):
    gate.wait()
    work(2000)


def daemon():
    while True:
        work(1000)


def main(units):
    results = []
    for n in range(units * 300):
        thread = threading.Thread(target=short, args=(results, n))
        thread.start()
        thread.join()
    gate = threading.Event()
    old = threading.stack_size(32768 * 4)
    many = [threading.Thread(target=waits, args=(gate,)) for _ in range(300)]
    for thread in many:
        thread.start()
    threading.stack_size(old)
    gate.set()
    for thread in many:
        thread.join()
    for _ in range(3):
        threading.Thread(target=daemon, daemon=True).start()
    return [len(results), sum(results)]
