"""`spprof report --imports` of a run that timed its imports: the tree with exact times, and what may be imported lazily."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Sequence, TextIO

from ..model.data import ProfileData
from ..model.imports import Import, never_called
from .document import document
from .text import Paint, amount, duration, fit, heat, readable, shown, width_of_table

_LAZY = 15  # rows
_NAMED = 3  # modules in a sentence


def import_times(profiles: Sequence[ProfileData], stream: TextIO, min_share: float) -> str:
    """The text. Imports that took less than `min_share` percent of all are left out."""
    lines: List[str] = []
    for profile in map(readable, profiles):
        rows = profile.imports or []
        whole = sum(row.total_ns for row in rows if row.parent < 0)
        took = amount(whole, "nanoseconds").strip()
        lines += [f"{len(rows):,} imports took {took}. Those of at least {min_share:g} % of it (--min-share):", ""]
        lines += ["     total       self  module", *_tree(rows, whole, stream, min_share), ""]
        lines += _lazy(profile, rows, whole)
    return "\n".join(lines).rstrip("\n") + "\n"


def in_a_sentence(profiles: Sequence[ProfileData]) -> Iterator[str]:
    """What imports took, of profiles that timed them, and what shows more."""
    rows = [row for profile in profiles for row in profile.imports or ()]
    first = sorted((row for row in rows if row.parent < 0), key=lambda row: -row.total_ns)
    if first:
        took = duration(sum(row.total_ns for row in first))
        names = ", ".join(f"{shown(row.name)} {duration(row.total_ns)}" for row in first[:_NAMED])
        yield f"{len(rows):,} imports took {took} (exact), of it {names}: `spprof report --imports`."


def as_json(profiles: Sequence[ProfileData]) -> str:
    """The same for programs: all imports of each process, in the order in which they began."""
    return document("import-times", {"processes": list(map(_process, profiles))})


def _process(profile: ProfileData) -> Dict[str, Any]:
    rows = profile.imports or []
    lazy = None if profile.calls is None else [row.name for row in never_called(rows, profile.calls)]
    return {"path": profile.path, "pid": profile.header.get("pid"), "imports": [row._asdict() for row in rows], "lazy": lazy}


def _tree(rows: Sequence[Import], whole: int, stream: TextIO, min_share: float) -> Iterator[str]:
    """The largest first, each below the one that imported it."""
    paint, width = Paint(stream), width_of_table(stream)
    below: Dict[int, List[int]] = {}
    for at in sorted(range(len(rows)), key=lambda at: rows[at].total_ns):
        if rows[at].total_ns >= min_share / 100 * whole:
            below.setdefault(rows[at].parent, []).append(at)
    waiting = [(0, at) for at in below.get(-1, ())]
    while waiting:
        depth, at = waiting.pop()
        waiting += [(depth + 1, each) for each in below.get(at, ())]
        row = rows[at]
        times = f"{amount(row.total_ns, 'nanoseconds', whole):>10} {amount(row.self_ns, 'nanoseconds', whole):>10}  "
        name = "  " * depth + shown(row.name) + (" [failed]" if row.failed else "")
        yield paint(times, heat(row.total_ns / whole if whole else 0.0)) + fit(name, max(24, width - len(times)))


def _lazy(profile: ProfileData, rows: Sequence[Import], whole: int) -> Iterator[str]:
    if profile.calls is None:
        yield "With --calls, too: modules that nobody called in the run, which may be imported lazily."
        return
    found = never_called(rows, profile.calls)
    yield "No other file called a function of these modules in this run; imported lazily, they may cost nothing:"
    yield ""
    yield "     total       self  module"
    for row in found[:_LAZY]:
        times = f"{amount(row.total_ns, 'nanoseconds', whole):>10} {amount(row.self_ns, 'nanoseconds', whole):>10}  "
        yield times + shown(row.name)
    if len(found) > _LAZY:
        yield f"{'':23}... {len(found) - _LAZY} more"
