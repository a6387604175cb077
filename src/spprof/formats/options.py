"""What can be asked of a format."""

from __future__ import annotations

from typing import NamedTuple, Optional


class Options(NamedTuple):
    """What can be asked of a format (docs/formats.md tells what it means for each).

    weight: 'samples' or 'ns', what the numbers count (None: what is usual for the format); lines: tell the lines of a function
    apart; merge_threads: all threads as one; thread: only threads that match this pattern; sources: the text of source files
    too, for html."""

    weight: Optional[str] = None
    lines: bool = True
    merge_threads: bool = False
    thread: Optional[str] = None
    sources: bool = True
