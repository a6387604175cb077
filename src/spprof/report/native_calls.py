"""`spprof report --native-calls`: native time by the Python line that called it (docs/native-frames.md)."""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence, Tuple

from ..model import intervals
from ..model.data import ProfileData
from ..model.records import NO_FRAMES, native_name
from .document import document, estimate, limited
from .owners import Owners
from .tables import check, heading
from .text import amount, beside, place, share_of
from .whose import owners_of

_Place = Tuple[str, str, int]  # a function, its file, a line
_Key = Tuple[_Place, str, str, Optional[_Place]]  # the calling line, the native function, its library, the user's own line


def native_calls(
    profiles: Sequence[ProfileData], limit: int, thread: Optional[str], width: int, mine: Sequence[str] = ()
) -> List[str]:
    """The lines of the table. `mine`: see `Owners`."""
    whole, order = _summed(profiles, thread, mine)
    lines = [f"{heading(profiles, thread, whole, sum(ns for _, ns in order))} By calling Python line:", ""]
    lines.append("    native               Python line > native function")
    for (line, native, library, own), ns in order[:limit]:
        cells = f"{amount(ns, profiles[0].unit, whole.weight):>10} {share_of(whole, ns)}"
        lines.append(beside(cells, f"{place(*line)} > {native_name(native, library)}", width))
        if own not in (None, line):
            lines.append(beside(" " * len(cells), f"  called by {place(*own)}", width))
    if len(order) > limit:
        lines.append(f"{'':25}... {len(order) - limit} more (--limit)")
    return lines


def as_json(profiles: Sequence[ProfileData], limit: Optional[int], thread: Optional[str], mine: Sequence[str] = ()) -> str:
    """The same for programs."""
    whole, sums = _summed(profiles, thread, mine)
    names = ("qualname", "file", "line")
    rows = [
        {**dict(zip(names, line)), "native": native, "library": library, "own": own and dict(zip(names, own)), "weight": weight,
         **estimate(whole.share(weight), "share")}
        for (line, native, library, own), weight in sums
    ]  # fmt: skip
    return document("native-calls", {"unit": profiles[0].unit, "weight": whole.weight, **limited("rows", rows, limit)})


def _summed(
    profiles: Sequence[ProfileData], thread: Optional[str], mine: Sequence[str]
) -> Tuple[intervals.Whole, List[Tuple[_Key, int]]]:
    """All time, and that of each Python line and native function below it, the longest first."""
    check(profiles, thread, native=True)
    owners = owners_of(profiles, mine)
    sums: Dict[_Key, int] = {}
    for profile in profiles:
        callers = _callers(profile, owners)
        for node, weight in profile.stack_sums(thread)[1].items():
            frame = profile.frame(profile.tree.frames[node])
            if frame.native:
                line, own = callers[node]
                key = (line or (NO_FRAMES.qualname, NO_FRAMES.file, NO_FRAMES.line), frame.qualname, frame.file, own)
                sums[key] = sums.get(key, 0) + weight
    whole = intervals.together(profile.whole(thread) for profile in profiles)
    return whole, sorted(sums.items(), key=lambda item: (-item[1], item[0][:3], item[0][3] or ()))


def _callers(profile: ProfileData, owners: Owners) -> List[Tuple[Optional[_Place], Optional[_Place]]]:
    """Of each node of the tree the nearest Python line from the root to it, and the nearest that is the user's own."""
    parents, frames = profile.tree.parents, profile.tree.frames
    found: List[Tuple[Optional[_Place], Optional[_Place]]] = [(None, None)]
    for node in range(1, len(frames)):
        frame, above = profile.frame(frames[node]), found[parents[node]]
        if not frame.native and not profile.is_placeholder(frames[node]):
            line = (frame.qualname, frame.file, frame.line)
            above = (line, line if owners.is_mine(frame.file, False) else above[1])
        found.append(above)
    return found
