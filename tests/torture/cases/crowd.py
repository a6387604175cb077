"""More threads than a process may have descriptors, all at work: those beyond it are sampled by timers, which need none."""

import resource
import threading

UNITS = 2
POSIX = "limit of descriptors"
THREADS = 1100
LEAST = {
    "cpu": 0.4,
    "wall": 0.0,
}  # beyond the descriptors ticks come at the kernel's own rate; the main thread waits for its turn


def work(n):
    return sum([i * 2 for i in range(n)])


def waits(gate, results, units):
    gate.wait()
    for _ in range(units):
        results.append(work(1500))


def main(units):
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
    gate, results = threading.Event(), []
    threads = [threading.Thread(target=waits, args=(gate, results, units * 10)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    with open(__file__) as file:  # -> * (the program still opens files; 3.10's `open` asks for the encoding)
        first = file.readline()  # -> *
    gate.set()
    for thread in threads:
        thread.join()
    resource.setrlimit(resource.RLIMIT_NOFILE, before)
    return [len(results), sum(results), len(first) > 10]
