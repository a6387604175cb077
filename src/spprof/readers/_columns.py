"""The columns of a profile, filled by a reader."""

from __future__ import annotations

import re
from array import array
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from ..model.layout import columns_of
from ..model.records import NO_FRAMES, TRUNCATED, TRUNCATION
from ..model.tree import Tree

_MAX_INT = (1 << 31) - 1  # what a column of lines holds
MAX_NUMBER = (1 << 62) - 1
_NATIVE = re.compile(r"(.+?)(?: \(([^()]+):(\d{1,9})\))? \[([^\[\]]+)\]", re.DOTALL)

Frame = Tuple[str, str, int, int, int, bool, str, int]  # name, file, line, first line, column, native, its source and line


class Columns:
    """Strings, frames, stacks, threads and samples, each under a number that its method gives.

    `source`: the format read; `unit`: what weights count ('nanoseconds', 'samples', 'bytes', ...); more header keys as known."""

    def __init__(self, source: str, unit: str, **header: Any) -> None:
        self.header = {"source": source, "unit": unit, "start_ns": 0, **header}
        self.strings: Dict[str, int] = {}
        self.columns: Dict[str, Any] = {
            **{name: array(typecode) for name, typecode in columns_of("code", "frame", "sample").items()},
            "count": array("q"),  # what is no number of ticks may be larger
        }
        self.sources: Dict[int, Tuple[str, int]] = {}
        self.label_sets: Dict[Tuple[Tuple[str, str], ...], int] = {(): 0}
        self.warning: Optional[str] = None
        self.threads: Dict[Tuple[str, int, Any], int] = {}
        self._codes: Dict[Any, int] = {}
        self._frames: Dict[Frame, int] = {}
        self._tree = Tree()
        self._clocks: List[int] = []  # of each thread the sum of its weights
        self._truncation = self.frame(TRUNCATION.qualname)
        self._nothing = self.frame(NO_FRAMES.qualname)

    def _string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def _append(self, **values: int) -> None:
        for name, value in values.items():
            self.columns[name].append(value)

    def frame(self, name: str, file: str = "", line: int = 0, first_line: int = 0, col: int = -1) -> int:
        """A frame of a source file; 0 and -1: unknown."""
        return self._frame((name, file, _fit(line), _fit(first_line), _fit(col + 1) - 1, False, "", 0))

    def native(self, name: str, library: str = "", address: int = 0, source: str = "", line: int = 0) -> int:
        """A frame of a library; `address` as the library counts them."""
        return self._frame((name, library, _fit(address), 0, -1, True, source, _fit(line)))

    def titled(self, title: str) -> Optional[int]:
        """A native frame from what `native_name` makes of one; None if the title is none."""
        match = _NATIVE.fullmatch(title)
        if not match:
            return None
        name, source, line, library = match.groups()
        return self.native(name, library, 0, source or "", int(line or 0))

    def _frame(self, key: Frame) -> int:
        id = self._frames.get(key)
        if id is None:
            name, file, line, first_line, col, native, source, source_line = key
            if not (isinstance(name, str) and isinstance(file, str)):
                raise ValueError("a frame's name or file is not text")
            id = self._frames[key] = len(self._frames)
            code = (name, file, first_line, native)
            if code not in self._codes:
                self._codes[code] = len(self._codes)
                text = self._string(name)
                self._append(
                    code_name=text, code_qualname=text, code_file=self._string(file), code_line=first_line, code_kind=native
                )
            self._append(frame_code=self._codes[code], frame_line=line, frame_end_line=0, frame_col=col, frame_end_col=-1)
            if source:
                self.sources[id] = source, source_line
        return id

    def node(self, parent: int, frame: int) -> int:
        """The stack that calls a frame from another stack; 0 is the empty one."""
        return self._tree.child(parent, frame)

    def stack(self, frames: Sequence[int]) -> Tuple[int, int]:
        """A stack from its frames, root first, and its marks: our own `[truncated]` and `[no Python frames]` are none of them."""
        flags = 0
        if frames and frames[0] == self._truncation:
            frames, flags = frames[1:], TRUNCATED
        node = 0
        for frame in frames:
            node = self.node(node, frame)
        return node, flags

    def called(self, stack: Tuple[int, int], frame: int) -> Tuple[int, int]:
        """A stack and its marks that calls a frame from another; our own `[truncated]` at the root is a mark."""
        if frame == self._truncation and stack == (0, 0):
            return 0, TRUNCATED
        return self.node(stack[0], frame), stack[1]

    def thread(self, name: str, tid: int = 0, key: Any = None) -> int:
        """A thread. `key` distinguishes those with the same name and id: of several processes, say."""
        id = self.threads.setdefault((name, tid, key), len(self.threads))
        if id == len(self._clocks):
            self._clocks.append(0)
        return id

    def labels(self, pairs: Iterable[Tuple[str, str]]) -> int:
        """A set of labels. Of one that is given more than once all values are kept."""
        values: Dict[str, List[str]] = {}
        for key, value in sorted(pairs):
            values.setdefault(key, []).append(value)
        joined = tuple((key, ", ".join(each)) for key, each in values.items())
        return self.label_sets.setdefault(joined, len(self.label_sets))

    def sample(self, thread: int, stack: Tuple[int, int], weight: int, count: int = 1, label: int = 0) -> None:
        """A sample. It is `weight` after the one before of its thread: such files have no other times. One of nothing is none."""
        if not (0 <= weight <= MAX_NUMBER and 0 <= count <= MAX_NUMBER):
            raise ValueError(f"a sample's number is negative or impossible: {weight if weight else count}")
        if not weight and not count:
            return
        node, flags = stack
        if node and self._tree.frames[node] == self._nothing and self._tree.parents[node] == 0:
            node = 0
        self.elapse(thread, weight)
        self._append(
            thread=thread,
            time_ns=self._clocks[thread],
            weight=weight,
            stack=node,
            count=count,
            flags=flags,
            label=label,
            reason=0,
            waits_on=0,
            task=0,
            span=0,
            held_by=0,
            awaited_by=0,
        )

    def elapse(self, thread: int, weight: int) -> None:
        """Time of a thread without a sample."""
        self._clocks[thread] += weight
        if self._clocks[thread] > MAX_NUMBER:
            raise ValueError("the samples' numbers add up to more than 62 bits")

    def result(self) -> Dict[str, Any]:
        """What `Profile` works on."""
        return {
            **self.columns,
            "node_parent": self._tree.parents,
            "node_frame": self._tree.frames,
            "header": self.header,
            "tick_stats": {},
            "end": {"stop_ns": max(self._clocks, default=0), "reason": "read"},
            "warning": self.warning,
            "threads": {id: {"id": id, "tid": tid, "name": name} for (name, tid, _), id in self.threads.items()},
            "strings": list(self.strings),
            "sources": self.sources,
            "markers": [],
            "requests": [],
            "label_sets": [dict(pairs) for pairs in self.label_sets],
        }


def _fit(number: int) -> int:
    """A line, column or address; 0, unknown, if it is none that a column holds."""
    return number if 0 < number <= _MAX_INT else 0
