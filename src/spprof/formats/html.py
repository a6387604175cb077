"""One HTML page to look at a profile: offline, with all that it shows inside. It is `viewers/page.html`, built from `viewer/`.

The profile replaces `%SPPROF_DATA%` in it, as base64 of one zlib stream: nothing in a name or a source can be taken for HTML.
The stream is (integers little-endian):

```
stream := u32 bytes, JSON (ASCII) of that many bytes, column*
column := u32 n, u8 width, plane[width]      plane k: byte k of each of n unsigned values, least significant first
```
Columns, in this order; ids count from 0:

  of each frame       function id; line; end line; column + 1; end column + 1; string id + 1 of its source; line of its source
  of each node        its id - its parent's id; frame id. Node 0 is the root: it has neither, and both columns begin with node 1
  of each stack       node id of the leaf; what was waited for: its place in `waits` + 1, 0: nothing. The commonest come first
  of each type of samples, of each thread of the JSON, of each sample in order of time
                      step: units since the thread's sample before (the first: since `start_ns`)
                      of time: zigzag(weight - step), in units; of another type: the weight, in `weight_unit`
                      stack id; ticks - 1; flags; label set id

A unit is `unit_ns`: 1 us for short profiles, else 10 us or more. Rounding does not add up: the sums of steps and of weights are
right to two units at each sample. `unit` of the JSON is what weights count; `weight_unit` is 1 unless they exceed 32 bits. Both,
`measured`, `header`, `stats` and `losses` are those of the first type. `others` has the same of each other type, if there are
any. `[truncated]` and `[no Python frames]` are ordinary frames here. `waits` has the reason, what it is, its holder, or '', and
the node of what the holder did meanwhile, 0: not known.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import zlib
from array import array
from itertools import accumulate, chain, compress
from typing import TYPE_CHECKING, Any, BinaryIO, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from ..model.calls import Function
from ..model.sums import merged
from ..model.types import measured
from ._sources import Texts
from ._waits import Waits

if TYPE_CHECKING:
    from ..model.calls import Calls
    from ..model.data import ProfileData
    from ..model.records import Frame
    from ..model.sums import Sums
    from .options import Options

PAGE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "viewers", "page.html")
PLACEHOLDER = b"%SPPROF_DATA%"

# Below this number of samples times are kept as they are in the file, to 1 us; above, a page has at most 3 bytes a sample.
_FINE_SAMPLES = 200_000
_CHUNK = 3 << 16  # bytes that become base64 at a time; a multiple of 3, so that nothing is padded before the end


def write(profile: ProfileData, out: BinaryIO, options: Options) -> None:
    """Writes the page. `options`: thread; sources=False leaves out the text of the source files, True has it of all that can be
    read: a profile of others may name any file, and the page then has its text."""
    with open(PAGE, "rb") as file:
        head, _, tail = file.read().partition(PLACEHOLDER)
    out.write(head)
    stream = _Stream(out)
    types = profile.each_type()
    ids = sorted({thread for each in types for thread in each.match_threads(options.thread)})
    threads = [_samples_by_thread(each, ids) for each in types]
    pairs = [(each, samples) for each, some in zip(types, threads) for samples in some if samples]
    start = min([int(profile.header.get("start_ns", 0)), *(each.column("time_ns")[samples[0]] for each, samples in pairs)])
    last = max((each.column("time_ns")[samples[-1]] for each, samples in pairs), default=start)
    unit = _unit(sum(len(samples) for _, samples in pairs), last - start)
    sums = [each.stack_sums(options.thread) for each in types]
    waits = Waits(types)
    samples_of: List[Sums] = [(waits.samples(place, each, options.thread), {}) for place, each in enumerate(types)]
    tables = _Tables(profile, merged(samples_of)[0], waits)
    first, *others = reported = [_of_type(each) for each in types]
    about = _about(profile, first, ids, start, unit)
    if others:
        about["others"] = others
    about.update(strings=list(tables.strings), functions=tables.functions, waits=tables.listed)
    if profile.calls is not None and options.thread is None:
        about.update(calls=tables.calls(profile.calls), calls_missing=profile.calls.missing)
    found = Texts(profile, _by_heat(profile, sums, tables), options.sources)
    about.update(sources=found.texts, changed=list(found.changed), without=found.without)
    text = json.dumps(about, separators=(",", ":")).encode("ascii")
    stream.write(len(text).to_bytes(4, "little") + text)
    for column in (*tables.frames, tables.parents, tables.nodes, tables.stacks, tables.waits):
        stream.column(column)
    for place, (each, some, of_type) in enumerate(zip(types, threads, reported)):
        keys = waits.keys(place)
        for samples in some:
            for column in _columns(each, samples, keys, tables.ids, start, unit, of_type.get("weight_unit", 0)):
                stream.column(column)
    stream.close()
    out.write(tail)


class _Stream:
    """Deflates what is written and writes it on as base64."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._deflate = zlib.compressobj(6)
        self._rest = b""

    def write(self, data: bytes) -> None:
        self._put(self._deflate.compress(data))

    def column(self, values: array[int]) -> None:
        size = values.itemsize
        raw = memoryview(values).cast("B")
        width = (max(values, default=0).bit_length() + 7) // 8
        self.write(len(values).to_bytes(4, "little") + bytes([width]))
        for plane in range(width):
            self.write(raw[plane if sys.byteorder == "little" else size - 1 - plane :: size].tobytes())

    def close(self) -> None:
        self._put(self._deflate.flush())
        self._out.write(base64.b64encode(self._rest))

    def _put(self, packed: bytes) -> None:
        self._rest += packed
        if len(self._rest) >= _CHUNK:
            whole = len(self._rest) // 3 * 3
            self._out.write(base64.b64encode(self._rest[:whole]))
            self._rest = self._rest[whole:]


Samples = Sequence[int]  # their numbers in the profile, in order of time


def _samples_by_thread(profile: ProfileData, threads: Sequence[int]) -> List[Samples]:
    """Threads without samples are there too: they lived, and did nothing."""
    column = profile.column("thread")
    present = set(column)
    if len(present) == 1:
        return [range(len(column)) if thread in present else array("I") for thread in threads]
    parts: Dict[int, array[int]] = {thread: array("I") for thread in {*threads, *present}}
    appends = {thread: part.append for thread, part in parts.items()}
    for number, thread in enumerate(column):
        appends[thread](number)
    return [parts[thread] for thread in threads]


def _unit(samples: int, lasted: int) -> int:
    """The finest unit that is fine enough, and in which all times fit 32 bits."""
    unit = 1_000 if samples < _FINE_SAMPLES else 10_000
    while lasted // unit >= 1 << 31:
        unit *= 10
    return unit


def _weight_unit(profile: ProfileData) -> int:
    """Of a type that is no time: the finest in which all weights fit 32 bits."""
    most, unit = max(profile.column("weight"), default=0), 1
    while most // unit >= 1 << 31:
        unit *= 10
    return unit


def _take(column: Sequence[int], samples: Samples) -> Sequence[int]:
    if isinstance(samples, range):  # all of them
        return column
    return array("q", map(column.__getitem__, samples))


def _columns(
    profile: ProfileData, samples: Samples, keys: Sequence[int], ids: Dict[int, int], start: int, unit: int, weight_unit: int
) -> Iterable[array[int]]:
    """`weight_unit`: 0 of time."""
    times, weights = _take(profile.column("time_ns"), samples), _take(profile.column("weight"), samples)
    if weight_unit:
        yield _steps(times, weights, start, unit)[0]
        yield _rounded(weights, weight_unit)
    else:
        yield from _steps(times, weights, start, unit)
    del times, weights
    yield array("I", map(ids.__getitem__, keys if isinstance(samples, range) else map(keys.__getitem__, samples)))
    counts = _take(profile.column("count"), samples)
    if len(counts) and (min(counts) < 1 or max(counts) > 1 << 32):  # of another profiler's file
        counts = [min(max(count, 1), 1 << 32) for count in counts]
    more = max(counts, default=1) > 1
    yield array("I", (count - 1 for count in counts)) if more else array("I", bytes(4 * len(counts)))
    yield array("B", _take(profile.column("flags"), samples))
    yield array("I", _take(profile.column("label"), samples))


def _steps(times: Sequence[int], weights: Sequence[int], start: int, unit: int) -> Tuple[array[int], array[int]]:
    """Steps, and by how much each weight differs. As in the file, a weight is the step until the error reaches a unit."""
    steps, corrections = array("I"), array("I")
    at = error = 0
    for time, weight in zip(times, weights):
        now = (time - start) // unit
        step = now - at
        at = now
        error += weight - step * unit
        if -unit < error < unit:
            correction = 0
        else:
            correction = max(int(error / unit), -step)  # no weight below 0
            error -= correction * unit
        steps.append(step)
        corrections.append(2 * correction if correction >= 0 else -2 * correction - 1)
    return steps, corrections


def _rounded(weights: Sequence[int], unit: int) -> array[int]:
    """Weights in units. What rounding leaves out is in the next one's."""
    if unit == 1:
        return array("I", weights)
    whole = [0, *(weight // unit for weight in accumulate(weights))]
    return array("I", (now - before for before, now in zip(whole, whole[1:])))


class _Tables:
    """Strings, functions, frames, nodes and stacks of some samples, with new numbers: only what occurs."""

    def __init__(self, profile: ProfileData, samples: Dict[int, int], waits: Waits) -> None:
        self.strings: Dict[str, int] = {}
        # Name, qualname, file, first line, kind: 0 Python, 1 native, 2 a mark.
        self.functions: List[Tuple[int, int, int, int, int]] = []
        self.frames: Tuple[array[int], ...] = tuple(array("I") for _ in range(7))
        self.parents, self.nodes, self.stacks, self.waits = array("I"), array("I"), array("I"), array("I")
        self.ids: Dict[int, int]  # key of `Waits` -> stack
        self.files: Dict[str, bool] = {}  # file -> native
        self._known: Dict[Any, int] = {}
        # A node for each of the tree's that a stack passes through: large trees are not merged again, one call after the other.
        order = sorted(sorted(samples), key=samples.__getitem__, reverse=True)
        split = list(map(waits.split, order))
        meanwhile = {waits.listed[wait - 1][3] for _, wait in split if wait}  # what holders did
        nodes = _with_callers(profile.tree.parents, chain((stack for stack, _ in split), meanwhile))
        made = dict(zip(nodes, range(1, len(nodes) + 1)))
        made[0] = 0
        above = map(made.__getitem__, map(profile.tree.parents.__getitem__, nodes))
        self.parents.extend(node - parent for node, parent in enumerate(above, 1))
        frames = list(map(profile.tree.frames.__getitem__, nodes))
        known = {id: self._frame(profile.frame(id), profile.first_line(id)) for id in dict.fromkeys(frames)}
        self.nodes.extend(map(known.__getitem__, frames))
        self.ids = dict(zip(order, range(len(order))))
        self.stacks.extend(made[stack] for stack, _ in split)
        self.waits.extend(wait for _, wait in split)
        self.listed = [(*wait[:3], made.get(wait[3], 0)) for wait in waits.listed]

    def calls(self, counted: Calls) -> List[Optional[Tuple[int, int]]]:
        """Exact calls and resumes of each function. One in Python that was never seen to begin has 0, of others nobody knows."""
        of, texts = counted.functions(), list(self.strings)
        keys = [Function(texts[name], texts[qualname], texts[file], line) for name, qualname, file, line, _ in self.functions]
        return [of.get(key, (0, 0)) if function[4] == 0 else None for key, function in zip(keys, self.functions)]

    def _string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def _function(self, frame: Frame, first_line: int) -> int:
        kind = 1 if frame.native else 0 if frame.file or first_line else 2
        key = (*map(self._string, frame[:3]), 0 if frame.native else first_line, kind)
        if key not in self._known:
            self._known[key] = len(self.functions)
            self.functions.append(key)  # type: ignore[arg-type]  # the star hides its length
        return self._known[key]

    def _frame(self, frame: Frame, first_line: int) -> int:
        function = self._function(frame, first_line)
        if not frame.native or frame.source:
            self.files[frame.source or frame.file] = frame.native
        source = self._string(frame.source) + 1 if frame.source else 0
        key = (function, frame.line, frame.end_line, frame.col + 1, frame.end_col + 1, source, frame.source_line, "frame")
        if key not in self._known:
            self._known[key] = len(self.frames[0])
            for column, value in zip(self.frames, key[:7]):
                column.append(max(int(value), 0))
        return self._known[key]


def _about(profile: ProfileData, of_type: Dict[str, Any], threads: List[int], start: int, unit: int) -> Dict[str, Any]:
    from .. import __version__

    return {
        "format": 1,
        "spprof": __version__,
        "end": profile.end,
        "warning": " ".join(_lacks(profile)) or None,
        "clock": profile.clock,
        **of_type,
        "start_ns": start,
        "unit_ns": unit,
        "threads": [[thread, profile.thread_tid(thread), profile.thread_name(thread)] for thread in threads],
        "label_sets": profile.label_sets,
        "markers": [
            [marker.name, marker.thread, (marker.time_ns - start) // unit, marker.duration_ns // unit, marker.data]
            for marker in profile.markers
            if marker.thread in threads
        ],
    }


def _lacks(profile: ProfileData) -> Iterator[str]:
    """What is not in the page, in sentences."""
    if profile.header.get("part"):
        yield f"Only {profile.header['part']}; the tick stats are the whole profile's."
    if profile.unfinished:
        yield f"{profile.unfinished[:1].upper()}{profile.unfinished[1:]}."


def _of_type(profile: ProfileData) -> Dict[str, Any]:
    """What the JSON says of the type of a profile's samples."""
    scale = {} if profile.unit == "nanoseconds" else {"weight_unit": _weight_unit(profile)}
    stats = dict(profile.stats)
    what = {"unit": profile.unit, "measured": measured(profile.header), **scale}
    return {"header": profile.header, "stats": stats, "losses": _titles(stats.get("losses", {})), **what}


def _titles(losses: Dict[str, int]) -> List[Tuple[str, str, int]]:
    """Key, title and ticks of each reason of loss that occurred."""
    from ..model.records import loss_title

    return [(key, loss_title(key), ticks) for key, ticks in losses.items() if ticks]


def _with_callers(parents: Sequence[int], stacks: Iterable[int]) -> List[int]:
    """`Tree.with_callers` of so many stacks that most of the tree is theirs."""
    seen = bytearray(len(parents))
    seen[0] = 1
    for node in stacks:
        while not seen[node]:
            seen[node] = 1
            node = parents[node]
    seen[0] = 0
    return list(compress(range(len(parents)), seen))


def _by_heat(profile: ProfileData, sums: Sequence[Sums], tables: _Tables) -> List[Tuple[str, bool]]:
    """The source files of these frames, and whether they are of native code; the hottest, of shares in each type, first."""
    heat: Dict[str, float] = dict.fromkeys(tables.files, 0)
    leaves = profile.tree.frames
    for _, weights in sums:
        of_frame: Dict[int, int] = {}
        for stack, weight in weights.items():
            of_frame[leaves[stack]] = of_frame.get(leaves[stack], 0) + weight
        whole = sum(of_frame.values()) or 1
        for id, weight in of_frame.items():
            frame = profile.frame(id)
            file = frame.source or frame.file
            if file in heat:
                heat[file] += weight / whole
    return sorted(tables.files.items(), key=lambda item: (-heat[item[0]], item[0]))
