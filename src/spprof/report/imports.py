"""`spprof report --imports`: the modules that were imported, by which one, and how long each took.

A module's code runs once, as a function called `<module>`: what lies above it on a stack is its import. The time in which the
import system looks for modules and reads them, before their code runs, is a row of its own below the importing module.
"""

from __future__ import annotations

import ntpath
import posixpath
from typing import Any, Dict, Iterator, List, Optional, Sequence, TextIO, Tuple

from ..model import intervals
from ..model.data import ProfileData
from ..model.sums import moved
from ..model.tree import Totals, Tree
from .document import document, estimate
from .paths import short
from .tables import check, heading
from .text import Paint, amount, fit, heat, percent, readable, shown, width_of_table
from .tick_stats import tick_stats, warnings

LOADING = "[finding and loading modules]"
_SYSTEM = ("<frozen importlib.", "<frozen zipimport>")
_FIGURES = 37  # columns before the names


def imports(
    profiles: Sequence[ProfileData], stream: TextIO, thread: Optional[str], min_share: float, verbose: bool = False
) -> str:
    """The text, for a terminal or file. Modules whose share of all, with what they import, is under `min_share` percent are left
    out. Raises BadOption if no thread matches the pattern."""
    profiles = list(map(readable, profiles))
    check(profiles, thread, native=False)
    whole = intervals.together(profile.whole(thread) for profile in profiles)
    tree, names, totals = _modules(profiles, thread)
    lines = [*warnings(profiles)]
    if len(tree) == 1:
        lines += ["No module was imported, or no sample was taken meanwhile: imports are short, so use --rate 10000."]
    else:
        lines += [f"{heading(profiles, thread, whole)} Imports of at least {min_share:g} % of it (--min-share):", ""]
        lines += [
            f"{'      total':24}{'self':>10}  module",
            *_lines(tree, names, totals, whole, stream, min_share, profiles[0].unit),
        ]
    return "\n".join([*lines, "", *tick_stats(profiles, verbose)]) + "\n"


def as_json(profiles: Sequence[ProfileData], thread: Optional[str]) -> str:
    """The same for programs: all modules, those that import others before them."""
    check(profiles, thread, native=False)
    whole = intervals.together(profile.whole(thread) for profile in profiles)
    tree, names, totals = _modules(profiles, thread)
    own = _own(tree, totals)
    rows = [
        {
            "module": names[tree.frames[node]],
            "parent": tree.parents[node] - 1,
            "self": own[node],
            "total": totals[node],
            **estimate(whole.share(totals[node]), "share"),
        }
        for node in range(1, len(tree))
    ]
    return document("imports", {"unit": profiles[0].unit, "weight": whole.weight, "rows": rows})


def _own(tree: Tree, totals: Sequence[int]) -> List[int]:
    own = list(totals)
    for node in range(1, len(tree)):
        own[tree.parents[node]] -= totals[node]
    return own


def _modules(profiles: Sequence[ProfileData], thread: Optional[str]) -> Tuple[Tree, List[str], List[int]]:
    """The tree of modules, the name of each of its frames, and the nanoseconds of each node with what it imports."""
    tree, ids = Tree(), {"": 0}
    totals: List[int] = []
    for profile in profiles:
        kinds: Dict[int, str] = {}
        sums = profile.stack_sums(thread)
        nodes: Dict[int, int] = {}
        for stack in sums[0]:
            node = 0
            for name in _chain(profile, stack, kinds):
                node = tree.child(node, ids.setdefault(name, len(ids)))
            nodes[stack] = node
        each = Totals(tree, moved(sums, nodes)).nanoseconds
        totals += [0] * (len(each) - len(totals))
        totals = [one + other for one, other in zip(totals, each)] + totals[len(each) :]
    return tree, list(ids), totals


def _chain(profile: ProfileData, stack: int, kinds: Dict[int, str]) -> Iterator[str]:
    """The modules whose code a stack is in, the importing ones first. `kinds`: frame -> its module, LOADING, or ''."""
    loading = False
    for id in profile.stack_frames(stack):
        kind = kinds.get(id)
        if kind is None:
            kind = kinds[id] = _kind(profile.frame(id))
        if kind and kind != LOADING:
            yield kind
        loading = kind == LOADING or (loading and not kind)
    if loading:
        yield LOADING


def _kind(frame: Any) -> str:
    if frame.native:
        return ""
    if frame.qualname == "<module>":
        return module_name(frame.file)
    return LOADING if frame.file.startswith(_SYSTEM) else ""


def module_name(file: str) -> str:
    """`http.server` of a file of the standard library, `shop.price` of one below the current directory, else the path."""
    path = short(file)
    if not path.endswith(".py") or posixpath.isabs(path) or ntpath.isabs(path):  # of whichever system it ran on
        return path
    parts = path[: -len(".py")].replace("\\", "/").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def _lines(
    tree: Tree, names: List[str], totals: List[int], whole: intervals.Whole, stream: TextIO, min_share: float, unit: str
) -> Iterator[str]:
    paint, width = Paint(stream), width_of_table(stream)
    own = _own(tree, totals)
    below: Dict[int, List[int]] = {}
    for node in range(1, len(tree)):
        below.setdefault(tree.parents[node], []).append(node)
    waiting = [(0, -1)]
    while waiting:
        node, depth = waiting.pop()
        if node:
            share = whole.share(totals[node])
            figures = f"{amount(totals[node], unit, whole.weight):>10} {percent(share, whole.is_known)} "
            figures += f"{amount(own[node], unit, whole.weight):>10}  "
            name = "  " * depth + shown(names[tree.frames[node]])
            yield paint(figures, heat(share.value)) + fit(name, max(24, width - _FIGURES))
        seen = [each for each in below.get(node, ()) if totals[each] >= min_share / 100 * whole.weight]
        waiting += [(each, depth + 1) for each in sorted(seen, key=lambda each: (totals[each], names[tree.frames[each]]))]
