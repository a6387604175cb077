"""`spprof dump PID --locals`: the variables are those that the program was written to have. Of this Python and, from this one, of
all others at hand."""

import subprocess
import sys

from test_dump_process import each_python, start, until  # noqa: F401

LOCALS = """
class Order: pass
class list(list): pass
def values(a, b=2.5, *args, key, **more):
    small, big, huge, negative, zero = 7, 1 << 200, 1 << 4000, -(1 << 61), 0
    text, wide, long = "Ann\\n\\x1b[31m", "\\u20ac\\xe9\\U0001f600", "x" * 1000
    yes, no, none = True, False, None
    data, order, mine = b"\\0y", Order(), list([1])
    t, l, d, s, fs = (1, 2), [1] * 5, {1: 2, 3: 4}, {1}, frozenset((1, 2, 3))
    for gone in (1,): pass
    del gone
    def inner(): return cell, a
    cell = {n: n for n in (1, 2, 3)}
    os.read(0, 1)
def generator(x):
    if x < 0: later = 1
    yield values(1, 3.5, "x", key="k", z=1)
def caller(own):
    next(generator(9))
caller(values)
"""
VALUES = {
    "a": "1", "b": "3.5", "args": "<tuple of 1>", "key": "'k'", "more": "<dict of 1>", "small": "7", "big": str(1 << 200),
    "huge": "<int of up to 4,020 bits>", "negative": str(-(1 << 61)), "zero": "0", "text": r"'Ann\n\x1b[31m'",
    "wide": "'\u20ac\xe9\U0001f600'", "long": "'" + "x" * 60 + "'... (1,000 characters)", "yes": "True", "no": "False",
    "none": "None", "data": r"b'\x00y'", "order": "<Order>", "mine": "<list>", "t": "<tuple of 2>", "l": "<list of 5>",
    "d": "<dict of 2>", "s": "<set of 1>", "fs": "<frozenset of 3>", "inner": "<function>", "cell": "<dict of 3>",
}  # fmt: skip
FRAMES = [("values", VALUES), ("generator", {"x": "9"}), ("caller", {"own": "<function>"}), ("<module>", {})]


@each_python
def test_variables_are_those_that_the_program_has(python, start):  # noqa: F811
    process = start(LOCALS, python)
    until(process.pid, lambda main: main.does.startswith("waits in read"))
    (main,) = until(process.pid, lambda main: True, with_locals=True).threads
    assert main.sure and [(frame.name, dict(frame.variables)) for frame in main.frames] == FRAMES


@each_python
def test_variables_of_a_thread_that_runs(python, start):  # noqa: F811
    """They are of one moment, if the thread could be stopped for as long as they take."""
    process = start(
        "def run():\n    n = 0\n    while True:\n        n += 1\n        twice = 2 * n\n        text = str(n)\nrun()\n", python
    )

    def is_read(main):
        return len(main.frames) == 2 and main.sure and len(main.frames[0].variables or ()) == 3

    for _ in range(20):
        (main,) = until(process.pid, is_read, with_locals=True).threads
        found = dict(main.frames[0].variables)
        n, twice, text = int(found["n"]), int(found["twice"]), int(found["text"].strip("'"))
        assert n - 1 <= twice // 2 <= n and n - 1 <= text <= twice // 2, found


def test_the_command(start):  # noqa: F811
    process = start(LOCALS)
    until(process.pid, lambda main: main.does.startswith("waits in read"))

    def printed(*options):
        command = [sys.executable, "-m", "spprof", "dump", str(process.pid), *options]
        return subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8").stdout

    assert "\n        small = 7\n" in printed("--locals") and f"\n        wide = {VALUES['wide']}\n" in printed("--locals")
    assert " = " not in printed()
