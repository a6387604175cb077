"""Exact times of imports (`spprof run --imports`, docs/slow-import.md)."""

from __future__ import annotations

from typing import Dict, Iterable, List, NamedTuple, Set, Tuple

from .calls import Calls


class Import(NamedTuple):
    """One import of a module that was not there yet. `parent`: the position of the import within which it came, in the list that
    has both; -1: none. `total_ns` is wall time with what the module imports, `self_ns` without. `file`: of its code, or ''."""

    name: str
    file: str
    tid: int
    began_ns: int
    total_ns: int
    self_ns: int
    failed: bool
    parent: int


def nested(rows: Iterable[Tuple[str, str, int, int, int, int]]) -> List[Import]:
    """Imports in the order in which they began. `rows`: name, file, tid, beginning, time, whether it failed."""
    order = sorted(rows, key=lambda row: (row[3], -row[4]))
    open_of: Dict[int, List[int]] = {}
    parents, own = [], [row[4] for row in order]
    for at, (_, _, tid, began, took, _) in enumerate(order):
        within = open_of.setdefault(tid, [])
        while within and began + took > order[within[-1]][3] + order[within[-1]][4]:
            within.pop()
        parents.append(within[-1] if within else -1)
        if within:
            own[within[-1]] -= took
        within.append(at)
    return [
        Import(name, file, tid, began, took, own[at], bool(failed), parents[at])
        for at, (name, file, tid, began, took, failed) in enumerate(order)
    ]


def never_called(imports: Iterable[Import], calls: Calls) -> List[Import]:
    """Modules of Python code none of whose functions another file has called: those that may be imported lazily, the longest
    first. What is used otherwise (constants, classes without an `__init__`) is among them."""
    used: Set[str] = set()
    for call in calls.rows:
        if call.function.name != "<module>" and (call.caller is None or call.caller.file != call.function.file):
            used.add(call.function.file)
    found = [each for each in imports if each.file.endswith(".py") and not each.failed and each.file not in used]
    return sorted(found, key=lambda each: (-each.total_ns, each.name))
