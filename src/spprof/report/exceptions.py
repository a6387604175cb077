"""`spprof report --exceptions`: which exceptions were raised where, caught where, how often, and how long that took."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from ..errors import BadOption
from ..model.calls import Function
from ..model.data import ProfileData
from ..model.exceptions import Exceptions, Raised, together
from . import missing
from .document import document, limited
from .text import amount, fit, place, readable

_LEAST = 24  # columns for the names, whatever the terminal


def exceptions(profiles: Sequence[ProfileData], limit: int = 15, width: int = 160) -> str:
    """The text: a row for each type, line that raises and line that catches, the most first. Raises BadOption if a profile has no
    such counts."""
    counted = _counted(list(map(readable, profiles)))
    count, ns = sum(row.number for row in counted.rows), sum(row.ns for row in counted.rows)
    lines = [f"{count:,} exceptions were counted, {amount(ns, 'nanoseconds').strip()} on their way from raise to catch.", ""]
    if counted.rows:
        lines.append("        count       time  a raise  calls ended  type: line that raises > line that catches")
    for row in counted.rows[:limit]:
        each = f"{row.ns / row.number / 1000:,.2f} us"
        figures = f"{row.number:>13,} {amount(row.ns, 'nanoseconds', ns):>10} {each:>8} {row.frames:>12,}"
        words = f"{row.type}: {_place(row.raised_by, row.raised_line)} > {_caught(row)}"
        lines.append(f"{figures}  {fit(words, max(_LEAST, width - len(figures) - 2))}")
    if len(counted.rows) > limit:
        lines.append(f"{'':48}... {len(counted.rows) - limit} more (--limit)")
    if counted.missing:
        lines.append(f"Not counted: {counted.missing}.")
    return "\n".join(lines) + "\n"


def as_json(profiles: Sequence[ProfileData], limit: Optional[int]) -> str:
    """The same for programs."""
    counted = _counted(profiles)
    about = {
        "number": sum(row.number for row in counted.rows),
        "ns": sum(row.ns for row in counted.rows),
        "uncounted": counted.uncounted,
        "forgotten": counted.forgotten,
    }
    return document("exceptions", {**about, **limited("rows", list(map(_row, counted.rows)), limit)})


def _counted(profiles: Sequence[ProfileData]) -> Exceptions:
    each = [profile.exceptions for profile in profiles]
    found = [counted for counted in each if counted is not None]
    if len(found) == len(each):
        return together(found)
    raise BadOption(missing.why(profiles, "exceptions", "counts of exceptions", "--exceptions", "Python 3.12"))


def _place(function: Function, line: int) -> str:
    return place(function.qualname, function.file, line)


def _caught(row: Raised) -> str:
    if row.caught_by is None:
        return "[left the thread]"
    return _place(row.caught_by, row.caught_line) + (" [in C]" if row.how == "c" else "")


def _row(row: Raised) -> Dict[str, Any]:
    sides: List[Dict[str, Any]] = [
        {"qualname": function.qualname, "file": function.file, "line": line}
        for function, line in ((row.raised_by, row.raised_line), (row.caught_by, row.caught_line))
        if function is not None
    ]
    return {
        "type": row.type,
        "raised": sides[0],
        "caught": sides[1] if len(sides) > 1 else None,
        "how": row.how,
        "number": row.number,
        "calls_ended": row.frames,
        "ns": row.ns,
    }
