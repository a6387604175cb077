"""A module of pybind11's, compiled here: callbacks with the GIL and without, from threads that C++ began, virtual functions,
destructors that call Python, and exceptions in both directions."""

import hashlib
import importlib.util
import os
import subprocess
import sys
import sysconfig
import threading

import pybind11
from _truth import burn, part

PYPI = ["pybind11"]
COMMANDS = {"g++": "g++"}
HEAVY = True
ROOTS = ["reply"]
ANYWHERE = ["last"]
SOURCE = os.path.splitext(os.path.abspath(__file__))[0] + ".cc"


def built():
    """The module; it is compiled once for each text, beside this interpreter's packages."""
    with open(SOURCE, "rb") as file:
        digest = hashlib.sha256(file.read() + pybind11.__version__.encode()).hexdigest()[:16]
    folder = os.path.join(sys.prefix, "pybind11_module")
    path = os.path.join(folder, digest + ".so")
    if not os.path.exists(path):  # -> *
        os.makedirs(folder, exist_ok=True)  # -> *
        new = f"{path}.{os.getpid()}"
        command = ["g++", "-std=c++17", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", SOURCE, "-o", new, "-pthread"]
        command += ["-I", pybind11.get_include(), "-I", sysconfig.get_path("include")]  # -> *
        subprocess.run(command, check=True)  # -> *
        os.replace(new, path)
    spec = importlib.util.spec_from_file_location("pybind11_callbacks", path)  # -> *
    module = importlib.util.module_from_spec(spec)  # -> *
    spec.loader.exec_module(module)  # -> *
    return module


cpp = built()
COUNT = []


class Square(cpp.Shape):
    def area(self, n):
        burn(30)
        return n * n

    def edges(self):
        return super().edges() + 1


def reply(i):
    burn(50)
    return i % 7


def less(a, b):
    burn(10)
    return a * 7919 % 997 < b * 7919 % 997


def deeper(n):
    return cpp.nested(deeper, n - 1)


def raises(i):
    if i % 2:
        raise KeyError(i)
    burn(20)


def last():
    COUNT.append(burn(20))


def numbers(n):
    for i in range(n):
        yield burn(30) % 3 + i


def thrown(n):
    """How often each exception came."""
    counts = {}
    for i in range(n):
        try:
            cpp.thrown(i)
        except (IndexError, ValueError, cpp.Odd) as error:
            counts[type(error).__name__] = counts.get(type(error).__name__, 0) + 1
    return sorted(counts.items())


def each(n):
    """What a thread does."""
    total = 0
    for i in range(n):
        total += cpp.called(reply, 40) + cpp.back(reply, 40) + cpp.nested(deeper, 30)  # -> reply deeper
        total += cpp.summed(Square(), 40) + cpp.iterated(numbers(40))  # -> area edges numbers
        total += cpp.taken(raises, 40) + cpp.sorted([j * 31 % 101 for j in range(60)], less)[0]  # -> raises less
        guard = cpp.Guard(last)
        del guard
        total += cpp.computed(20000 + i) % 5
    return total


def heavy(n):
    return burn(n)


def calls(n):
    return cpp.called(reply, n)  # -> reply


def released(n):
    return cpp.computed(n)


def holding(n):
    return cpp.held(n)


def sleeping(n):
    return cpp.waited(n)


def main():
    results = {}
    threads = [threading.Thread(target=lambda i=i: results.update({i: each(30 + i)})) for i in range(4)]
    for thread in threads:
        thread.start()
    spread = cpp.spread(reply, 6, 300)  # -> reply
    for thread in threads:
        thread.join()
    rest = []
    with part("heavy"):
        rest.append(heavy(4000000))
    with part("calls"):
        rest.append(calls(60000))
    with part("released"):
        rest.append(released(60000000))
    with part("holding"):
        rest.append(holding(60000000))
    with part("sleeping"):
        rest.append(sleeping(300))
    print(sorted(results.items()), spread, rest, thrown(4000), len(COUNT))


if __name__ == "__main__":
    main()
