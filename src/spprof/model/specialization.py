"""Instructions that CPython had not specialized (`spprof run --specialization`, docs/specialization.md)."""

from __future__ import annotations

from typing import Iterable, List, NamedTuple

from .calls import Function


class Instruction(NamedTuple):
    """One of them. `column`, `end_column`: as `co_positions` has them; -1: unknown. `missed`: it is specialized for what did not
    come. `runs`: it ran at least so often in its general form, or missed so often, since it was last specialized."""

    function: Function
    line: int
    end_line: int
    column: int
    end_column: int
    name: str
    missed: bool
    runs: int


class Unspecialized(NamedTuple):
    """All that were found. `unread`: sampled functions whose instructions were not read."""

    instructions: List[Instruction]
    unread: int = 0


def together(parts: Iterable[Unspecialized]) -> Unspecialized:
    """Those of several processes."""
    each = list(parts)
    return Unspecialized([one for part in each for one in part.instructions], sum(part.unread for part in each))
