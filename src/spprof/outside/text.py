"""What `spprof dump PID` prints."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Iterator, Optional

from ..report.text import place, shown
from .dump import Dump, Thread


def lines_of(dump: Dump, command: str, pattern: Optional[str] = None) -> Iterator[str]:
    """`pattern`: only threads of this name or system id."""
    count = len(dump.threads)
    yield shown(f"{command}: process {dump.pid}, Python {dump.version}, {count} thread{'s' if count != 1 else ''}")
    for thread in dump.threads:
        if pattern is None or fnmatchcase(thread.name, pattern) or fnmatchcase(str(thread.tid), pattern):
            yield from _of_thread(thread)


def _of_thread(thread: Thread) -> Iterator[str]:
    words = [thread.does, "holds the GIL" if thread.holds_gil else "", "" if thread.known else "no thread of Python's"]
    yield f"\n{shown(thread.name)} ({thread.tid}): {shown(', '.join(word for word in words if word))}"
    for frame in thread.frames:
        yield f"    {place(frame.name, frame.file, frame.line)}"
    if thread.cut:
        yield f"    ({thread.cut})"
    if not thread.sure:
        yield "    (it ran while it was read: the stack may be mixed of two)"
