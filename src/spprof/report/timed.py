"""Exact times of calls, for people and for programs: a table of functions, and their slowest calls (docs/times.md)."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Sequence

from ..errors import BadOption
from ..model.data import ProfileData
from ..model.records import native_name
from ..model.times import Histogram, SlowCall, TimedFunction, Times, together
from . import missing
from .document import document, limited
from .text import brief, duration, fit, place, readable, shown

QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
_LEAST = 24  # columns for a name, whatever the terminal


def timed(profiles: Sequence[ProfileData]) -> Optional[Times]:
    """The times of all profiles together, if any has them; the function of the most time first."""
    each = [profile.times for profile in profiles]
    if not any(each):
        return None
    times = together(one for one in each if one is not None)
    order = sorted(times.functions, key=lambda one: (-one.wall.total_ns, one.function))
    return times._replace(functions=order)


def table_of_times(profiles: Sequence[ProfileData], limit: int, width: int) -> Iterator[str]:
    """Below the samples' table; nothing if no call was timed."""
    times = timed(profiles)
    if times is None:
        return
    yield ""
    if not times.functions:
        yield "No function that was to be timed was called."
    else:
        steps = any(one.running is not None for one in times.functions)
        cpu = any(one.cpu is not None for one in times.functions)
        yield "Timed calls, by total time:"
        yield ""
        more = f"{'running':>10}" * steps + f"{'CPU':>10}" * cpu
        yield f"{'calls':>11}" + "".join(f"{name:>10}" for name in (*QUANTILES, "max", "total")) + more + "  function"
    for one in times.functions[:limit]:
        figures = [*(one.wall.quantile(share) for share in QUANTILES.values()), one.wall.max_ns, one.wall.total_ns]
        text = f"{one.calls:>11,}" + "".join(f"{brief(ns) if one.calls else '':>10}" for ns in figures)
        for wanted, histogram in ((steps, one.running), (cpu, one.cpu)):
            text += f"{brief(histogram.total_ns) if histogram is not None else '':>10}" * wanted
        what = place(*one.function[1:4]) + _besides(one)
        yield f"{text}  {fit(what, max(_LEAST, width - len(text) - 2))}"
    if len(times.functions) > limit:
        yield f"{'':11}... {len(times.functions) - limit} more (--limit)"
    if times.missing:
        yield f"Not timed: {times.missing}."


def _besides(one: TimedFunction) -> str:
    words = [f"{one.raised:,} raised"] if one.raised else []
    words += [f"{one.open:,} open"] if one.open else []
    return f" [{', '.join(words)}]" if words else ""


def slowest(profiles: Sequence[ProfileData], limit: int, width: int) -> str:
    """The text of `spprof report --slowest`: the slowest calls of each function with their labels and stacks."""
    profiles = list(map(readable, profiles))
    times = _found(profiles)
    starts = [int(profile.header.get("start_ns", 0)) for profile in profiles]
    start = starts[0] if len(starts) == 1 else None
    lines: List[str] = []
    for one in times.functions[:limit]:
        lines.append(f"{place(*one.function[1:4])}: {one.calls:,} calls{_besides(one)}")
        for call in one.slowest:
            lines += ["", "  " + _about(call, start)]
            lines += [f"    {fit(_frame(call, i), max(_LEAST, width - 4))}" for i in range(len(call.stack))]
        lines.append("")
    if not lines:
        lines = ["No function that was to be timed was called.", ""]
    return "\n".join(lines)


def _found(profiles: Sequence[ProfileData]) -> Times:
    times = timed(profiles)
    if times is None:
        raise BadOption(missing.why(profiles, "times", "times of calls", "--time MODULE:QUALNAME", "Python 3.12"))
    return times


def _about(call: SlowCall, start: Optional[int]) -> str:
    words = [brief(call.wall_ns).strip()]
    words += [f"{brief(call.running_ns).strip()} of it running"] if call.running_ns is not None else []
    words += [f"{brief(call.cpu_ns).strip()} CPU"] if call.cpu_ns is not None else []
    words += [f"began at {duration(call.began_ns - start)}"] if start is not None else []
    words += [f"thread {call.thread_id}"]
    words += ["raised"] if call.raised else []
    words += [shown(f"{key}={value}") for key, value in call.labels.items()]
    return ", ".join(words)


def _frame(call: SlowCall, i: int) -> str:
    function, line = call.stack[i]
    text = place(function.qualname, function.file, line) if line else native_name(function.qualname, function.file)
    return f"... {text}" if call.cut and i == 0 else text


def as_json(profiles: Sequence[ProfileData]) -> Dict[str, Any]:
    """The key `times` of a report, if calls were timed."""
    times = timed(profiles)
    if times is None:
        return {}
    functions = [_function(one) for one in times.functions]
    return {"times": {"untimed_functions": times.untimed, "lost_calls": times.lost, "functions": functions}}


def slowest_as_json(profiles: Sequence[ProfileData], limit: Optional[int]) -> str:
    """`--slowest` for programs: the same functions alone."""
    times = _found(profiles)
    about = {"untimed_functions": times.untimed, "lost_calls": times.lost}
    return document("slowest", {**about, **limited("functions", list(map(_function, times.functions)), limit)})


def _function(one: TimedFunction) -> Dict[str, Any]:
    kinds = {"wall": one.wall, "running": one.running, "cpu": one.cpu}
    return {
        **_named(one.function),
        "calls": one.calls,
        "raised": one.raised,
        "open": one.open,
        **{kind: _quantiles(histogram) for kind, histogram in kinds.items() if histogram is not None},
        "slowest": [_slow(call) for call in one.slowest],
    }


def _named(function: Any) -> Dict[str, Any]:
    return {"name": function.name, "qualname": function.qualname, "file": function.file, "line": function.line}


def _quantiles(histogram: Histogram) -> Dict[str, int]:
    found = {name: histogram.quantile(share) for name, share in QUANTILES.items()}
    return {**found, "max": histogram.max_ns, "total": histogram.total_ns}


def _slow(call: SlowCall) -> Dict[str, Any]:
    frames = [{**_named(function), "line": line} for function, line in call.stack]
    times = {"wall_ns": call.wall_ns, "running_ns": call.running_ns, "cpu_ns": call.cpu_ns, "began_ns": call.began_ns}
    return {**times, "tid": call.thread_id, "raised": call.raised, "labels": call.labels, "cut": call.cut, "stack": frames}
