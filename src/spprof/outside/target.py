"""What is read: a process. (core.py: or a core file.)"""

from __future__ import annotations

import os
import platform
from typing import Dict, List, NamedTuple, Optional, Protocol, Tuple

from ..errors import SpprofError, Unsupported
from . import calls
from .memory import Memory
from .native import PC
from .proc import Maps
from .rights import missing_right, opened, own_number
from .unwinding import PROCESSORS

MACHINES = {"x86_64": 62, "aarch64": 183}  # e_machine


class Moment(NamedTuple):
    """The same before and after: the thread did not run in between."""

    letter: str  # as in proc(5); '' if it has ended
    switches: Tuple[str, ...]

    @property
    def runs(self) -> bool:
        return self.letter == "R"


class Target(Protocol):
    """Threads and memory."""

    pid: int
    machine: int  # e_machine; 0: not known
    memory: Memory
    maps: Maps
    root: str  # what leads to its files
    is_still: bool  # whether nothing in it can change
    folder: str  # in /proc; '': it has none

    def tids(self) -> List[int]:
        """Its threads. Raises SpprofError."""

    def number(self, tid: int) -> int:
        """The id that the thread itself knows."""

    def moment(self, tid: int) -> Moment:
        """Whether it runs, and how often it has."""

    def name(self, tid: int) -> str:
        """As the system has it."""

    def words(self, tid: int, does: str) -> str:
        """What a thread does, with what else there is to say of it."""

    def call(self, tid: int) -> Optional[calls.Call]:
        """The system call that it is in."""

    def registers(self, tid: int) -> Optional[Dict[int, int]]:
        """Of one that waits, as far as they are known, as native.Stack has them."""


class Process:
    """A process, by what Linux says of it."""

    is_still = False

    def __init__(self, pid: int) -> None:
        """Raises SpprofError."""
        self.pid = pid
        self.folder, self.root = f"/proc/{pid}", f"/proc/{pid}/root"
        self.machine = MACHINES.get(platform.machine(), 0)
        self._file = _opened(pid)
        self.memory = Memory(self._file)
        try:
            self.maps = Maps(pid)
        except OSError:
            self.close()
            raise SpprofError(f"process {pid} has ended") from None

    def close(self) -> None:
        """It is not read any more."""
        os.close(self._file)

    def tids(self) -> List[int]:
        """Those that it has now."""
        try:
            return sorted(int(name) for name in os.listdir(f"{self.folder}/task"))
        except OSError:
            raise SpprofError(f"process {self.pid} has ended") from None

    def number(self, tid: int) -> int:
        """In its container."""
        return own_number(self.pid, tid)

    def moment(self, tid: int) -> Moment:
        """As it is now."""
        letter, switches = "", []
        try:
            with open(f"{self.folder}/task/{tid}/status", errors="replace") as file:
                for line in file:
                    if line.startswith("State:"):
                        letter = line.split()[1]
                    elif "ctxt_switches" in line:
                        switches.append(line.split()[1])
        except (OSError, IndexError):
            return Moment("", ())
        return Moment("" if letter in "ZX" else letter, tuple(switches))

    def name(self, tid: int) -> str:
        """Its comm."""
        try:
            with open(f"{self.folder}/task/{tid}/comm", errors="replace") as file:
                return file.read().rstrip("\n")
        except OSError:
            return "?"

    def words(self, tid: int, does: str) -> str:
        """Nothing."""
        return does

    def call(self, tid: int) -> Optional[calls.Call]:
        """As the kernel says."""
        return calls.call_of(f"{self.folder}/task/{tid}")

    def registers(self, tid: int) -> Optional[Dict[int, int]]:
        """The kernel says sp and pc alone."""
        place = calls.place_of(f"{self.folder}/task/{tid}")
        return {PROCESSORS[self.machine].sp: place[0], PC: place[1]} if place is not None and self.machine in PROCESSORS else None


def _opened(pid: int) -> int:
    """Its memory. Raises SpprofError."""
    try:
        try:
            return opened(pid)
        except PermissionError:
            uid = os.stat(f"/proc/{pid}").st_uid
    except (FileNotFoundError, ProcessLookupError):
        raise SpprofError(f"there is no process {pid}") from None
    raise Unsupported(f"this user may not read process {pid}: {missing_right(uid)}")
