"""Whose code the answers are about: the user's own, or that of a command that somebody else wrote (`black`, `mypy`)."""

from __future__ import annotations

from collections import Counter
from typing import List, Optional, Sequence

from ..model.data import ProfileData
from .owners import MINE, Owners
from .paths import PACKAGES

_OWN = ""  # a stack with the user's code in it
_STARTS = "multiprocessing"  # which starts its processes by `python -c`


def owners_of(profiles: Sequence[ProfileData], patterns: Sequence[str] = ()) -> Owners:
    """`patterns`: see `Owners`. If nothing is the user's own, the package that the most time has outermost takes its place."""
    files = [file for profile in profiles for file in profile.files()]
    owners = Owners(files, patterns)
    package = _package(profiles, owners)
    return Owners(files, [*patterns, package], package) if package else owners


def _package(profiles: Sequence[ProfileData], owners: Owners) -> str:
    """The installed package that calls everything else; "": there is none, or some code is the user's own."""
    time: Counter[str] = Counter()
    for profile in profiles:
        outermost = _outermost(profile, owners)
        if outermost is None:
            return ""
        for stack, weight in profile.stack_sums()[1].items():
            if outermost[stack] is not None:
                time[str(outermost[stack])] += weight
    return max(time, key=lambda name: time[name], default="") if not time[_OWN] else ""


def _outermost(profile: ProfileData, owners: Owners) -> Optional[List[Optional[str]]]:
    """Of each stack the package that is outermost in it, or _OWN for code that was given to `python -c`; None: neither. None for
    all: a function is the user's."""
    parents, frames = profile.tree.parents, profile.tree.frames
    found: List[Optional[str]] = [None]
    for node in range(1, len(parents)):
        above, frame = found[parents[node]], profile.frame(frames[node])
        owner = None if profile.is_placeholder(frames[node]) else owners.of(frame.file, frame.native)
        if owner == MINE:
            return None
        if above is None and owner is None and frame.file and not frame.native:
            above = _OWN
        elif above == _OWN and owner == _STARTS:
            above = None
        elif above is None and owner and not frame.native and PACKAGES.match(frame.file) and owner != "spprof":
            above = owner
        found.append(above)
    return found
