"""Exact counts of exceptions: a row for each type, line that raises it and line that catches it (`spprof run --exceptions`,
docs/counts.md)."""

from __future__ import annotations

from typing import Dict, Iterable, List, NamedTuple, Optional, Tuple

from .calls import Function

HOW = ("c", "handler", "left")  # as block K numbers them


class Raised(NamedTuple):
    """How often exceptions of one type came from one line to another.

    `caught_by` and `caught_line`: where its way ended; `how`: by a 'handler' of Python code there (`except`, `finally`, `with`;
    the line is that of the first `except` of its `try`), in 'c' code that the line called (`hasattr`, the end of a `for` over an
    iterator), or it 'left' the thread's Python code, and there is no such line. `frames`: function calls that ended by it;
    `ns`: time from the raise to the catch without what handlers on the way took; both of all `number` together."""

    type: str
    raised_by: Function
    raised_line: int
    caught_by: Optional[Function]
    caught_line: int
    how: str
    number: int
    frames: int
    ns: int


class Exceptions(NamedTuple):
    """All that was counted, the most first. `uncounted`: exceptions for which there was no space; `forgotten`: how often there
    was none to remember which exceptions handlers may raise again: those that were count where they were caught first."""

    rows: List[Raised]
    uncounted: int = 0
    forgotten: int = 0

    @property
    def missing(self) -> str:
        """What was not counted, or not to its end, in words; '' if all was."""
        words = [f"{self.uncounted:,} exceptions of types or lines for which there was no space"] if self.uncounted else []
        if self.forgotten:
            words.append("exceptions that were raised again much later than they were caught, beyond their first handler")
        return "; ".join(words)


def together(parts: Iterable[Exceptions]) -> Exceptions:
    """The counts of several processes, or of several rows of one line."""
    each = list(parts)
    sums: Dict[Tuple[object, ...], List[int]] = {}
    for row in (row for part in each for row in part.rows):
        known = sums.setdefault(row[:6], [0, 0, 0])
        known[:] = (a + b for a, b in zip(known, row[6:]))
    rows = [Raised(*key, *figures) for key, figures in sums.items()]  # type: ignore[arg-type]
    rows.sort(key=lambda row: (-row.number, row.type, row.raised_by, row.raised_line, row.caught_line))
    return Exceptions(rows, sum(part.uncounted for part in each), sum(part.forgotten for part in each))
