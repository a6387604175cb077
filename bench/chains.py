"""Writes the program of fast-changing chains a_i > b_i > c_i > d_i; not in a file of its own because it is 24 times the same."""

from pathlib import Path

from .child import TARGETS, WORK

_CHAIN = """
def d_{i}(x):
    return x + {i}


def c_{i}(x):
    return d_{i}(x)  # -> d_{i}


def b_{i}(x):
    return c_{i}(x)  # -> c_{i}


def a_{i}(x):
    return b_{i}(x)  # -> b_{i}
"""
_MAIN = '''"""chains.py CPU_SECONDS | chains.py =TURNS: written by bench/chains.py."""

import sys  # -> *
import time  # -> *

sys.path.insert(0, {targets!r})
import says  # -> *

{chains}

def turn():
{calls}


def main(amount):
    work = says.work().begin()  # -> *
    if amount.startswith("="):
        for _ in range(int(amount[1:])):
            turn()  # -> turn
    else:
        end = time.process_time() + float(amount)
        while time.process_time() < end:
            turn()  # -> turn
    work.end()  # -> *


main(sys.argv[1])  # -> main
'''


def write(chains: int = 24) -> Path:
    """The path of the program."""
    WORK.mkdir(parents=True, exist_ok=True)
    path = WORK / "chains.py"
    calls = "\n".join(f"    a_{i}({i})  # -> a_{i}" for i in range(chains))
    text = _MAIN.format(targets=str(TARGETS), chains="\n".join(_CHAIN.format(i=i) for i in range(chains)), calls=calls)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return path
