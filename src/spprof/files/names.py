"""Names of files that fit: a part of a path has 255 bytes at most on nearly every file system (on Windows so many UTF-16 units,
which are not more)."""

from __future__ import annotations

import os

LONGEST = 255  # bytes


def longest_in(folder: str) -> int:
    """How many bytes a file's name may have there."""
    try:
        return min(LONGEST, max(os.pathconf(folder, "PC_NAME_MAX"), 32))
    except (AttributeError, OSError, ValueError):  # Windows; no such folder; a file system that does not say
        return LONGEST


def beside(path: str, suffix: str, space: str = "") -> str:
    """`path` and `suffix`, the name cut to fit so that `space` may follow."""
    folder, name = os.path.split(path)
    return os.path.join(folder, fitting(name, suffix, longest_in(folder) - len(space)))


def fits(path: str, space: str = "") -> bool:
    """Whether the name is short enough for its folder, even if `space` is added."""
    folder, name = os.path.split(path)
    return len(_raw(name)) + len(space) <= longest_in(folder)


def fitting(stem: str, suffix: str = "", longest: int = LONGEST) -> str:
    """`stem` and `suffix`. Too long a stem is cut at a character, and ends with a checksum, so that two long ones stay two."""
    space = longest - len(_raw(suffix))
    if len(_raw(stem)) <= space:
        return stem + suffix
    from zlib import crc32

    mark = f"-{crc32(_raw(stem)):08x}"
    while len(_raw(stem + mark)) > space and stem:
        stem = stem[: min(len(stem) - 1, space)]
    return stem + mark + suffix


def _raw(text: str) -> bytes:
    try:
        return os.fsencode(text)
    except UnicodeEncodeError:  # it will not become a file's name, either
        return text.encode("utf-8", "backslashreplace")
