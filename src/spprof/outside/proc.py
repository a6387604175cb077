"""What Linux says of a process: its status, and what it has mapped."""

from __future__ import annotations

import bisect
import os

from ..errors import Unsupported
from .named import NamedTuple

TYPE_CHECKING = False  # the user of `attach` waits for the first sample
if TYPE_CHECKING:
    from typing import Dict, Iterator, List, Optional

_GONE = " (deleted)"  # behind the path of a file that is no longer there


def status(pid: int, tid: Optional[int] = None) -> Dict[str, str]:
    """The words of a process, or of one of its threads, as in proc(5). Raises OSError."""
    path = f"/proc/{pid}/status" if tid is None else f"/proc/{pid}/task/{tid}/status"
    with open(path, errors="replace") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


class Mapping(NamedTuple):
    """A line of /proc/PID/maps."""

    start: int
    end: int
    access: str
    offset: int
    path: str

    @property
    def name(self) -> str:
        """That of the file, whether or not it is still there; '' for memory."""
        path = self.path[: -len(_GONE)] if self.path.endswith(_GONE) else self.path
        return os.path.basename(path) if path.startswith("/") else ""


def _mappings(pid: int) -> Iterator[Mapping]:
    with open(f"/proc/{pid}/maps", errors="surrogateescape") as file:
        for line in file:
            words = line.rstrip("\n").split(None, 5)
            start, end = (int(word, 16) for word in words[0].split("-"))
            yield Mapping(start, end, words[1], int(words[2], 16), words[5] if len(words) == 6 else "")


class Maps:
    """What process `pid` has mapped now. Raises OSError."""

    def __init__(self, pid: int, mappings: Optional[List[Mapping]] = None) -> None:
        self.pid = pid
        self.mappings = list(_mappings(pid)) if mappings is None else mappings
        self._starts = [mapping.start for mapping in self.mappings]

    @classmethod
    def of(cls, mappings: List[Mapping]) -> Maps:
        """What a process had mapped that has ended, in order."""
        return cls(0, mappings)

    def at(self, address: int) -> Optional[Mapping]:
        """The mapping that has the address."""
        found = bisect.bisect_right(self._starts, address) - 1
        return self.mappings[found] if found >= 0 and address < self.mappings[found].end else None

    def objects(self) -> Dict[str, int]:
        """Where each file begins that is mapped from its beginning on."""
        found: Dict[str, int] = {}
        for mapping in self.mappings:
            if mapping.path and mapping.offset == 0 and mapping.access.startswith("r"):
                found.setdefault(mapping.path, mapping.start)
        return found

    def interpreter(self) -> str:
        """The path of the file that has CPython's functions. Raises Unsupported."""
        for mapping in self.mappings:
            if mapping.name.startswith("libpython3.") and mapping.name[len("libpython3.") :][:1].isdigit():
                return mapping.path
        if not self.pid:
            return next((mapping.path for mapping in self.mappings if mapping.path), "")
        try:
            return os.readlink(f"/proc/{self.pid}/exe")
        except OSError as error:
            raise Unsupported(f"process {self.pid} has no program: {error.strerror}") from error


def descendants(pid: int) -> List[int]:
    """The processes that it started and that live, and those that these started."""
    started: Dict[int, List[int]] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                words = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if words[0] not in (b"Z", b"X"):
            started.setdefault(int(words[1]), []).append(int(name))
    found, above = [], [pid]
    while above:
        below = started.pop(above.pop(), [])
        found += below
        above += below
    return found
