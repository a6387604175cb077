"""Coverage of a program with threads, by each of its tracers: it sees the same lines and arcs."""

import os
import subprocess
import sys
import tempfile
import threading

import coverage
from _truth import burn

PYPI = ["coverage"]
TRACED = True
VARIANTS = {
    "ctrace": {"ENV": {"COVERAGE_CORE": "ctrace"}},
    "sysmon": {"ENV": {"COVERAGE_CORE": "sysmon"}, "ONLY": ["3.14", "3.15"]},
}


def half(n):
    if n % 2:
        return burn(n)
    for i in range(5):
        burn(i * 10)
    return n


def numbers(n):
    for i in range(n):
        yield half(i)


def main():
    with tempfile.TemporaryDirectory() as folder:  # -> *
        measured = coverage.Coverage(data_file=os.path.join(folder, "data"), include=[__file__], branch=True)  # -> *
        measured.start()  # -> *
        threads = [threading.Thread(target=lambda: sum(sum(numbers(100)) for _ in range(60))) for _ in range(3)]
        for thread in threads:
            thread.start()
        total = sum(sum(numbers(60)) for _ in range(300))
        for thread in threads:
            thread.join()
        child = subprocess.run([sys.executable, "-c", "print(1)"], stdout=subprocess.PIPE)  # -> *
        measured.stop()  # -> *
        data = measured.get_data()  # -> *
        print(total, child.stdout, sorted(data.lines(__file__)), sorted(data.arcs(__file__)))  # -> *


if __name__ == "__main__":
    main()
