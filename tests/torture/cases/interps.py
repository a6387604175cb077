"""Subinterpreters, with a GIL of their own from 3.12 on: what runs in them is sampled, and its code dies there."""

UNITS = 30
SINCE = (3, 9)
TEXT = """\
def inside_{n}(k):
    total = 0
    for i in range(k):
        space = {{}}
        exec(compile("def made(j):\\n    return sum([x for x in range(j)])", "<torture made>", "exec"), space)  # -> <module>
        total += space["made"](200)
    return total
assert inside_{n}({k}) == {k} * 19900
"""
ROOTS = {"<module>", "inside_1"}
APART = True


def source(file):
    if file == "<torture inside>":
        return TEXT.format(n=1, k=1)
    return "def made(j):\n    return sum([x for x in range(j)])" if file == "<torture made>" else None


def work(n):
    return sum([i * 2 for i in range(n)])


def interpreters():
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            return __import__(name)
        except ImportError:
            pass
    raise ImportError("no subinterpreters")


def main(units):
    module = interpreters()
    n = 0
    for _ in range(units):
        made = module.create()
        module.run_string(made, f"exec(compile({TEXT.format(n=1, k=300)!r}, '<torture inside>', 'exec'), {{}})")  # -> <module>
        module.destroy(made)
        n += work(3000) > 0
    return n
