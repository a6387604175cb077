"""Chrome's trace events as JSON: a timeline of each thread
(https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU).

Each call is one complete event ("X"), for every reader knows those; the format's own samples are read by few. A call
lasts as long as samples that follow each other show it. Runs of the garbage collector are asynchronous events ("b", "e").
"""

from __future__ import annotations

import os
from array import array
from typing import TYPE_CHECKING, Any, BinaryIO, Dict, List

from ..model.unicode import clean
from ._frames import Frames, Look, json_bytes
from ._samples import CHUNK, Track, distinct_keys, distinct_tids, tracks
from ._tree import Part

if TYPE_CHECKING:
    from ..model.data import ProfileData
    from .options import Options


def write(profile: ProfileData, out: BinaryIO, options: Options) -> None:
    """Writes microseconds since the start of the profile.

    The length of all calls at the root of a thread is exactly the weight of its samples. So that small gaps, in which the thread
    may have been off the processor, do not cut calls, time is drawn up to one interval early until a gap is longer."""
    from .. import __version__

    chosen = tracks(profile, options)
    frames = Frames(profile, options.lines)
    part = Part(profile, frames, distinct_keys(profile, chosen))
    tails = [b',"name":%b,"cat":"%b"}' % (_json(_title(look)), _category(look)) for look in frames.looks]
    tids = distinct_tids(profile)
    processes = {track.thread: profile.process_of(track.thread or 0) for track in chosen} or {None: profile.header}
    pids = {thread: int(header.get("pid") or 0) for thread, header in processes.items()}
    names = {pids[thread]: " ".join(map(str, header.get("argv") or ["python"])) for thread, header in processes.items()}
    out.write(b'{"displayTimeUnit":"ns","otherData":%b,"traceEvents":[' % _json({"exporter": f"spprof {__version__}"}))
    events = [_about("process_name", pid, 0, name) for pid, name in names.items()]
    events += [_about("thread_name", pids[track.thread], tids[track.thread or 0], track.name) for track in chosen]
    out.write(b"\n" + b",\n".join(events))
    for track in chosen:
        where = b'"pid":%d,"tid":%d' % (pids[track.thread], tids[track.thread or 0])
        _calls(profile, track, part, tails, where, out)
        _markers(profile, track, where, out)
    out.write(b"\n]}\n")


def _json(value: Any) -> bytes:
    return json_bytes(value)


def _about(name: str, pid: int, tid: int, value: str) -> bytes:
    return _json({"ph": "M", "ts": 0, "pid": pid, "tid": tid, "name": name, "args": {"name": clean(value)}})


def _category(look: Look) -> bytes:
    return b"native" if look.native else b"python" if look.file else b"spprof"


def _title(look: Look) -> str:
    """All in the name: speedscope would take arguments for a part of it."""
    line = look.line or (0 if look.native else look.first_line)
    where = f" ({os.path.basename(look.file)}:{line})" if look.file else ""
    library = f" [{os.path.basename(look.library)}]" if look.library else ""
    return clean(look.name + where + library)


def _calls(profile: ProfileData, track: Track, part: Part, tails: List[bytes], where: bytes, out: BinaryIO) -> None:
    start_us, tolerance = int(profile.header.get("start_ns") or 0) // 1000, max(1, profile.interval_ns // 1000)
    keys, times, weights = (track.pick(column) for column in (profile.stack_keys(), *map(profile.column, ("time_ns", "weight"))))
    parents, frames, nodes = part.tree.parents, part.looks, part.nodes
    began = array("q", bytes(8 * len(parents)))  # of each node that is open
    event = b'{"ph":"X",' + where + b',"ts":%d,"dur":%d%b'
    events: List[bytes] = []
    last = now = 0

    def move(new: int) -> None:
        """Ends the calls that are not on the way to `new`, and begins those that are."""
        nonlocal last
        ended = []
        while last != new:
            if last > new:  # a parent's number is less than its child's
                ended.append(event % (began[last], now - began[last], tails[frames[last]]))
                last = parents[last]
            else:
                began[new] = now
                new = parents[new]
        events.extend(reversed(ended))  # of two with equal times, readers take the first for the outer one

    for key, time, weight in zip(keys, times, weights):
        if not weight:
            continue  # it has no place on a line of time
        begin = (time - weight) // 1000 - start_us
        if begin - now > tolerance or not last:
            move(0)
            now = max(now, begin)
        node = nodes[key]
        if node != last:
            move(node)
            last = node
        now += weight // 1000
        if len(events) >= CHUNK:
            out.write(b",\n" + b",\n".join(events))
            events.clear()
    move(0)
    if events:
        out.write(b",\n" + b",\n".join(events))


def _markers(profile: ProfileData, track: Track, where: bytes, out: BinaryIO) -> None:
    start = int(profile.header.get("start_ns") or 0)
    for id, mark in enumerate(profile.markers):
        if mark.thread == track.thread:
            about: Dict[str, Any] = {"cat": mark.name, "name": mark.name, "id": id}
            for phase, time in (("b", mark.time_ns), ("e", mark.time_ns + mark.duration_ns)):
                args = {"args": mark.data} if phase == "b" else {}
                event = _json({"ph": phase, "ts": (time - start) / 1000, **about, **args})
                out.write(b",\n" + event[:-1] + b"," + where + b"}")
