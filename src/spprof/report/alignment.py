"""Which functions of two profiles are the same: by qualified name and file, not by line, which changes when code is edited.

A file is the same where its path is; of installed packages and the standard library, where the path within them is. If no file of
the program itself has the same path in both (it was checked out elsewhere), the two folders whose files agree best are taken for
the same one.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from itertools import takewhile
from typing import Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from ..model.data import ProfileData

_PACKAGES = re.compile(r".*/(?:site|dist)-packages/")
_LIBRARY = re.compile(r".*/lib(?:64)?/python3\.\d+t?/")
_SPPROF = re.compile(r".*/spprof/(?:cli/|launching/)?\w+\.py$")  # the profiler itself, wherever the program is
_EVERYWHERE = ("__init__.py", "__main__.py")  # such a name alone says nothing


class Function(NamedTuple):
    """A function, or a line of it (0: the whole function), under the name that it has in all aligned profiles."""

    qualname: str
    file: str
    line: int
    native: bool


Figures = Dict[Function, Tuple[int, int, int, int]]


class Aligner:
    """Gives functions of several profiles common names: those of the first profile of `profiles`.

    `notes` says what was assumed. `shown`: of each function the file and first line to show."""

    def __init__(self, profiles: Iterable[ProfileData], by: str) -> None:
        everyone = list(profiles)
        self.by = by
        self.notes: List[str] = []
        self.shown: Dict[Function, Tuple[str, int]] = {}
        self._own = _programs(everyone[0])
        # Before 3.11 code objects have no qualified name.
        self._qualified = all(_version(profile) >= (3, 11) for profile in everyone) or all(
            _version(profile) < (3, 11) for profile in everyone
        )
        if not self._qualified:
            self.notes.append("before Python 3.11 functions have no qualified names: methods are compared by name and file alone")

    def figures(self, profile: ProfileData, thread: Optional[str], only: Optional[str]) -> Figures:
        """`Profile.figures` by common names."""
        return profile.figures(self.namer(profile), thread, only)

    def squares(self, profile: ProfileData, thread: Optional[str], only: Optional[str]) -> Dict[Function, Tuple[float, float]]:
        """`Profile.squares` by common names; none where no sample is big."""
        return profile.squares(self.namer(profile), thread, only) if profile.has_big_samples(thread) else {}

    def calls(self, profile: ProfileData) -> Dict[Function, int]:
        """The exact number of calls of each function by common names, where they were counted. Functions in C are no native
        frames: they have none."""
        namer = self.namer(profile)
        result: Dict[Function, int] = Counter()
        for function, (calls, _) in profile.calls.functions().items() if profile.calls is not None else ():
            if not function.native:
                result[namer.named(function.name, function.qualname, function.file)] += calls
        return result

    def namer(self, profile: ProfileData) -> _Namer:
        """Frame id -> its function."""
        move = _moved(self._own, _programs(profile))
        if move:
            note = f"no file of the program has the same path in all: {move[0] or '/'} is taken for {move[1] or '/'}"
            if note not in self.notes:
                self.notes.append(note)
        return _Namer(self, profile, move)


class _Namer:
    def __init__(self, aligner: Aligner, profile: ProfileData, move: Optional[Tuple[str, str]]) -> None:
        self.aligner, self.profile, self.move = aligner, profile, move
        self.own: Dict[Function, Tuple[str, int]] = {}

    def __call__(self, id: int) -> Function:
        frame, first = self.profile.frame(id), self.profile.first_line(id)
        line = 0
        if self.aligner.by == "line":
            line = frame.source_line if frame.native else frame.line
        if frame.native:  # of the same library, which another machine has elsewhere
            function = Function(frame.qualname, os.path.basename(frame.file.replace("\\", "/")), line, True)
        else:
            function = self.named(frame.name, frame.qualname, frame.file)._replace(line=line)
        place = (frame.source, line) if frame.native and line else (frame.file, line or (0 if frame.native else first))
        # Of the first profile that has it; there the first, for several functions may have one name.
        known = self.own.get(function)
        if known is None and function in self.aligner.shown:
            return function
        if known is None or place < known:
            self.own[function] = self.aligner.shown[function] = place
        return function

    def named(self, name: str, qualname: str, file: str) -> Function:
        """A Python function."""
        file = file.replace("\\", "/")
        if self.move and file.startswith(self.move[0] + "/"):
            file = self.move[1] + file[len(self.move[0]) :]
        file = _LIBRARY.sub("python3/", _PACKAGES.sub("packages/", file))
        return Function(qualname if self.aligner._qualified else name, file, 0, False)


def _version(profile: ProfileData) -> Tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,9}", str(profile.header.get("python", "3.11")))[:2])


def _programs(profile: ProfileData) -> Set[str]:
    """The files that are neither installed nor part of Python."""
    files = {file.replace("\\", "/") for file in profile.files()}
    others = (_LIBRARY, _PACKAGES, _SPPROF)
    return {file for file in files if file.endswith(".py") and not any(other.match(file) for other in others)}


def _moved(reference: Set[str], own: Set[str]) -> Optional[Tuple[str, str]]:
    """(folder, folder of the reference) such that the most files below both agree; None if nothing was moved or agrees."""
    if reference & own:
        return None
    names: Dict[str, List[str]] = {}
    for file in reference:
        names.setdefault(file.rpartition("/")[2], []).append(file)
    votes: Counter[Tuple[str, str]] = Counter()
    for file in own:
        for other in names.get(file.rpartition("/")[2], ()):
            both = zip(reversed(file.split("/")), reversed(other.split("/")))
            tail = [one for one, _ in takewhile(lambda names: names[0] == names[1], both)]
            if len(tail) == 1 and tail[0] in _EVERYWHERE:
                continue
            length = len("/".join(tail)) + 1
            votes[file[:-length], other[:-length]] += 1
    return max(votes, key=lambda pair: (votes[pair], -len(pair[0]), pair)) if votes else None
