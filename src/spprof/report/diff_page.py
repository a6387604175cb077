"""The page of `spprof diff -o`: a table with intervals and a differential flame graph, in one file that loads nothing.

The page is `diff.html` with the comparison as JSON in it; its script puts all names into the page as text, never as HTML.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Optional

from ..model.unicode import markup
from .calltree import Call, CallTree
from .comparison import Change, Comparison
from .splitting import Factor, split
from .text import files_of, place

_LEAST = 0.001  # share of A and of B below which a call is too narrow to be drawn
_TEMPLATE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "viewers", "diff.html")


def html(comparison: Comparison) -> str:
    """The page."""
    from .. import __version__

    names = [files_of(side) for side in comparison.sides]
    data: Dict[str, Any] = {
        "spprof": __version__,
        "names": names,
        "by": comparison.by,
        "unit": comparison.unit,
        "wall": comparison.sides[0][0].mode == "wall",
        "repeated": comparison.repeated,
        "counted": comparison.calls is not None,
        "notes": comparison.notes,
        "runs": [[whole.weight / comparison.scale for whole in wholes] for wholes in comparison.wholes],
        "samples": [sum(whole.ticks for whole in wholes) for wholes in comparison.wholes],
        "time": _change(comparison.total()),
        "rows": _rows(comparison),
        "calls": _calls(comparison),
    }
    # Within a script element only `<` could begin something else; ASCII, so that no other encoding can be made of it.
    script = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    with open(_TEMPLATE, encoding="utf-8") as file:
        before, mark, after = file.read().partition("{{data}}")
    assert mark
    title = markup(f"spprof diff: {names[0]} → {names[1]}")
    return before.replace("{{title}}", title) + script + after


def _change(change: Change) -> List[Any]:
    """Figure, low, high of A, of B and of the difference; whether it is marked."""
    return [*([round(number, 6) for number in estimate] for estimate in change[:3]), change.significant]


def _factor(factor: Optional[Factor]) -> Optional[List[Any]]:
    """Before, after, and the ratio with its ends (None: it has no bound)."""
    if factor is None:
        return None
    ratio = factor.ratio and [round(number, 6) if number != float("inf") else None for number in factor.ratio]
    return [factor.a.value, factor.b.value, ratio, factor.significant]


def _rows(comparison: Comparison) -> List[Dict[str, Any]]:
    rows: Dict[int, Dict[str, Any]] = {}
    for kind in ("own", "total"):
        changes = comparison.changes(kind)
        for row, change in changes:
            function = row.function
            line = 0 if function.native and not function.line else row.line
            found = rows.setdefault(id(row), {"name": place(function.qualname, row.file, line)})
            time = comparison.change(row.figures(kind), "time")
            of = split(comparison, row, kind, len(changes))
            factors = [] if of is None else [_factor(of.calls), _factor(of.per_call)]
            found[kind] = [*_change(change), time.a.value, time.b.value, *factors]
    return list(rows.values())


def _calls(comparison: Comparison) -> List[List[Any]]:
    """The call tree, callers first: depth, name, change of share."""
    profiles = [*comparison.sides[0], *comparison.sides[1]]
    namers = [comparison.aligner.namer(profile) for profile in profiles]
    tree = CallTree(profiles, namers, comparison.thread, comparison.only == "python")
    first = len(comparison.sides[0])
    wholes = [*comparison.wholes[0], *comparison.wholes[1]]

    def wide(node: Call) -> bool:
        shares = [weight / whole.weight for weight, whole in zip(node.weights, wholes)]
        return max(sum(shares[:first]) / first, sum(shares[first:]) / (len(shares) - first)) >= _LEAST

    calls = [
        (depth, node, ([*map(float, node.weights[:first])], [*map(float, node.weights[first:])]))
        for depth, node in tree.walk(wide)
    ]
    compared = sum(comparison.compared(runs) for _, _, runs in calls)
    result = []
    for depth, node, runs in calls:
        change = _change(comparison.change((runs, None), "share", compared))
        result.append([depth, _name(comparison, node.name), [*change[:3], change[3] and comparison.compared(runs)]])
    return result


def _name(comparison: Comparison, name: Any) -> str:
    file, line = comparison.aligner.shown.get(name, (name.file, 0))
    return place(name.qualname, file, 0 if name.native and not name.line else line)
