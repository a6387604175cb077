"""Collapsed stacks, `root;...;leaf NUMBER`, as flamegraph.pl takes them: of py-spy (`-f raw`), perf's stackcollapse scripts, ...

`name (file:line)` and `name [library]` are taken apart, and what our own writer escapes (`%3B`) is itself again. The number
counts samples, as nearly always; files do not say. Where the first frame of every stack tells a thread, that is one.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Tuple
from urllib.parse import unquote

from ._columns import Columns

_LINE = re.compile(r"(.*?) +(\d{1,18})")
_ESCAPED = re.compile("(?:%(?:[01][0-9A-F]|23|25|3B|7F|C2%85|E2%80%A[89]))+")
_PLACED = re.compile(r"(.+?) \((.+?)(?::(\d{1,9}))?\)", re.DOTALL)
_PY_SPY = re.compile(r"thread \((0x[0-9A-Fa-f]{1,16}|\d{1,18})\)(?:: (.*))?")


def read(data: bytes) -> Dict[str, Any]:
    """The columns of a file. Raises ValueError."""
    columns = Columns("collapsed", "samples")
    lines: List[Tuple[List[str], int]] = []
    for number, line in enumerate(data.decode("utf-8-sig", "replace").split("\n"), 1):
        line = line.rstrip("\r ")
        if line and not line.startswith("#"):
            match = _LINE.fullmatch(line)
            if not match:
                raise ValueError(f"line {number} is not 'stack NUMBER'")
            lines.append((match[1].split(";") if match[1] else [], int(match[2])))  # py-spy writes empty stacks too
    threads = _tells_threads(lines)
    ids: Dict[str, int] = {}
    for texts, count in lines:
        thread = _thread(columns, texts[0]) if threads else columns.thread("all threads")
        for text in texts:
            if text not in ids:
                ids[text] = _frame(columns, _plain(text))
        columns.sample(thread, columns.stack([ids[text] for text in texts[threads:]]), count, count)
    return columns.result()


def _tells_threads(lines: List[Tuple[List[str], int]]) -> bool:
    """Whether each stack begins with a thread: py-spy's with its id, ours (and others') with a name that has no place, where all
    that follow it have one."""
    firsts = {texts[0] if texts else "" for texts, _ in lines}
    if all(map(_PY_SPY.fullmatch, firsts)):
        return True
    seconds = {texts[1] if len(texts) > 1 else "" for texts, _ in lines}
    return not any(map(_is_placed, firsts)) and all(map(_is_placed, seconds))


def _is_placed(text: str) -> bool:
    return text.endswith("]") or _PLACED.fullmatch(_plain(text)) is not None


def _plain(text: str) -> str:
    """Text without our writer's escapes."""
    return _ESCAPED.sub(lambda match: unquote(match[0]), text)


def _thread(columns: Columns, text: str) -> int:
    match = _PY_SPY.fullmatch(text)
    return columns.thread(match[2] or "", int(match[1], 0)) if match else columns.thread(_plain(text))


def _frame(columns: Columns, text: str) -> int:
    native = columns.titled(text)
    if native is not None:
        return native
    match = _PLACED.fullmatch(text)
    return columns.frame(match[1], match[2], int(match[3] or 0)) if match else columns.frame(text)
