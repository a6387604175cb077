"""austin's text: `P4711;T0:4712;/app/x.py:function:line;... NUMBER`, and a head that says what the numbers count.

Each line is a sample, with microseconds or bytes. austin's newer binary form is not read."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Tuple

from ._columns import Columns
from .collapsed import counted_lines, data_lines

_HEAD = re.compile(r"# (\w+): (.*)")
_THREAD = re.compile(r"T(?:\d+:)?((?:0x)?[0-9A-Fa-f]{1,16})")
_LINE = re.compile(r"\d{1,10}", re.ASCII)
_THREE = re.compile(r"[^ \t]*-?\d+,-?\d+,-?\d+")
_UNITS = {"wall": ("nanoseconds", 1000), "cpu": ("nanoseconds", 1000), "memory": ("bytes", 1)}


def read(text: str) -> Dict[str, Any]:
    """The columns of a file. Raises ValueError."""
    matches = map(_HEAD.fullmatch, re.split("\r\n|\n|\r", text))
    head: Dict[str, str] = {match[1]: match[2] for match in matches if match}
    mode = head.get("mode", "").strip()
    for number, line in data_lines(text):
        if _THREE.search(line.rpartition(" ")[2]):
            raise ValueError(f"line {number} has time, idle time and memory in one (`austin -f`): record one of them, without -f")
        break
    if mode not in _UNITS and "mode" in head:
        raise ValueError(f"its mode is {mode!r}: {', '.join(_UNITS)} are read")
    unit, factor = _UNITS[mode or "wall"]
    known: Dict[str, Any] = {"mode": mode} if mode in ("wall", "cpu") else {}
    interval = head.get("interval", "").strip()
    if interval.isdecimal() and unit == "nanoseconds":
        known["interval_ns"] = int(interval) * 1000
    columns = Columns("austin", unit, **known)
    if not mode:
        columns.warning = "the file does not say what its numbers count (its head is missing); they were taken for microseconds"
    lines = [(number, *_parted(number, stack.split(";")), count) for number, stack, count in counted_lines(text)]
    processes = {process for _, process, _, _, _ in lines}
    frames: Dict[str, int] = {}
    for _, process, tid, texts, count in lines:
        for one in texts:
            if one not in frames:
                frames[one] = _frame(columns, one)
        stack = [columns.frame(f"process {process}")] if len(processes) > 1 else []
        thread = columns.thread("", tid, process)
        columns.sample(thread, columns.stack([*stack, *(frames[one] for one in texts)]), count * factor, 1 if count else 0)
    return columns.result()


def _parted(number: int, texts: List[str]) -> Tuple[str, int, List[str]]:
    """Process, thread and frames of a line. Raises ValueError."""
    match = _THREAD.fullmatch(texts[1]) if len(texts) > 1 else None
    if not match or not re.fullmatch(r"P\d+", texts[0]):
        raise ValueError(f"line {number} does not begin with a process and a thread (P4711;T0:4711)")
    return texts[0][1:], int(match[1], 10 if match[1].isdecimal() else 16), texts[2:]


def _frame(columns: Columns, text: str) -> int:
    parts = text.rsplit(":", 2)
    if len(parts) < 3 or not parts[1] or not _LINE.fullmatch(parts[2]):
        return columns.frame(text)
    return columns.frame(parts[1], parts[0], int(parts[2]))
