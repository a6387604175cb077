"""Collapsed stacks: `thread;root (file:line);...;leaf (file:line) NUMBER`, one line a stack.

The number counts samples, or nanoseconds with weight='ns'. A native frame is
`function [library]`, or `function (source:line) [library]` where that is known.
`;`, `%` and whatever ends a line are written as in URLs (`%3B`),
and so is a `#` that would make a line a comment, so every line is data and nothing in a name can break a consumer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, BinaryIO, Dict

from ..model import native_name

if TYPE_CHECKING:
    from ..model import Frame, Profile
    from . import Options

_SPECIAL = re.compile("[%;\x00-\x1f\x7f\x85\u2028\u2029]")


def escape(text: str) -> str:
    """Text without anything that means something in a collapsed file."""
    return _SPECIAL.sub(lambda match: "".join(f"%{byte:02X}" for byte in match.group().encode()), text)


def _frame_text(frame: Frame, lines: bool) -> str:
    if frame.native or not frame.file:
        return escape(native_name(frame.qualname, frame.file, *(frame[8:10] if lines else ())))
    return escape(f"{frame.qualname} ({frame.file}:{frame.line})" if lines else f"{frame.qualname} ({frame.file})")


def write(profile: Profile, out: BinaryIO, options: Options) -> None:
    """Writes one line a distinct stack, sorted. Threads come first in each stack by name, unless they are merged."""
    totals: Dict[str, int] = {}
    texts: Dict[Frame, str] = {}
    for thread in profile.match_threads(options.thread):
        first = [] if options.merge_threads else [escape(profile.thread_name(thread))]
        for key, value in profile.sums_of(thread)[options.weight == "ns"].items():
            stack = profile.stack(key)
            for frame in stack:
                if frame not in texts:
                    texts[frame] = _frame_text(frame, options.lines)
            line = ";".join([*first, *map(texts.__getitem__, stack)])
            totals[line] = totals.get(line, 0) + value
    for line in sorted(totals):
        if totals[line]:
            data = f"{line} {totals[line]}\n".encode("utf-8", "backslashreplace")
            out.write(b"%23" + data[1:] if data.startswith(b"#") else data)
