"""Source files as people write them: `shop/price.py` below the current directory, `fastapi/routing.py` of an installed package,
`json/encoder.py` of the standard library."""

from __future__ import annotations

import os
import re

_PACKAGES = re.compile(r".*[/\\](?:site|dist)-packages[/\\]")
_LIBRARY = re.compile(
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
    if _full:
        return file
    for prefix in (_PACKAGES, _LIBRARY):
        match = prefix.match(file)
        if match:
            return file[match.end() :] or file
    try:
        here = os.getcwd() + os.sep
    except OSError:  # it is gone
        return file
    return file[len(here) :] if file.startswith(here) else file
