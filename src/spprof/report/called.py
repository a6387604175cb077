"""`spprof report --calls`: how often each line called what (docs/counts.md)."""

from __future__ import annotations

from typing import List, Optional, Sequence

from ..errors import BadOption
from ..model.calls import Call, Calls
from ..model.data import ProfileData
from ..model.records import native_name
from .document import document, limited
from .tables import table
from .text import beside, place, readable


def called(profiles: Sequence[ProfileData], limit: int = 15, width: int = 160) -> str:
    """The text: each line that calls and what it calls, by the number of calls."""
    profiles = list(map(readable, profiles))
    calls = _counted(profiles)
    lines = [f"{sum(call.calls for call in calls.rows):,} calls were counted. By calling line:", ""]
    lines.append("        calls      resumes  line that calls > function")
    order = _by_number(calls)
    for call in order[:limit]:
        where = "[no Python code]" if call.caller is None else place(call.caller.qualname, call.caller.file, call.line)
        name = native_name(call.function.qualname, "") if call.function.native else place(*call.function[1:4])
        resumes = f"{call.resumes:,}" if call.resumes else ""
        lines.append(beside(f"{call.calls:>13,} {resumes:>12}", f"{where} > {name}", width))
    if len(order) > limit:
        lines.append(f"{'':28}... {len(order) - limit} more (--limit)")
    if calls.missing:
        lines.append(f"Not counted: {calls.missing}.")
    return "\n".join(lines) + "\n"


def as_json(profiles: Sequence[ProfileData], limit: Optional[int]) -> str:
    """The same for programs."""
    calls = _counted(profiles)
    rows = [
        {
            "function": call.function._asdict(),
            "caller": call.caller and call.caller._asdict(),
            "line": call.line,
            "calls": call.calls,
            "resumes": call.resumes,
        }
        for call in _by_number(calls)
    ]
    about = {"uncounted": calls.uncounted, "threads_taken": calls.threads_taken}
    return document("calls", {**about, **limited("rows", rows, limit)})


def _counted(profiles: Sequence[ProfileData]) -> Calls:
    calls = table(profiles, sort="calls").counted
    if calls is None:
        raise BadOption("the calling lines are not known: only the hottest functions were counted; report without --calls")
    return calls


def _by_number(calls: Calls) -> List[Call]:
    return sorted(calls.rows, key=lambda call: (-call.calls - call.resumes, call.function, call.line))
