"""A program under coverage, whose own tracer runs at every line and sees the same functions and lines as without a profiler."""

import os
import sys
import tempfile

import coverage

UNITS = 8
TRACED = True
NEEDS = ["coverage"]
ANYWHERE = {
    "_trace",
    "sysmon_py_start",
    "sysmon_line_lines",
    "sysmon_branch_either",
    "sysmon_branch_arcs",
    "sysmon_py_return",
    "lock_data",
    "unlock_data",
}


def work(n):
    return sum([i * 2 for i in range(n)])


def half(n):
    if n % 2:
        return work(n)
    for i in range(5):
        work(i * 10)
    return n


def numbers(n):
    for i in range(n):
        yield half(i)


def main(units):
    with tempfile.TemporaryDirectory() as folder:  # -> *
        measured = coverage.Coverage(data_file=os.path.join(folder, "data"), include=[__file__])
        measured.start()
        total = sum(sum(numbers(60)) for _ in range(units * 20))  # -> *
        measured.stop()
        lines = sorted(measured.get_data().lines(__file__))
    return [total, lines, sys.gettrace() is None]  # -> *
