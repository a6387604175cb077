"""Forks in a storm, with code that dies in the children; subprocess and multiprocessing, and all results come back."""

import multiprocessing
import os
import subprocess
import sys
import threading

UNITS = 6
POSIX = "fork"
LEAST = {"wall": 0.5}  # each fork holds the sampler's locks while the kernel copies the process


def work(n):
    return sum([i * 2 for i in range(n)])


def dies(n):
    space = {}
    code = compile(source(f"<torture child {n}>"), f"<torture child {n}>", "exec")
    exec(code, space)  # -> <module>
    return space[f"child_{n}"](500)  # -> child_{n}


def source(file):
    if file.startswith("<torture child "):
        n = file.rpartition(" ")[2][:-1]
        return f"def child_{n}(k):\n    return sum([i for i in range(k)])"
    return None


def square(n):
    return n * n + work(300) * 0


def forked(units):
    good = 0
    for n in range(units * 25):
        pid = os.fork()  # -> *
        if pid == 0:
            for k in range(30):
                dies(n * 30 + k)
            os._exit(17)
        dies(n)
        work(5000)
        good += os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 17
    return good


def busy(stop):
    while not stop.is_set():
        work(2000)


def main(units):
    stop = threading.Event()
    other = threading.Thread(target=busy, args=(stop,))
    other.start()
    result = [forked(units)]
    stop.set()
    other.join()
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with context.Pool(2) as pool:  # -> *
            result.append(sum(pool.map(square, range(40))))  # -> *
    for n in range(units):
        done = subprocess.run([sys.executable, "-c", f"print({n} * 2)"], stdout=subprocess.PIPE)  # -> *
        result.append(int(done.stdout))
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", "raise SystemExit(5)"], os.environ)  # -> *
    result.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    return result
