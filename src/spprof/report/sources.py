"""The text of source lines, beside figures."""

from __future__ import annotations

from typing import Dict, Sequence, Tuple

from ..formats._sources import Texts
from ..model.data import ProfileData
from .text import printable


def lines_of(profiles: Sequence[ProfileData], places: Sequence[Tuple[str, int]]) -> Dict[Tuple[str, int], str]:
    """The text of these lines (file, line), of files that are as they were when the program ran: a profile may name any file."""
    found: Dict[Tuple[str, int], str] = {}
    files = dict.fromkeys(file for file, line in places if line)
    for profile in profiles if files else ():
        for file, text in Texts(profile, [(file, False) for file in files], None).texts.items():
            lines = text.split("\n")
            found.update({(at, n): printable(lines[n - 1].strip()) for at, n in places if at == file and 0 < n <= len(lines)})
    return found
