"""V8's CPU profile (`.cpuprofile`): of `node --cpu-prof` and of Chrome's developer tools
(https://chromedevtools.github.io/devtools-protocol/tot/Profiler/#type-Profile).

A sample lasts until the next one, as the tools show it. A function's place is where it begins: the line that ran is not known.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import Any, Dict, List, Optional
from urllib.parse import unquote

from ._columns import Columns
from ._fields import checked, field, text, whole


def read(document: Any) -> Dict[str, Any]:
    """The columns of a file. Raises ValueError."""
    nodes = _Nodes(field(document, "nodes", list, "the file"))
    if document.get("samples") is None or document.get("timeDeltas") is None:
        return nodes.counted()
    samples = field(document, "samples", list, "the file")
    deltas = [_time(delta, f"time delta {n}") for n, delta in enumerate(field(document, "timeDeltas", list, "the file"))]
    if len(samples) != len(deltas):
        raise ValueError(f"samples and timeDeltas differ in number ({len(samples):,} and {len(deltas):,})")
    start, end = (_time(field(document, name, float, "the file"), name) for name in ("startTime", "endTime"))
    times = list(accumulate(deltas, initial=start))[1:]
    order = sorted(range(len(times)), key=times.__getitem__)  # where V8's clock went back, its tools sort, too
    columns, now = nodes.columns, round(1000 * start)
    thread = columns.thread("all threads")
    for number, following in zip(order, [*order[1:], None]):
        begins, ends = (round(1000 * at) for at in (times[number], end if following is None else times[following]))
        columns.elapse(thread, max(0, begins - now))
        now = max(begins, ends)
        columns.sample(thread, (nodes.stack(samples[number], f"sample {number}"), 0), now - begins)
    return columns.result()


def _time(value: Any, where: str) -> float:
    """Microseconds."""
    number: float = checked(value, float, where)
    if not math.isfinite(number) or abs(number) > 1 << 58:
        raise ValueError(f"{where} is {value!r:.40}, an impossible time")
    return number


class _Nodes:
    """The tree of calls."""

    def __init__(self, nodes: List[Any]) -> None:
        self.columns = Columns("v8", "nanoseconds", mode="wall")
        self.frames: Dict[int, Optional[int]] = {}  # of each node; the root has none
        self.parents: Dict[int, int] = {}
        self.hits: Dict[int, int] = {}
        self.known: Dict[int, int] = {}  # node -> its stack
        for n, node in enumerate(nodes):
            where = f"node {n}"
            id = field(node, "id", int, where)
            if id in self.frames:
                raise ValueError(f"{where} has the id {id}, as another has")
            self.frames[id] = self._frame(field(node, "callFrame", dict, where), where)
            self.hits[id] = whole(node, "hitCount", where) or 0
            if node.get("parent") is not None:
                self._call(checked(node["parent"], int, f"'parent' of {where}"), id)
            for child in checked(node.get("children") or [], list, f"'children' of {where}"):
                self._call(id, checked(child, int, f"a child of {where}"))

    def _call(self, parent: int, child: int) -> None:
        if self.parents.setdefault(child, parent) != parent:
            raise ValueError(f"the node with the id {child} has two parents")

    def _frame(self, call: Dict[str, Any], where: str) -> Optional[int]:
        name, url = text(call, "functionName", where) or "(anonymous)", text(call, "url", where)
        if name == "(root)" and not url:
            return None
        file = unquote(url[7:]) if url.startswith("file:///") else url
        line, column = ((whole(call, key, where) or 0) for key in ("lineNumber", "columnNumber"))
        return self.columns.frame(name, file, line + 1, line + 1, column) if file else self.columns.frame(name)

    def stack(self, id: Any, where: str) -> int:
        """The stack of a node."""
        path: List[int] = []
        base, at = 0, checked(id, int, where)
        while at not in self.known:
            if at not in self.frames:
                raise ValueError(f"{where}: the node with the id {at} is wanted, and the file does not have it")
            if len(path) > len(self.frames):
                raise ValueError(f"{where}: the node with the id {at} is among its own callers")
            path.append(at)
            if at not in self.parents:
                break
            at = self.parents[at]
        else:
            base = self.known[at]
        for one in reversed(path):
            frame = self.frames[one]
            base = self.known[one] = base if frame is None else self.columns.node(base, frame)
        return base

    def counted(self) -> Dict[str, Any]:
        """Of a file that has sums only: samples, and no time is made up."""
        if not any(self.hits.values()):
            raise ValueError("the file has neither samples with timeDeltas nor a hitCount")
        self.columns.header["unit"] = "samples"
        thread = self.columns.thread("all threads")
        for id, hits in self.hits.items():
            self.columns.sample(thread, (self.stack(id, "the file"), 0), hits, hits)
        return self.columns.result()
