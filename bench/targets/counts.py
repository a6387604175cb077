"""counts.py PROGRAM UNITS: so much of one program that calls a lot of functions. PROGRAM: see PROGRAMS; `after NAME` runs it once
under a run with exact counts, stopped before the work, to show what that leaves behind."""

import ast
import difflib
import io
import sys
import tokenize
from fractions import Fraction
from json.encoder import JSONEncoder

import says

with open(difflib.__file__, encoding="utf-8") as file:
    SOURCE = file.read()


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def recursion():
    fibonacci(15)


class Shape:
    def __init__(self, x):
        self.x = x

    def area(self):
        return self.side() * self.side()

    def side(self):
        return self.x


def methods():
    total = 0
    for i in range(300):
        total += Shape(i).area()


def unparsing():
    ast.unparse(TREE)


TREE = ast.parse(SOURCE[:6000].rpartition("\ndef ")[0] or "x = 1")


def tokens():
    for _ in tokenize.generate_tokens(io.StringIO(SOURCE[:8000]).readline):
        pass


def encoding():
    encoder = JSONEncoder(indent=1)  # in Python, by generators
    "".join(encoder.iterencode({"a": [{"b": i, "c": [1, 2.5, None]} for i in range(50)]}))


def fractions():
    total = Fraction(0)
    for i in range(1, 30):
        total += Fraction(1, i)


PROGRAMS = {each.__name__: each for each in (recursion, methods, unparsing, tokens, encoding, fractions)}


def main(name, units):
    program = PROGRAMS[name.split()[-1]]
    if name.startswith("after "):
        import spprof

        spprof.start(calls=True)
        program()
        spprof.stop()
    program()
    with says.work():
        for _ in range(units):
            program()


main(sys.argv[1], int(sys.argv[2]))
