"""What can be asked of a format."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is imported while the program starts
if TYPE_CHECKING:
    from typing import Optional


class Options:
    """What can be asked of a format (docs/formats.md says what it means for each).

    weight: 'samples', or 'value' for what the samples count: time, faults (None: what is usual for the format); lines: lines
    of a function apart; merge_threads: all threads as one; thread: only threads that match this pattern; sources: the
    text of source files too, for html (None: only of those that are as they were, see formats/_sources.py)."""

    __slots__ = ("lines", "merge_threads", "sources", "thread", "weight")

    def __init__(
        self,
        weight: Optional[str] = None,
        lines: bool = True,
        merge_threads: bool = False,
        thread: Optional[str] = None,
        sources: Optional[bool] = None,
    ) -> None:
        self.weight = weight
        self.lines = lines
        self.merge_threads = merge_threads
        self.thread = thread
        self.sources = sources
