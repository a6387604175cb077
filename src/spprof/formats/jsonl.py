"""One JSON object a line, with everything that the samples have; docs/formats.md explains it by an example.

A stack has a line of its own, and samples its number: with its text in each sample a file of a million samples was eight times as
large and took half as long again to write. A line comes before those that refer to it, so one pass reads it all.
"""

from __future__ import annotations

import json
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, Dict, Iterable, List, Sequence, Tuple

from ..model.spans import ids as ids_of_spans
from ..model.tasks import names as names_of_tasks
from ..model.unicode import clean
from ._frames import json_bytes
from ._samples import CHUNK, Track, distinct_keys, tracks, whys

if TYPE_CHECKING:
    from ..model.data import ProfileData
    from ..model.records import Frame
    from .options import Options

Reasons = Tuple[Sequence[int], List[Dict[str, str]]]
_NAMES = ("truncated", "kernel", "off_cpu", "native_missing", "native_left_out", "coarse", "gil")
_FLAGS = tuple((1 << bit, name) for bit, name in enumerate(_NAMES))


def write(profile: ProfileData, out: BinaryIO, options: Options) -> None:
    """Writes header, threads, frames, stacks, samples (thread by thread, each in order of time), markers, calls, tick_stats."""
    chosen = tracks(profile, options)
    start = int(profile.header.get("start_ns") or 0)
    out.write(_line("header", {"format": 1, **profile.header}))
    for track in chosen:
        if track.thread is not None:
            about = {"thread": track.thread, "tid": profile.thread_tid(track.thread), "name": clean(track.name)}
            out.write(_line("thread", about))
    ids = _stacks(profile, distinct_keys(profile, chosen), options.lines, out)
    reasons = whys(profile)
    for track in chosen:
        _samples(profile, track, ids, reasons, start, out)
    shown = {track.thread for track in chosen}
    for mark in profile.markers:
        if None in shown or mark.thread in shown:
            about = {} if None in shown else {"thread": mark.thread}
            about.update(time_ns=mark.time_ns - start, duration_ns=mark.duration_ns)
            out.write(_line("marker", {"name": mark.name, **about, "data": mark.data}))
    if profile.calls is not None and options.thread is None:
        for row in profile.calls.as_json():
            out.write(_line("calls", row))
        if profile.calls.missing:
            out.write(_line("calls_missing", {"what": profile.calls.missing}))
    out.write(_line("tick_stats", {**profile.stats, "end": profile.end, "warning": profile.warning}))


def _line(type: str, values: Dict[str, Any]) -> bytes:
    return json_bytes({"type": type, **values}) + b"\n"


def _stacks(profile: ProfileData, keys: Iterable[int], lines: bool, out: BinaryIO) -> Dict[int, int]:
    """Writes each distinct stack, before it those of its frames that are new; returns the id of each key."""
    frames: Dict[str, int] = {}  # those that would look the same are one
    numbers: Dict[int, bytes] = {}
    stacks: Dict[bytes, int] = {}

    def write_frame(frame: Frame, first_line: int) -> bytes:
        about = _about(frame, first_line, lines)
        text = json.dumps(about)
        if text not in frames:
            frames[text] = len(frames)
            out.write(_line("frame", {"frame": frames[text], **about}))
        return b"%d" % frames[text]

    ids: Dict[int, int] = {}
    for key in keys:
        stack = []
        for id in profile.stack_frames(key):
            if id not in numbers:
                numbers[id] = write_frame(profile.frame(id), profile.first_line(id))
            stack.append(numbers[id])
        text = b",".join(stack)
        if text not in stacks:
            stacks[text] = len(stacks)
            out.write(b'{"type":"stack","stack":%d,"frames":[%b]}\n' % (stacks[text], text))
        ids[key] = stacks[text]
    return ids


def _about(frame: Frame, first_line: int, lines: bool) -> Dict[str, Any]:
    """What a frame's line says: what is unknown is left out."""
    about: Dict[str, Any] = {"name": clean(frame.qualname)}
    if frame.name != frame.qualname:
        about["short_name"] = clean(frame.name)
    if frame.native:
        about.update(native=True, library=clean(frame.file), source=clean(frame.source))
        if lines:
            about.update(address=frame.line, end_address=frame.end_line, source_line=frame.source_line)
    else:
        about.update(file=clean(frame.file), first_line=first_line)
        if lines:
            about.update(line=frame.line, end_line=frame.end_line)
            about.update(column=frame.col + 1, end_column=frame.end_col + 1)
    return {key: value for key, value in about.items() if value or key == "name"}


def _samples(profile: ProfileData, track: Track, ids: Dict[int, int], reasons: Reasons, start: int, out: BinaryIO) -> None:
    names = ("time_ns", "weight", "count", "flags", "label", "task", "span")
    times, weights, counts, flags, labels, tasks, spans = (track.pick(profile.column(name)) for name in names)
    numbers, meant = reasons
    reason = track.pick(numbers)
    stacks = map(ids.__getitem__, track.pick(profile.stack_keys()))
    thread = b"" if track.thread is None else b'"thread":%d,' % track.thread
    line = b'{"type":"sample",' + thread + b'"time_ns":%d,"weight":%d,"count":%d,"stack":%d%b}\n'
    rests: Dict[Tuple[int, int, int, int, int], bytes] = {}
    task_names, span_ids = names_of_tasks(profile._columns()), ids_of_spans(profile._columns())
    for mark in {*zip(flags, labels, reason, tasks, spans)}:
        why = {**meant[mark[2]], **span_ids[mark[4]]}
        rests[mark] = _rest(mark[0], profile.label_sets[mark[1]], why, task_names[mark[3]])
    ends = map(rests.__getitem__, zip(flags, labels, reason, tasks, spans))
    rows = zip((time - start for time in times), weights, counts, stacks, ends)
    for chunk in iter(lambda: list(islice(rows, CHUNK)), []):
        out.write(b"".join(map(line.__mod__, chunk)))


def _rest(flags: int, labels: Dict[str, str], why: Dict[str, str], task: str) -> bytes:
    """The end of a sample's line; what is empty is left out."""
    rest: Dict[str, Any] = {"flags": [name for flag, name in _FLAGS if flags & flag]} if flags else {}
    rest.update(why)
    if task:
        rest["task"] = clean(task)
    if labels:
        rest["labels"] = {clean(key): clean(value) for key, value in labels.items()}
    return b"," + json.dumps(rest, separators=(",", ":")).encode()[1:-1] if rest else b""
