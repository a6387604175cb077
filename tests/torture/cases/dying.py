"""Code that dies: made by exec, eval, compile and lambda, run while sampled, freed, and its addresses used again at once."""

import gc
import sys

UNITS = 20

# Line 2 is where the time goes. Every function's name says which file it must be in.
TEXT = """def born_{n}(k):
    for _ in range(k): sum(range(60))
    return inner_{n}(k)
def inner_{n}(k):
    return sum([i * 2 for i in range(k)])
born_{n}({k})
"""


class Name(str):
    """A name that is not exactly a str, as `code.replace` lets through."""


def source(file):
    if not file.startswith("<torture "):
        return None
    kind, n = file[len("<torture ") : -1].split()
    if kind == "text":
        return TEXT.format(n=n, k=30)
    if kind == "expression":
        return f"sum([i * {n} for i in range(300)])"
    if kind == "lambda":
        return f"lambda: sum([i for i in range(500 + {n} % 7)])"
    return f"\ndef renamed_{n}(k):\n    return sum([i for i in range(k)])\n"


def texts(n):
    space = {}
    exec(compile(TEXT.format(n=n, k=30), f"<torture text {n}>", "exec"), space)  # -> <module>
    return space[f"inner_{n}"](10)  # -> inner_{n}


def expressions(n):
    return eval(compile(source(f"<torture expression {n}>"), f"<torture expression {n}>", "eval"))  # -> <module>


def lambdas(n):
    made = eval(compile(source(f"<torture lambda {n}>"), f"<torture lambda {n}>", "eval"))  # -> <module>
    return made()  # -> <lambda>


def original(k):
    return sum([i * 2 for i in range(k)])


def replaced(n):
    """A copy of a living code object under another name: its own, and freed at once."""
    name = f"renamed_{n}"
    changes = {"co_name": Name(name) if n % 2 else name, "co_filename": f"<torture renamed {n}>"}
    if sys.version_info >= (3, 11):
        changes["co_qualname"] = name
    changes["co_firstlineno"] = 2
    made = type(original)(original.__code__.replace(**changes), globals())
    return made(400)  # -> renamed_{n}


def main(units):
    total = 0
    for n in range(units * 400):
        total += texts(n)
        total += expressions(n)
        total += lambdas(n)
        total += replaced(n)
        if n % 1000 == 0:
            gc.collect()
    return total
