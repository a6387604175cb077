"""Frames as formats show them: each distinct one once, and stacks of their numbers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, TypeVar

from ..model.records import native_name
from ..model.unicode import cleaned

if TYPE_CHECKING:
    from ..model.data import ProfileData

T = TypeVar("T")


class Look(NamedTuple):
    """What a format shows of a frame.

    `system_name` is the name without its class; `file` is the source ('' if unknown); `line` and `column` count from 1, 0 if
    unknown or left out; `library` is the object of a native function and `address` the instruction in it, if asked for."""

    name: str
    system_name: str
    file: str
    line: int
    column: int
    first_line: int
    native: bool
    library: str
    address: int

    @property
    def title(self) -> str:
        """The name, and of a native function its library."""
        return native_name(self.name, self.library) if self.native else self.name


class Once(Dict[int, T]):
    """A dictionary that works out what it lacks."""

    def __init__(self, work_out: Callable[[int], T]) -> None:
        self._work_out = work_out

    def __missing__(self, key: int) -> T:
        value = self[key] = self._work_out(key)
        return value


def json_bytes(value: Any) -> bytes:
    """JSON whose texts are all valid Unicode."""
    return json.dumps(cleaned(value), separators=(",", ":")).encode()


class Frames:
    """The table of looks, which grows as frames are asked for."""

    def __init__(self, profile: ProfileData, lines: bool = True, addresses: bool = False) -> None:
        self.looks: List[Look] = []
        self._profile, self._lines, self._addresses = profile, lines, addresses
        self._ids: Dict[Look, int] = {}
        self.numbers = Once(lambda id: self.intern(self._look(id)))  # of frames of the profile: indices into `looks`

    def stack(self, key: int) -> List[int]:
        """The numbers of a stack's frames from root to leaf."""
        return list(map(self.numbers.__getitem__, self._profile.stack_frames(key)))

    def _look(self, id: int) -> Look:
        frame = self._profile.frame(id)
        if frame.native:
            address = frame.line if self._addresses and self._lines else 0
            line = frame.source_line if self._lines else 0
            return Look(frame.qualname, frame.name, frame.source, line, 0, 0, True, frame.file, address)
        line, column = (frame.line, frame.col + 1) if self._lines else (0, 0)
        return Look(frame.qualname, frame.name, frame.file, line, column, self._profile.first_line(id), False, "", 0)

    def intern(self, look: Look) -> int:
        """The number of a look."""
        number = self._ids.setdefault(look, len(self.looks))
        if number == len(self.looks):
            self.looks.append(look)
        return number
