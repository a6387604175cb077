"""cProfile's file, also of pstats and our own `pstats` format: a marshalled dictionary
`(file, line, function): (cc, nc, tt, ct, callers)` (https://docs.python.org/3/library/profile.html).

It has calls and no stacks: it says which function called which, but not what called the caller. So
each function is alone, with its own time (`tt`), the only time that is sure to be right, and the
profile's warning says so. Marshal's own reader is not used: it
"""

from __future__ import annotations

import math
import struct
from typing import Any, Callable, Dict, List

from ..model.records import COARSE
from ._columns import MAX_NUMBER, Columns

_DEEPEST = 8
_WARNING = (
    "cProfile's files have no stacks: each function appears alone, with its own time, and its total is that; "
    "`python -m pstats FILE` shows the time with what it called"
)
_NULL = object()


def read(data: bytes) -> Dict[str, Any]:
    """The columns of a file. Raises ValueError."""
    stats = _Marshalled(data).document()
    if not isinstance(stats, dict):
        raise ValueError("it is no dictionary of functions")
    columns = Columns("cprofile", "nanoseconds")
    columns.warning = _WARNING
    thread = columns.thread("all threads")
    for number, (key, value) in enumerate(stats.items()):
        where = f"function {number}"
        if not (type(key) is tuple and len(key) == 3 and type(key[0]) is type(key[2]) is str and type(key[1]) is int):
            raise ValueError(f"{where} is {key!r:.60}, not a file, a line and a name")
        file, line, name = key
        if not (type(value) is tuple and len(value) == 5):
            raise ValueError(f"{where}, {name!r:.60}, has no five figures")
        calls, seconds = value[1], value[2]
        if type(calls) is not int or not 0 <= calls <= MAX_NUMBER:
            raise ValueError(f"{where}, {name!r:.60}, has the number of calls {calls!r:.40}")
        if type(seconds) not in (int, float) or not (math.isfinite(seconds) and -1e-3 < seconds < 1e9):
            raise ValueError(f"{where}, {name!r:.60}, has the time {seconds!r:.40}")
        # cProfile's clock may go back by a little: what it then gives is no time at all.
        frame = columns.frame(name) if file == "~" else columns.frame(name, file, line, line)
        columns.sample(thread, (columns.node(0, frame), COARSE), max(0, round(seconds * 1e9)), calls)
    return columns.result()


class _Marshalled:
    """What cProfile writes: numbers, texts, tuples, dictionaries and references, of every version of marshal."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self.known: List[Any] = []  # what has the mark of what is referred to
        self.kinds: Dict[int, Callable[[], Any]] = {
            ord("N"): lambda: None, ord("i"): self._int, ord("l"): self._long, ord("f"): self._float_text,
            ord("g"): lambda: struct.unpack("<d", self._take(8))[0], ord("r"): self._reference,
            **{ord(kind): self._text("latin-1", 1) for kind in "zZ"}, **{ord(kind): self._text("latin-1", 4) for kind in "aA"},
            **{ord(kind): self._text("utf-8", 4) for kind in "ut"},
        }  # fmt: skip

    def document(self) -> Any:
        """The whole."""
        value = self._value(0)
        if self.at != len(self.data):
            raise ValueError(f"something follows at byte {self.at:,}")
        return value

    def _take(self, n: int) -> bytes:
        if not 0 <= n <= len(self.data) - self.at:
            raise ValueError(f"it is cut off at byte {len(self.data):,}")
        self.at += n
        return self.data[self.at - n : self.at]

    def _value(self, depth: int) -> Any:
        begin = self.at
        code = self._take(1)[0]
        kind, marked = code & 0x7F, bool(code & 0x80)
        if kind == ord("0"):
            return _NULL
        place = len(self.known)
        if marked:
            self.known.append(None)  # numbers are given in the order of beginnings
        if kind in self.kinds:
            value = self.kinds[kind]()
        elif depth >= _DEEPEST:
            raise ValueError(f"it is nested too deep at byte {begin:,}")
        elif kind in (ord("("), ord(")")):
            n = self._take(1)[0] if kind == ord(")") else self._int()
            if not 0 <= n <= 64:
                raise ValueError(f"a tuple of {n:,} is at byte {begin:,}")
            value = tuple([self._value(depth + 1) for _ in range(n)])
            if any(type(one) is tuple for one in value):  # whose references could double with each: to hash them takes for ever
                raise ValueError(f"a tuple within a tuple is at byte {begin:,}")
        elif kind == ord("{"):
            value = self._dictionary(depth)
        else:
            raise ValueError(f"an object of the kind {chr(kind)!r} is at byte {begin:,}, which cProfile does not write")
        if marked:
            self.known[place] = value
        return value

    def _dictionary(self, depth: int) -> Dict[Any, Any]:
        result: Dict[Any, Any] = {}
        while True:
            at = self.at
            key = self._value(depth + 1)
            if key is _NULL:
                return result
            try:
                if key in result:
                    raise ValueError(f"a function is there twice, at byte {at:,}")
                result[key] = self._value(depth + 1)
            except TypeError:
                raise ValueError(f"a dictionary has an impossible key at byte {at:,}") from None

    def _int(self) -> int:
        return int.from_bytes(self._take(4), "little", signed=True)

    def _long(self) -> int:
        n = self._int()
        if abs(n) > 8:  # digits of 15 bits
            raise ValueError(f"a number of {abs(n)} digits is at byte {self.at:,}")
        value = sum((int.from_bytes(self._take(2), "little") & 0x7FFF) << 15 * digit for digit in range(abs(n)))
        return -value if n < 0 else value

    def _float_text(self) -> float:
        return float(self._take(self._take(1)[0]))

    def _text(self, encoding: str, size: int) -> Callable[[], str]:
        return lambda: self._take(int.from_bytes(self._take(size), "little")).decode(encoding, "surrogatepass")

    def _reference(self) -> Any:
        number = self._int()
        if not 0 <= number < len(self.known) or self.known[number] is None:
            raise ValueError(f"a reference to nothing is at byte {self.at - 4:,}")
        return self.known[number]
