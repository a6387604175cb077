"""The Firefox profiler's processed format, version 60: later versions of the viewer read every earlier one
(https://github.com/firefox-devtools/profiler/blob/main/docs-developer/CHANGELOG-formats.md; types: src/types/profile.ts).

All threads share one table of stacks, which is a tree as the profile's own; a sample is a number of it, a time and a weight.
"""

from __future__ import annotations

import json
from array import array
from operator import sub
from typing import TYPE_CHECKING, Any, BinaryIO, Callable, Dict, Iterable, List, Optional, Sequence

from ..model.unicode import clean, cleaned
from ._frames import Frames, Look, Once
from ._samples import CHUNK, Track, distinct_keys, distinct_tids, tracks
from ._tree import Part

if TYPE_CHECKING:
    from ..model.data import ProfileData
    from .options import Options

_VERSION = 60
_OTHER, _PYTHON, _NATIVE, _GC = range(4)
_CATEGORIES = (("Other", "grey"), ("Python", "yellow"), ("Native", "blue"), ("GC", "orange"))
_GC_SCHEMA = {
    "name": "gc",
    "display": ["marker-chart", "marker-table", "timeline-overview"],
    "tableLabel": "generation {marker.data.generation}, {marker.data.collected} collected",
    "fields": [
        {"key": key, "label": key.capitalize(), "format": "integer"} for key in ("generation", "collected", "uncollectable")
    ],
}


def write(profile: ProfileData, out: BinaryIO, options: Options) -> None:
    """Writes the tables, then the threads; weights are milliseconds or bytes, or ticks with `weight='samples'`."""
    chosen = tracks(profile, options)
    frames = Frames(profile, options.lines)
    part = Part(profile, frames, distinct_keys(profile, chosen))
    strings: Dict[str, int] = {}
    shared: Dict[str, Any] = {
        "stackTable": {
            "frame": list(part.looks[1:]),
            "prefix": [parent - 1 if parent else None for parent in part.tree.parents[1:]],  # they have no root
            "length": len(part.tree) - 1,
        },
        **_tables(profile, frames.looks, strings),
    }
    markers = [_markers(profile, track, strings) for track in chosen]
    shared["stringArray"] = list(map(clean, strings))
    libraries = shared.pop("libs")
    head = json.dumps({"meta": cleaned(_meta(profile)), "libs": libraries, "pages": [], "shared": shared}, separators=(",", ":"))
    out.write(head[:-1].encode() + b',"threads":[')
    tids = distinct_tids(profile)
    keys = {stack: b"%d" % (node - 1) for stack, node in part.nodes.items()}
    for number, (track, marks) in enumerate(zip(chosen, markers)):
        out.write(b",\n" if number else b"\n")
        about = json.dumps({**_thread(profile, track, tids), "markers": marks}, separators=(",", ":"))
        out.write(about[:-1].encode() + b',"samples":{')
        _samples(profile, track, keys, options, out)
        out.write(b"}}")
    out.write(b"]}\n")


def _milliseconds(ns: int) -> bytes:
    return b"%d" % (ns // 1_000_000) if ns % 1_000_000 == 0 else repr(ns / 1e6).encode()


def _samples(profile: ProfileData, track: Track, keys: Dict[int, bytes], options: Options, out: BinaryIO) -> None:
    """Columns of the thread's samples; times as differences, which are short and come again."""
    stacks, times = track.pick(profile.stack_keys()), track.pick(profile.column("time_ns"))
    ticks = options.weight == "samples"
    weights = track.pick(profile.column("count" if ticks else "weight"))
    start = int(profile.header.get("start_ns") or 0)
    milliseconds = Once(_milliseconds)
    first = [times[0] - start] if len(times) else []
    steps = array("q", map(sub, times[1:], times[:-1]))
    out.write(b'"stack":[')
    _join(stacks, keys.__getitem__, out)
    out.write(b'],"timeDeltas":[')
    _join(first, milliseconds.__getitem__, out)
    out.write(b"," if len(times) > 1 else b"")
    _join(steps, milliseconds.__getitem__, out)
    timed = profile.unit == "nanoseconds"
    if timed and profile.mode == "cpu":  # what Firefox draws as the thread's use of the processor
        out.write(b'],"threadCPUDelta":[')
        _join(track.pick(profile.column("weight")), Once(lambda ns: b"%d" % (ns // 1000)).__getitem__, out)
    out.write(b'],"weight":[')
    _join(weights, (milliseconds if timed and not ticks else Once(b"%d".__mod__)).__getitem__, out)
    about = {"weightType": "samples" if ticks else "tracing-ms" if timed else profile.unit, "length": len(times)}
    out.write(b"]," + json.dumps(about)[1:-1].encode())


def _join(values: Sequence[int], text: Callable[[int], bytes], out: BinaryIO) -> None:
    for start in range(0, len(values), CHUNK):
        out.write((b"," if start else b"") + b",".join(map(text, values[start : start + CHUNK])))


def _meta(profile: ProfileData) -> Dict[str, Any]:
    from .. import __version__

    header = profile.header
    argv = [clean(str(each)) for each in header.get("argv") or ["python"]]
    about = [("Samples of", header.get("event")), ("Mode", profile.mode), ("Clock", profile.clock)]
    about += [("Python", header.get("python")), ("Command", " ".join(argv))]
    entries = [{"label": label, "format": "string", "value": str(value)} for label, value in about if value]
    return {
        "version": 31,
        "preprocessedProfileVersion": _VERSION,
        "interval": profile.interval_ns / 1e6 or 1,
        "startTime": int(header.get("start_unix_ns") or 0) / 1e6,
        "processType": 0,
        "product": argv[0],
        "importedFrom": f"spprof {__version__}",
        "platform": str(header.get("platform") or ""),
        "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "\u00b5s"},
        "stackwalk": 1,
        "debug": False,
        "categories": [{"name": name, "color": color, "subcategories": ["Other"]} for name, color in _CATEGORIES],
        "markerSchema": [_GC_SCHEMA],
        "symbolicated": True,
        "symbolicationNotSupported": True,
        "usesOnlyOneStackType": not header.get("native"),
        "sourceCodeIsNotOnSearchfox": True,
        "extra": [{"label": "spprof", "entries": entries}],
    }


def _tables(profile: ProfileData, looks: Iterable[Look], strings: Dict[str, int]) -> Dict[str, Any]:
    """The shared tables of frames, functions, files and libraries, and the list of libraries."""

    def string(text: str) -> int:
        return strings.setdefault(text, len(strings))

    frame_names = "address inlineDepth category subcategory func nativeSymbol innerWindowID line column".split()
    func_names = "name isJS relevantForJS resource source lineNumber columnNumber".split()
    frame_rows: List[Any] = []
    funcs: Dict[Any, int] = {}
    files: Dict[str, int] = {}
    libraries: Dict[str, int] = {}
    for look in looks:
        category = _NATIVE if look.native else _PYTHON if look.file else _OTHER
        source = files.setdefault(look.file, len(files)) if look.file else None
        library = libraries.setdefault(look.library, len(libraries)) if look.library else -1
        # Functions that are marked as JavaScript's are shown with file and line, and can be chosen alone, as Python's shall be.
        python = category == _PYTHON
        func = (string(look.name), python, False, library, source, look.first_line or None, None)
        number = funcs.setdefault(func, len(funcs))
        frame_rows.append((-1, 0, category, 0, number, None, 0, look.line or None, look.column or None))
    return {
        "frameTable": _columns(frame_names, frame_rows),
        "funcTable": _columns(func_names, list(funcs)),
        "resourceTable": {
            "lib": list(libraries.values()),
            "name": [string(path.rpartition("/")[2]) for path in libraries],
            "host": [None] * len(libraries),
            "type": [1] * len(libraries),  # a library
            "length": len(libraries),
        },
        "nativeSymbols": _columns(["libIndex", "address", "name", "functionSize"], []),
        "sources": {"id": [None] * len(files), "filename": [string(file) for file in files], "length": len(files)},
        "libs": _libraries(profile, libraries),
    }


def _columns(names: Sequence[str], rows: Sequence[Any]) -> Dict[str, Any]:
    columns: Dict[str, Any] = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    return {**columns, "length": len(rows)}


def _libraries(profile: ProfileData, paths: Iterable[str]) -> List[Dict[str, Any]]:
    from ..readers.spprof import build_ids

    ids = build_ids(*profile.raws()) if paths else {}
    result = []
    for path in map(clean, paths):
        name, known = path.rpartition("/")[2], ids.get(path, set())
        code_id: Optional[str] = next(iter(known)) or None if len(known) == 1 else None
        result.append(
            {"arch": "", "name": name, "path": path, "debugName": name, "debugPath": path, "breakpadId": "", "codeId": code_id}
        )
    return result


def _thread(profile: ProfileData, track: Track, tids: Dict[int, int]) -> Dict[str, Any]:
    header, end = profile.header, profile.end or {}
    start = int(header.get("start_ns") or 0)
    stop = end.get("stop_ns")
    pid = (header if track.thread is None else profile.process_of(track.thread)).get("pid") or 0
    tid = pid if track.thread is None else tids[track.thread]
    return {
        "processType": "default",
        "processStartupTime": 0,
        "processShutdownTime": (stop - start) / 1e6 if isinstance(stop, int) else None,
        "registerTime": 0,
        "unregisterTime": None,
        "pausedRanges": [],
        "name": clean(track.name),
        "isMainThread": tid == pid,
        "pid": str(pid),
        "tid": tid,
        "showMarkersInTimeline": True,
    }


def _markers(profile: ProfileData, track: Track, strings: Dict[str, int]) -> Dict[str, Any]:
    start = int(profile.header.get("start_ns") or 0)
    rows = []
    for mark in profile.markers:
        if track.thread is None or mark.thread == track.thread:
            name = strings.setdefault(mark.name, len(strings))
            begin = (mark.time_ns - start) / 1e6
            category = _GC if mark.name == "gc" else _OTHER
            # Phase 1: an interval.
            rows.append(({"type": mark.name, **mark.data}, name, begin, begin + mark.duration_ns / 1e6, 1, category))
    return _columns(["data", "name", "startTime", "endTime", "phase", "category"], rows)
