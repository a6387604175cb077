"""How figures and names are written in a terminal."""

from __future__ import annotations

import os
import re
import sys
from typing import Any, Optional, Sequence, TextIO

from ..model.data import ProfileData
from ..model.intervals import Estimate, Whole
from ..model.layout import changed
from ..model.records import native_name
from .paths import full_paths, short

_LONGEST = 300  # characters of a name
LEAST = 24  # columns for a name, whatever the terminal
_WIDEST = 160  # columns of a table
_SECONDS = 100_000_000  # ns: what is more is in seconds, else in milliseconds


def duration(ns: float) -> str:
    """`3.50 s`, `1.93 ms`."""
    if abs(ns) >= _SECONDS:
        return f"{ns / 1e9:.2f} s"
    return f"{ns / 1e6:.2f} ms"


def amount(weight: float, unit: str, of: Optional[float] = None) -> str:
    """A weight in what it counts: see `Profile.unit`. `of`: the whole of a table, whose columns have one unit."""
    if unit != "nanoseconds":
        return f"{round(weight):,}"
    if of is None:
        return duration(weight)
    return f"{weight / 1e6:.2f} ms" if of < _SECONDS else f"{weight / 1e9:.{3 if of < 1000 * _SECONDS else 2}f} s"


def percent(share: Estimate, known: bool = True) -> str:
    """A share with its error bar, 12 wide: ` 42.1% ±1.3 `, or `±?`. The larger side of the interval is shown."""
    if not known:
        return f"{share.value:>6.1%} ±{'?':<4}"
    return f"{share.value:>6.1%} ±{100 * share.reach:<4.1f}"


def share_of(whole: Whole, ns: float, squares: float = 0.0) -> str:
    """The same of a part of all; `squares` as for `Whole.share`."""
    return percent(whole.share(ns, squares=squares), whole.is_known)


ESTIMATED = "~ calls: an estimate for the whole run, of functions that were counted in a part of it."


def calls_of(row: Any) -> str:
    """The number of calls of a row, 11 wide: exact, or with a tilde an estimate."""
    if row.calls is None:
        return f"{'':>11}"
    return f"{('~' if row.hot is not None else '') + format(row.calls, ','):>11}"


def per_call(time: Optional[Estimate]) -> str:
    """The time of one call with its error bar, 17 wide: `  1.23 us ±0.05 `."""
    if time is None:
        return f"{'':>17}"
    reach = max(time.high - time.value, time.value - time.low)
    unit, scale = next((each for each in _UNITS if max(time.value, reach) >= each[1]), _UNITS[-1])
    return f"{_three(time.value / scale):>6} {unit:<2} ±{_three(reach / scale):<6}"


def each_takes(weight: float, unit: str) -> str:
    """What one call takes: `1.23 us`; or of what is counted, if that is not time."""
    if unit != "nanoseconds":
        return _three(weight)
    name, scale = next((each for each in _UNITS if weight >= each[1]), _UNITS[-1])
    return f"{_three(weight / scale)} {name}"


def times(ratio: float) -> str:
    """How many times as much: `1.40`, `1,234`."""
    return "any" if ratio == float("inf") else _three(ratio) if ratio < 1000 else f"{ratio:,.0f}"


def brief(ns: float) -> str:
    """A time in three digits: `1.23 us`, `123 ns`."""
    unit, scale = next((each for each in _UNITS if ns >= each[1]), _UNITS[-1])
    return f"{round(ns)} ns" if unit == "ns" else f"{_three(ns / scale)} {unit}"


def _three(value: float) -> str:
    """A number below 1000 (or of seconds) in three digits."""
    return f"{value:.{2 if value < 10 else 1 if value < 100 else 0}f}"


_UNITS = (("s", 1e9), ("ms", 1e6), ("us", 1e3), ("ns", 1.0))


def place(qualname: str, file: str, line: int) -> str:
    """A function as people look for it: `parse (app.py:10)`, `deflate [libz.so.1]`."""
    return shown(f"{qualname} ({short(file)}:{line})" if line else native_name(qualname, file))


def shown(name: str) -> str:
    """A name that cannot break a line, or fill it."""
    return fit(printable(name), _LONGEST)


def printable(text: str) -> str:
    """Text that cannot break a line or command a terminal: what has no shape is spelled out."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


_TEXTS = ("strings", "sources", "threads", "label_sets", "header", "tick_stats", "end", "warning")  # columns that hold texts


def readable(profile: ProfileData) -> ProfileData:
    """The profile with all its texts printable. What people read is made of this: so no field of a file is printed as it is."""
    columns = profile._columns()
    texts = {name: value for name, value in columns.items() if name in _TEXTS}
    made = {name: _printable(value) for name, value in texts.items()}
    if made == texts:
        return profile
    result = type(profile).of_columns(changed(columns, made), profile)
    result.path, result._sums = profile.path, profile._sums
    return result


def _printable(value: Any) -> Any:
    """The same of all texts of a column."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {_printable(key): _printable(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_printable, value))
    return value


def say(text: str) -> None:
    """A line to stderr, whatever is in it."""
    put_err(f"{printable(text)}\n")


def put_err(text: str) -> None:
    """Lines to stderr; nothing where that is closed or full."""
    try:
        put(sys.stderr, text)
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):
        pass


def fit(text: str, width: int) -> str:
    """Text in at most so many characters: its beginning and its end."""
    if len(text) <= width:
        return text
    end = (width - 3) // 2
    return text[: max(0, width - 3 - end)] + "..." + (text[-end:] if end > 0 else "")


def beside(figures: str, name: str, width: int) -> str:
    """A row: its figures, and a name in what is left of the width."""
    return f"{figures}  {fit(name, max(LEAST, width - len(figures) - 2))}"


def files_of(profiles: Sequence[ProfileData]) -> str:
    """The names of a side's files; of many the first and the last."""
    names = [printable(os.path.basename(profile.path or "?")) for profile in profiles]
    return ", ".join(names) if len(names) <= 3 else f"{names[0]} ... {names[-1]}"


_OURS = re.compile("(\x1b\\[(?:31|33|2|32|0)m|\n)")  # what `Paint` and lines are made of


def put(stream: TextIO, text: str) -> None:
    """Writes what people read: lines of printable text, in our colours. All that goes to a terminal goes this way. The encoding
    of the stream may lack some of it."""
    if not text.isprintable():
        text = "".join(part if number % 2 else printable(part) for number, part in enumerate(_OURS.split(text)))
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.replace("±", "+-").encode(encoding, "backslashreplace").decode(encoding)
    stream.write(text)


def width_of(stream: TextIO) -> int:
    """Columns of the terminal; very many where the stream is none."""
    if not _is_terminal(stream):
        return 1 << 30
    import shutil  # here: `spprof run` shares its process with the program

    return shutil.get_terminal_size().columns


def _is_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except (AttributeError, OSError, ValueError):  # None, or closed: the program's own
        return False


def width_of_table(stream: TextIO) -> int:
    """How wide a table is at most: the terminal, or elsewhere what still reads well; with --full-paths as wide as it must be."""
    return 1 << 30 if full_paths() else min(width_of(stream), _WIDEST)


class Paint:
    """Colours, only for a terminal, unless it forbids them. NO_COLOR is not ours: by its standard (https://no-color.org) every
    word means yes, 0 too."""

    def __init__(self, stream: TextIO) -> None:
        self.on = stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def __call__(self, text: str, colour: str) -> str:
        codes = {"hot": "31", "warm": "33", "faint": "2", "good": "32"}
        return f"\x1b[{codes[colour]}m{text}\x1b[0m" if self.on and colour else text


def heat(share: float) -> str:
    """The colour of a share."""
    return "hot" if share >= 0.2 else "warm" if share >= 0.05 else "faint" if share < 0.01 else ""


def weight_word(unit: str) -> str:
    """What a weight of this unit is of, in a word: 'time', or what is counted."""
    return "time" if unit == "nanoseconds" else unit
