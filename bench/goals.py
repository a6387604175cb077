"""What every subject of the bench takes and gives."""

from typing import Any, Callable, Dict, List, NamedTuple, Optional

from .pythons import Python


class Options(NamedTuple):
    """`asked` is --python as given (None: not given); `python` the interpreter for goals that need one."""

    python: Python
    asked: Optional[str]
    quick: bool
    rounds: Optional[int]
    samples: int
    minutes: float
    rate: int
    note: Callable[[str], None]


class Row(NamedTuple):
    """One line of the table. `met`: None where there is nothing to meet, or nothing was measured."""

    goal: str
    measured: str
    met: Optional[bool]
    raw: Optional[Dict[str, Any]] = None


Subject = Callable[[Options], List[Row]]
