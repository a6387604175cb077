"""Collapsed stacks: `thread;root (file:line);...;leaf (file:line) NUMBER`, one line a stack.

The number counts samples or, with weight='value' and of a profile that counts no time, what they count, such as nanoseconds or
faults. A native frame is `function [library]`, or `function (source:line) [library]` where that is known.
`;`, `%` and whatever ends a line are written as in URLs (`%3B`),
and so is a `#` that would make a line a comment, so every line is data and nothing in a name can break a consumer.
"""

from __future__ import annotations

import re
import sys
from array import array
from typing import TYPE_CHECKING, BinaryIO, Dict

from ..model.records import native_name

if TYPE_CHECKING:
    from ..model.data import ProfileData
    from ..model.records import Frame
    from .options import Options

_SPECIAL = re.compile("[%;\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


def escape(text: str) -> str:
    """Text without anything that means something in a collapsed file."""
    return _SPECIAL.sub(lambda match: "".join(f"%{byte:02X}" for byte in match.group().encode()), text)


def _frame_text(frame: Frame, lines: bool) -> str:
    if frame.native or not frame.file:
        return escape(native_name(frame.qualname, frame.file, *(frame[8:10] if lines else ())))
    return escape(f"{frame.qualname} ({frame.file}:{frame.line})" if lines else f"{frame.qualname} ({frame.file})")


def write(profile: ProfileData, out: BinaryIO, options: Options) -> None:
    """Writes one line a distinct stack, sorted by frames. Threads come first in each stack by name, unless they are merged."""
    chosen = profile.match_threads(options.thread)
    weighted = options.weight == "value" or (options.weight is None and profile.unit != "nanoseconds")
    keys = {key for thread in chosen for key in profile.sums_of(thread)[0]}
    ids = sorted({id for key in keys for id in profile.stack_frames(key)})
    texts = [_frame_text(frame, options.lines) for frame in map(profile.frame, ids)]
    texts += [] if options.merge_threads else [escape(profile.thread_name(thread)) for thread in chosen]
    # A stack is the ranks of its texts as bytes, a tenth of its line: there may be 100,000 long ones.
    shown = sorted(set(texts))
    ranks = {text: number.to_bytes(4, "big") for number, text in enumerate(shown)}
    of_frame = {id: ranks[text] for id, text in zip(ids, texts)}
    stacks = {key: b"".join(map(of_frame.__getitem__, profile.stack_frames(key))) for key in keys}
    totals: Dict[bytes, int] = {}
    for thread in chosen:
        first = b"" if options.merge_threads else ranks[escape(profile.thread_name(thread))]
        for key, value in profile.sums_of(thread)[weighted].items():
            stack = first + stacks[key]
            totals[stack] = totals.get(stack, 0) + value
    words = [text.encode("utf-8", "backslashreplace") for text in shown]
    if not any(totals.values()):
        out.write(b"# no samples were taken\n")  # an empty file could be one that was cut
    for stack in sorted(totals):
        if totals[stack]:
            numbers = array("I", stack)
            if sys.byteorder == "little":
                numbers.byteswap()
            line = b"%b %d\n" % (b";".join(map(words.__getitem__, numbers)), totals[stack])
            out.write(b"%23" + line[1:] if line.startswith(b"#") else line)
