"""`spprof report --specialization`: hot lines with instructions that CPython could not specialize (docs/specialization.md)."""

from __future__ import annotations

from operator import add
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..errors import BadOption
from ..formats._sources import Texts
from ..model import intervals
from ..model.data import ProfileData
from ..model.specialization import Instruction, Unspecialized, together
from .document import document, estimate, limited
from .tables import check_units
from .text import amount, fit, place, printable, readable, share_of

_LEAST = 24  # columns for the place and the source, whatever the terminal


class _Row(NamedTuple):
    instruction: Instruction
    weight: int  # self time of its line
    squares: float
    source: str


def text(profiles: Sequence[ProfileData], limit: int, width: int) -> str:
    """The instructions of the lines with the most sampled time first. Raises BadOption if a profile has none."""
    profiles = list(map(readable, profiles))
    found, whole = _found(profiles), _whole(profiles)
    rows = [row for row in _rows(found, profiles) if row.weight]
    lines = {(row.instruction.function, row.instruction.line): (row.weight, row.squares) for row in rows}
    weight, squares = (sum(column) for column in zip(*lines.values())) if lines else (0, 0.0)
    unit = profiles[0].unit
    took = f"{amount(weight, unit)} ({share_of(whole, weight, squares).strip()})"
    out = [f"{len(rows):,} instructions were not specialized, in {len(lines):,} lines with {took} of their own.", ""]
    if rows:
        out.append(f"{'self of the line':>22}  {'how often':>16}  instruction")
    for row in rows[:limit]:
        one = row.instruction
        often = f"{one.runs:,} misses" if one.missed else f"{one.runs:,}+ runs"
        figures = f"{amount(row.weight, unit):>10} {share_of(whole, row.weight, row.squares)} {often:>14}  {one.name:<15} "
        where = place(one.function.qualname, one.function.file, one.line)
        out.append(figures + fit(f"{where}: {row.source}" if row.source else where, max(_LEAST, width - len(figures))))
    if len(rows) > limit:
        out.append(f"{'':42}... {len(rows) - limit} more (--limit)")
    if found.unread:
        out += ["", f"Not read: {found.unread:,} functions, of other interpreters or beyond the first 4,096."]
    return "\n".join(out) + "\n"


def as_json(profiles: Sequence[ProfileData], limit: Optional[int]) -> str:
    """The same for programs, with those of lines without a sample."""
    found, whole = _found(profiles), _whole(profiles)
    rows = _rows(found, profiles)
    instructions = [_instruction(row, whole) for row in rows]
    about = {"unit": profiles[0].unit, "unread": found.unread}
    return document("specialization", {**about, **limited("instructions", instructions, limit)})


def _instruction(row: _Row, whole: intervals.Whole) -> Dict[str, Any]:
    one = row.instruction
    return {
        "qualname": one.function.qualname,
        "file": one.function.file,
        **{name: getattr(one, name) for name in ("line", "end_line", "column", "end_column", "name", "missed", "runs")},
        "self": row.weight,
        **estimate(whole.share(row.weight, squares=row.squares), "share"),
    }


def _found(profiles: Sequence[ProfileData]) -> Unspecialized:
    each = [profile.unspecialized for profile in profiles]
    found = [one for one in each if one is not None]
    if len(found) == len(each):
        return together(found)
    if any(profile.header.get("part") for profile in profiles):
        raise BadOption("instructions are read at the end of a run, so a part of a profile has none")
    if any(profile.header.get("specialization") for profile in profiles):
        raise BadOption("the instructions were not read: the program was killed, replaced itself, or ran beyond --duration")
    raise BadOption("instructions were not read; take a profile with `spprof run --specialization` (Python 3.11 and later)")


def _whole(profiles: Sequence[ProfileData]) -> intervals.Whole:
    check_units(profiles, "added up")
    return intervals.together(profile.whole(None) for profile in profiles)


def _rows(found: Unspecialized, profiles: Sequence[ProfileData]) -> List[_Row]:
    """Those of the lines with the most time of their own first."""
    times: Dict[Tuple[Any, ...], List[float]] = {}
    for profile in profiles:
        squares = profile.function_squares("line", None, None) if profile.has_big_samples(None) else {}
        for row in profile.functions("line", None, None):
            known = times.setdefault(row[:4], [0, 0.0])
            known[:] = map(add, known, (row.self_weight, squares.get(row[:4], (0.0, 0.0))[0]))
    sources = _Sources(profiles)
    rows = []
    for one in found.instructions:
        weight, squared = times.get((*one.function[:3], one.line), (0, 0.0))
        rows.append(_Row(one, int(weight), squared, sources.of(one) if weight else ""))
    return sorted(rows, key=lambda row: (-row.weight, row.instruction.function[2:4], row.instruction))


class _Sources:
    """The text of instructions, of files that have not changed."""

    def __init__(self, profiles: Sequence[ProfileData]) -> None:
        self._profiles = profiles
        self._lines: Dict[str, List[str]] = {}

    def of(self, one: Instruction) -> str:
        lines = self._lines.get(one.function.file)
        if lines is None:
            lines = self._lines[one.function.file] = self._read(one.function.file)
        if not 0 < one.line <= len(lines):
            return ""
        line = lines[one.line - 1].encode()
        whole = one.end_line == one.line and 0 <= one.column < one.end_column
        return printable(" ".join((line[one.column : one.end_column] if whole else line).decode("utf-8", "replace").split()))

    def _read(self, file: str) -> List[str]:
        for profile in self._profiles:
            found = Texts(profile, [(file, False)], None).texts.get(file)
            if found is not None:
                return found.splitlines()
        return []
