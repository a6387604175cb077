"""Functions as `--focus`, `--hide` and `--show` name them: by name, by file or by package."""

from __future__ import annotations

import os
from difflib import get_close_matches
from typing import Dict, List, Sequence, Set

from ..errors import BadOption
from ..model.data import ProfileData
from ..model.patterns import is_like
from .owners import IMPORTS, Owners
from .paths import relative


def chosen(profiles: Sequence[ProfileData], patterns: Sequence[str]) -> List[Set[int]]:
    """The ids of the frames in each profile that one of the patterns names (`*` and `?` allowed): a function with its class or
    without, a file as reports show it, as the profile has it, or without its folders, or a package, library or `importlib`.
    Raises BadOption for a pattern that names nothing."""
    owners = Owners([file for profile in profiles for file in profile.files()])
    named = [_names(profile, owners) for profile in profiles]
    known = {name for each in named for names in each.values() for name in names}
    matching: Set[str] = set()
    for pattern in patterns:
        found = {name for name in known if is_like(name, pattern)}
        if not found:
            near = get_close_matches(pattern, known, 3, 0.5)
            hint = f"; there is {', '.join(near)}" if near else ""
            raise BadOption(f"no function, file or package that was sampled is called {pattern!r} (* and ? are allowed){hint}")
        matching |= found
    return [{id for id, names in each.items() if not matching.isdisjoint(names)} for each in named]


def _names(profile: ProfileData, owners: Owners) -> Dict[int, Set[str]]:
    """What the function of each frame can be called."""
    result = {}
    for id in set(profile.tree.frames[1:]):
        if profile.is_placeholder(id):
            continue
        frame = profile.frame(id)
        owner = owners.of(frame.file, frame.native)
        names = {frame.name, frame.qualname, frame.file, relative(frame.file), os.path.basename(frame.file)}
        names.add("importlib" if owner == IMPORTS else owner or "")
        result[id] = names - {""}
    return result
