"""Source files as people write them: `shop/price.py` below the current directory, `fastapi/routing.py` of an installed package,
`json/encoder.py` of the standard library."""

from __future__ import annotations

import os
import re
from typing import Dict, Iterable

PACKAGES = re.compile(r".*[/\\](?:site|dist)-packages[/\\]")
LIBRARY = re.compile(
    r".*[/\\]lib(?:64)?[/\\]python\d\.\d+t?[/\\]"  # PREFIX/lib/python3.12/, of a framework too
    r"|[A-Za-z]:\\(?:.*\\)?python[^\\]*\\lib\\",  # C:\...\Python312\Lib\
    re.IGNORECASE,
)
_full = False


def show_full_paths() -> None:
    """From now on `short` leaves paths as they are (--full-paths)."""
    global _full
    _full = True


def full_paths() -> bool:
    """Whether that was asked for."""
    return _full


def short(file: str) -> str:
    """The path for people."""
    return file if _full else relative(file)


def relative(file: str) -> str:
    """The same, whatever was asked for."""
    for prefix in (PACKAGES, LIBRARY):
        match = prefix.match(file)
        if match:
            return file[match.end() :] or file
    try:
        here = os.getcwd() + os.sep
    except OSError:  # it is gone
        return file
    return file[len(here) :] if file.startswith(here) else file


def tails(files: Iterable[str]) -> Dict[str, str]:
    """For each file the shortest end of its path that no other one has: `views.py`, or `shop/views.py` if there is another;
    never `__init__.py` alone."""
    paths = {file: file.replace("\\", "/") for file in files}
    sharing: Dict[str, int] = {}
    for path in set(paths.values()):
        for tail in _tails_of(path):
            sharing[tail] = sharing.get(tail, 0) + 1
    return {
        file: next((tail for tail in _tails_of(path) if sharing[tail] == 1 and not tail.startswith("__")), path)
        for file, path in paths.items()
    }


def _tails_of(path: str) -> Iterable[str]:
    parts = path.split("/")
    return ("/".join(parts[-n:]) for n in range(1, len(parts) + 1))
