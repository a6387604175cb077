"""Parts of a profile as profiles of their own, which every format and view takes."""

from __future__ import annotations

from array import array
from itertools import compress
from typing import Any, Container, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..errors import BadOption
from . import labelled
from .data import Data, ProfileData
from .layout import Columns, changed, column, columns_of
from .patterns import is_like
from .waits import REASONS

_IDLE = REASONS.index("idle")
_SAMPLE_COLUMNS = columns_of("sample")


class _Wanted(NamedTuple):
    """Of a part: as `filtered` takes it."""

    thread: Optional[str]
    labels: Mapping[str, str]
    start_ns: Optional[int]
    stop_ns: Optional[int]
    waiting: Optional[Sequence[str]]
    frames: Optional[Container[int]]
    words: str


def has_labels(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Whether a set of labels has all that are wanted. In a wanted value `*` stands for any text and `?` for a letter."""
    return all(key in labels and is_like(labels[key], value) for key, value in wanted.items())


def filtered(
    profile: Data,
    thread: Optional[str] = None,
    labels: Optional[Mapping[str, str]] = None,
    start_ns: Optional[int] = None,
    stop_ns: Optional[int] = None,
    waiting: Optional[Sequence[str]] = None,
    frames: Optional[Container[int]] = None,
    words: str = "",
) -> Data:
    """The part of a profile in the threads that match a pattern (as `Profile.match_threads`), that carries all of `labels`
    (see `has_labels`; `task` is the name of the asyncio task; `trace_id` and `span_id` are OpenTelemetry's), that waited for one
    of `waiting` (see `Profile.reasons`), that has one of `frames` (ids, see `Profile.frame`; `words` says which these are) in its
    stack, and that lies from `start_ns` to before `stop_ns` (on the clock of the samples, that of `time.monotonic_ns`).

    A sample stands for the time of its weight that ends where it was taken. One that lies partly in the range is cut: it keeps
    the weight that lies there, and as much of its ticks (at least one). The range is in whole microseconds, as all times of a
    .spprof file. Samples of another type than time are in the range or not: what they count happened when they were taken.
    Markers carry no labels, wait for nothing and have no stack: with `labels`, `waiting` or `frames` there are none. Requests are
    those that carry the labels and began in the range, in whatever threads. Threads without samples are left out. The tick
    stats stay those of the whole profile, and so does the header, whose `part` says what was asked for. Raises BadOption for a
    range that ends before it begins."""
    if start_ns is not None and stop_ns is not None and stop_ns < start_ns:
        raise BadOption("the range ends before it begins")
    columns = profile._columns()
    chosen = set(profile.match_threads(thread))
    wanted = _Wanted(thread, labels or {}, start_ns, stop_ns, waiting, frames, words)
    parts = [_samples(each, wanted) for each in profile.each_type()]
    part: Dict[str, Any] = {**parts[0]}
    if len(parts) > 1:
        part["by_type"] = {about["type"]: samples for about, samples in zip(profile._listed_types(), parts)}
    first, end = _range(profile, start_ns, stop_ns)
    has_markers = not (labels or waiting or frames is not None)
    markers = [each for each in profile.markers if has_markers and each.thread in chosen and first <= each.time_ns < end]
    present = {*(marker.thread for marker in markers)}.union(*(samples["thread"] for samples in parts))
    part["markers"] = markers
    part["requests"] = [
        each for each in profile.requests if first <= each.time_ns < end and has_labels(each.labels, labels or {})
    ]
    part["threads"] = {id: about for id, about in columns["threads"].items() if id in present}
    part["header"] = _header(profile, wanted)
    return profile.of_columns(changed(columns, part), profile)


def without_idle(profile: Data) -> Data:
    """The profile without the time in which threads have nothing to do (the reason `idle`): itself if there is none of it. Its
    header does not call it a part: nothing that the program did is left out."""
    reasons = profile.column("reason")
    busy = [reason != _IDLE for reason in reasons]
    if profile.unit != "nanoseconds" or all(busy):
        return profile
    columns = profile._columns()
    part: Dict[str, Any] = {name: column(columns, name) for name in _SAMPLE_COLUMNS}
    part.update(keys=profile.stack_keys(), numbers=columns.get("numbers") or range(len(profile)))
    kept = _those(part, busy)
    types: Dict[str, Any] = {}
    if "by_type" in columns:
        types["by_type"] = {**columns["by_type"], profile._listed_types()[0]["type"]: kept}
    made = profile.of_columns(changed(columns, {**kept, **types}), profile)
    made.path, made._reasons = profile.path, bytes(compress(reasons, busy))
    return made


def _those(part: Dict[str, Any], chosen: Sequence[bool]) -> Dict[str, Any]:
    """The chosen samples of these columns."""
    part = {name: list(compress(values, chosen)) for name, values in part.items()}
    for name, typecode in _SAMPLE_COLUMNS.items():
        part[name] = memoryview(array(typecode, part[name]))
    return part


def _range(profile: ProfileData, start_ns: Optional[int], stop_ns: Optional[int]) -> Tuple[int, int]:
    unit = 1 if "source" in profile.header else 1000
    return -(1 << 62) if start_ns is None else start_ns // unit * unit, 1 << 62 if stop_ns is None else stop_ns // unit * unit


def _samples(profile: ProfileData, wanted: _Wanted) -> Dict[str, Any]:
    """The columns of those samples of one type; `numbers`: their places in the columns of the whole."""
    columns = profile._columns()
    selectors = []
    if wanted.thread is not None:
        selectors.append(list(map(set(profile.match_threads(wanted.thread)).__contains__, columns["thread"])))
    if wanted.labels:
        numbers, known = labelled.label_sets(columns, wanted.labels)
        sets = [has_labels(each, wanted.labels) for each in known]
        selectors.append(list(map(sets.__getitem__, numbers)))
    if wanted.waiting:
        chosen = [name in wanted.waiting for name in profile.reasons]
        selectors.append(list(map(chosen.__getitem__, profile.column("reason"))))
    if wanted.frames is not None:
        below = _below(profile, wanted.frames)
        selectors.append([bool(below[key]) for key in profile.stack_keys()])
    part: Dict[str, Any] = {name: column(columns, name) for name in _SAMPLE_COLUMNS}
    part["keys"] = profile.stack_keys()
    part["numbers"] = columns.get("numbers") or range(len(profile))
    if wanted.start_ns is not None or wanted.stop_ns is not None:
        first, end = _range(profile, wanted.start_ns, wanted.stop_ns)
        if profile.unit == "nanoseconds":
            inside, part["weight"], part["count"] = _cut(columns, first, end)
        else:  # what has happened at an instant
            inside = [first <= time < end for time in columns["time_ns"]]
        selectors.append(inside)
    for selector in selectors[1:]:
        selectors[0] = [one and other for one, other in zip(selectors[0], selector)]
    return _those(part, selectors[0]) if selectors else part


def _header(profile: Data, wanted: _Wanted) -> Dict[str, Any]:
    """The header, with what was asked for in words."""
    header = dict(profile.header)
    words = [header["part"]] if header.get("part") else []
    words += [] if wanted.thread is None else [f"thread {wanted.thread}"]
    words += [f"{key}={value}" for key, value in wanted.labels.items()]
    words += [f"waiting for {' or '.join(wanted.waiting)}"] if wanted.waiting else []
    words += [wanted.words] if wanted.words else []
    for way, time_ns in (("from", wanted.start_ns), ("to", wanted.stop_ns)):
        words += [] if time_ns is None else [f"{way} {(time_ns - int(header['start_ns'])) / 1e9:g} s"]
    return {**header, "part": ", ".join(words)} if words else header


def _below(profile: ProfileData, frames: Container[int]) -> bytearray:
    """Whether each node's stack has one of these frames."""
    parents, of_nodes = profile.tree.parents, profile.tree.frames
    result = bytearray(len(parents))
    for node in range(1, len(parents)):
        result[node] = result[parents[node]] or of_nodes[node] in frames
    return result


def _cut(columns: Columns, first: int, end: int) -> Tuple[List[bool], List[int], List[int]]:
    """Which samples lie in a range at least partly, and the weights and counts of their parts."""
    inside, weights, counts = [], [], []
    for time, weight, count in zip(columns["time_ns"], columns["weight"], columns["count"]):
        left = min(time, end) - max(time - weight, first)
        inside.append(left > 0 if weight else first <= time < end)
        weights.append(left)
        counts.append(count if left == weight else max(1, round(count * left / weight)) if weight else count)
    return inside, weights, counts
