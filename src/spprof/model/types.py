"""Samples of several types on the same stacks: columns of all of them, and the part of one, as a profile's own columns."""

from __future__ import annotations

from array import array
from itertools import compress
from typing import Any, Dict, List, NamedTuple, Optional, cast

from .layout import VALUE_COLUMNS, Columns, columns_of

TIME = 0  # its type, whose rows are in blocks S; those of all others are in blocks V


class SampleType(NamedTuple):
    """What samples are of: `unit` is what their weights count, `period` how much of it usually lies between two."""

    name: str
    unit: str
    period: int


def measured(header: Dict[str, Any]) -> str:
    """What the weights of a profile with this header are of: its mode's time, or what the unit says. Time that elapsed for each
    thread is added up over all, so it may be more than the wall time of the run. All types but `time` that have nanoseconds have
    those of it."""
    unit = str(header.get("unit", "nanoseconds"))
    if unit != "nanoseconds":
        return unit
    return {"cpu": "CPU time", "wall": "threads' time"}.get("wall" if "event" in header else header.get("mode", ""), "time")


def listed_types(header: Dict[str, Any]) -> List[Dict[str, Any]]:
    """What the header of a .spprof file says of its types, the first of which is the one that is shown if none is chosen."""
    listed: List[Dict[str, Any]] = header.get("events") or [
        {"type": TIME, "name": "time", "unit": "nanoseconds", "period": header.get("interval_ns", 0)}
    ]
    return listed


def join(result: Dict[str, Any]) -> Optional[bytes]:
    """Puts the rows of all types into the columns of samples, those of time first: what is done to stacks and labels is done
    once. Returns the type of each; None: there is time alone."""
    others = {name: result.pop(other) for name, other in VALUE_COLUMNS.items()}
    types = bytes(result.pop("value_type"))
    if not types:
        return None
    for name, typecode in columns_of("sample").items():
        both = array(typecode, result[name])
        absent = bytes(array(typecode).itemsize * len(types))
        both.extend(array(typecode, others.get(name, absent)))
        result[name] = memoryview(both)
    return bytes(len(result["thread"]) - len(types)) + types


def split(result: Dict[str, Any], types: Optional[bytes]) -> None:
    """The reverse, when the columns are finished. `by_type`: the columns of each type that has rows; those of the first type are
    the profile's own."""
    listed = listed_types(result["header"])
    names = {**columns_of("sample"), "keys": "I"}
    result["by_type"] = {}
    if types is None:
        result["by_type"][TIME] = {name: result[name] for name in names}
        types = bytes(len(result["thread"]))
    else:
        for number in set(types):
            chosen = [each == number for each in types]
            result["by_type"][number] = {
                name: memoryview(array(typecode, compress(result[name], chosen))) for name, typecode in names.items()
            }
    for about in listed:
        empty = {name: memoryview(array(typecode)) for name, typecode in names.items()}
        result["by_type"].setdefault(about["type"], empty)
    result.update(of(cast(Columns, result), listed[0]))


def header_of_file(header: Dict[str, Any], listed: List[Dict[str, Any]]) -> Dict[str, Any]:
    """The header for a file with samples of these types alone: the reverse of what `of` adds."""
    kept = {name: value for name, value in header.items() if name not in ("unit", "event", "user", "events")}
    return kept if [about["type"] for about in listed] == [TIME] else {**kept, "events": listed}


def of(columns: Columns, about: Dict[str, Any]) -> Dict[str, Any]:
    """What a profile of this type alone has other than one of all. `about`: an entry of `listed_types`."""
    changed: Dict[str, Any] = dict(columns["by_type"][about["type"]])
    if about["type"] != TIME:
        header, stats = columns["header"], columns["tick_stats"]
        marks = {mark: about.get(mark, False) for mark in ("user", "grows")}
        changed["header"] = {**header, "unit": about["unit"], "event": about["name"], **marks}
        changed["tick_stats"] = {**stats, **stats.get("events", {}).get(about["name"], {}), "repeated": 0, "truncated": 0}
    return changed
