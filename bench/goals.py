"""What every subject of the bench takes and gives."""

from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from .figures import Met
from .pythons import Python


class Options(NamedTuple):
    """`asked` is --python as given (None: not given); `python` the interpreter for goals that need one.
    `clocks`, `rates` and `programs` (a pattern) are of the subjects that compare clocks (none: all);
    `peers`: other profilers beside them. `seconds` of a run (None: the subject's own), `around`: a command before each program's,
    `as_nobody`: programs have no privilege (shares.prefix); `modes` are of `shares`, `beside` of
    `work`: how many busy processes."""

    python: Python
    asked: Optional[str]
    quick: bool
    rounds: Optional[int]
    samples: int
    minutes: float
    rate: int
    note: Callable[[str], None]
    clocks: Tuple[str, ...] = ()
    rates: Tuple[int, ...] = (1000, 10_000)
    programs: str = ""
    peers: bool = False
    seconds: Optional[float] = None
    around: Tuple[str, ...] = ()
    as_nobody: bool = False
    modes: Tuple[str, ...] = ("cpu",)
    beside: Tuple[int, ...] = (0, 2)

    @property
    def where(self) -> str:
        """For titles: how programs are run, if not plainly."""
        return (f", under `{' '.join(self.around)}`" if self.around else "") + (", as nobody" if self.as_nobody else "")


class Row(NamedTuple):
    """One line of the table."""

    goal: str
    measured: str
    met: Met
    raw: Optional[Dict[str, Any]] = None


Subject = Callable[[Options], List[Row]]
