"""Four threads at once, each with its own chain of functions; new ones are made all the time."""
# foreign: run > left_0 left_1 left_2 left_3

import sys
import threading

# What a thread runs before its clock's first step is not seen, and under wine that is 10 ms.
CALLS = 100000 if sys.platform == "win32" else 20000

CHAIN = """
def right_{0}(n):
    s = 0
    for k in range(n):
        s += k
    return s

def middle_{0}(n):
    return right_{0}(n) + right_{0}(2)  # -> right_{0}

def left_{0}(n):
    for _ in range(n):
        middle_{0}(20)  # -> middle_{0}
"""
SOURCES = {"<threads>": "".join(CHAIN.format(i) for i in range(4))}
exec(compile(SOURCES["<threads>"], "<threads>", "exec"))


def step():
    all = [threading.Thread(target=globals()[f"left_{i}"], args=(CALLS,), name=f"worker-{i}") for i in range(4)]  # -> Thread.__init__ step.<locals>.<listcomp>
    for each in all:
        each.start()  # -> Thread.start
    for each in all:
        each.join()  # -> Thread.join
