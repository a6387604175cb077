#!/usr/bin/env python3
"""The interpreters that spprof knows: the one list that Makefile, tools and CI read, and that tests hold the rest to.

  python3 tools/interpreters.py tested          their names, one a line
  python3 tools/interpreters.py released --json the same as JSON, for a matrix of .github/workflows

KINDS: known (a layout in csrc/py/), released (wheels, CI), tested (tools/matrix has one to run, and the gate proves it), apart
(tested, and its locks, signals or C library differ from the others': the gate runs what depends on them, too).
"""

import json
import sys
from typing import List, NamedTuple


class Interpreter(NamedTuple):
    name: str  # as in build/venvs/NAME; t: free-threaded, d: a debug build
    tested: bool = True
    apart: bool = False


ALL = [
    Interpreter("3.9", apart=True),
    Interpreter("3.10"),
    Interpreter("3.11"),
    Interpreter("3.12"),
    Interpreter("3.13"),
    Interpreter("3.13t", apart=True),
    Interpreter("3.14", apart=True),
    Interpreter("3.14t", tested=False),
    Interpreter("3.14d"),
    Interpreter("3.15", apart=True),
    Interpreter("3.15t", tested=False),
]
TESTED = [one.name for one in ALL if one.tested]
APART = [one.name for one in ALL if one.apart]
RELEASED = [one.name for one in ALL if not one.name.endswith("d")]  # nobody installs a debug build from a registry
KINDS = {"known": [one.name for one in ALL], "released": RELEASED, "tested": TESTED, "apart": APART}


def main(arguments: List[str]) -> int:
    if arguments[:1] not in ([kind] for kind in KINDS) or arguments[1:] not in ([], ["--json"]):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    names = KINDS[arguments[0]]
    print(json.dumps(names) if arguments[1:] else "\n".join(names))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
