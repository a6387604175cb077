"""What a .spprof file says of itself in JSON, checked where it comes in: everything behind may rely on types and sizes. Keys that
are unknown here are passed on unchanged, for reports that show them as they are."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Tuple

from ..model.counters import COUNTERS
from ._fields import checked

_TIME = (1 << 62) - 1  # nanoseconds: their sums fit 64 bits
_ID = (1 << 31) - 1
_ERRNO = 4095
_LISTS = ("argv", "values")  # of texts
_EVENT: Dict[str, Any] = {"type": 255, "name": str, "unit": str, "period": _TIME}  # what is sampled: see model/types.py
# Key -> its type, or the most that a whole number from 0 may be.
_HEADER: Dict[str, Any] = {
    **dict.fromkeys(("version", "interval_ns", "start_ns", "start_unix_ns"), _TIME),
    **dict.fromkeys(("pid", "max_depth"), _ID),
    **dict.fromkeys(("python", "implementation", "platform", "mode", "clock"), str),
    **dict.fromkeys(("native", "spprof", "begun", "run", "part", "warning"), str),
    **dict.fromkeys(("source", "unit", "exporter", "value"), str),  # which other readers give
    **dict.fromkeys((*_LISTS, "events"), list),
}
_STATS: Dict[str, Any] = {
    **dict.fromkeys(
        ("interval_ns", "wall_ns", "cpu_ns", "paused_ns", "paused_cpu_ns", "first_thread_ready_ns", "children_cpu_ns"), _TIME
    ),
    **dict.fromkeys(("expected", "taken", "captured", "repeated", "dropped", "validation_drops", "overruns"), _TIME),
    **dict.fromkeys((*COUNTERS, "threads", "units", "enabled_ns", "running_ns"), _TIME),
    "write_error": _ERRNO,
    "clock": str,
    **dict.fromkeys(("losses", "events"), dict),
}
_END: Dict[str, Any] = {"stop_ns": _TIME, "unwritten": _TIME, "write_error": _ERRNO, "reason": str, "cut": bool}
_THREAD: Dict[str, Any] = {"id": _ID, "tid": _TIME, "name": str}


def header_of(data: Optional[bytes]) -> Dict[str, Any]:
    """Block H. Raises ValueError, also for a version that this spprof does not read."""
    if data is None:
        raise ValueError("a .spprof file without a header: it was cut short or is damaged")
    header = _object(json.loads(data), _HEADER, "the header", ("version", "start_ns"))
    if header["version"] != 1:
        raise ValueError(f"a .spprof file of version {header['version']}; this spprof reads version 1")
    for name in _LISTS:
        for word in header.get(name, ()):
            checked(word, str, f"a word of {name!r} of the header")
    for event in header.get("events", ()):
        _object(event, _EVENT, "an entry of 'events' of the header", tuple(_EVENT))
    if len({event["type"] for event in header.get("events", ())}) < len(header.get("events", ())):
        raise ValueError("the header has an event twice")
    return header


def tick_stats_of(data: Optional[bytes]) -> Dict[str, Any]:
    """Block A; {} without one. Raises ValueError."""
    stats = _object(json.loads(data or b"{}"), _STATS, "the tick stats")
    _losses(stats)
    for name, event in stats.get("events", {}).items():
        _losses(_object(event, _STATS, f"{name!r:.40} of 'events' of the tick stats"))
    return stats


def _losses(stats: Dict[str, Any]) -> None:
    losses = stats.get("losses", {})
    _object(losses, dict.fromkeys(losses, _TIME), "the losses")


def end_of(data: Optional[bytes]) -> Optional[Dict[str, Any]]:
    """Block E; None without one. Raises ValueError."""
    return _object(json.loads(data), _END, "the end", ("stop_ns", "reason")) if data else None


def threads_of(blocks: List[bytes]) -> Dict[int, Dict[str, Any]]:
    """Blocks T, by thread. Raises ValueError."""
    entries: Dict[int, Dict[str, Any]] = {}
    for block in blocks:  # files of older versions may have names that are no UTF-8
        for entry in checked(json.loads(block.decode("utf-8", "replace")), list, "a block of threads"):
            thread = _object(entry, _THREAD, "a thread", tuple(_THREAD))
            entries[thread["id"]] = thread
    return entries


def _object(value: Any, kinds: Dict[str, Any], where: str, needed: Tuple[str, ...] = ()) -> Dict[str, Any]:
    """An object whose known keys are what they are to be; null is as good as missing."""
    found = {key: each for key, each in checked(value, dict, where).items() if each is not None}
    for key in needed:
        if key not in found:
            raise ValueError(f"{where} has no {key!r}")
    for key in kinds.keys() & found.keys():
        kind = kinds[key]
        if isinstance(kind, type):
            checked(found[key], kind, f"{key!r} of {where}")
        elif type(found[key]) is not int:
            raise ValueError(f"{key!r} of {where} is {found[key]!r:.40}, not a whole number")
        elif not 0 <= found[key] <= kind:
            raise ValueError(f"{key!r} of {where} is {found[key]!r:.40}: it can be 0 to {kind:,}")
    return found
