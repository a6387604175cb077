"""`spprof report --native-calls`: native time by the Python line that called it (docs/native-frames.md)."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple

from ..model import intervals
from ..model.data import ProfileData
from ..model.records import native_name
from .document import document, estimate, limited
from .tables import check, heading
from .text import amount, beside, place, share_of


def native_calls(profiles: Sequence[ProfileData], limit: int, thread: Optional[str], width: int) -> List[str]:
    """The lines of the table."""
    whole, order = _summed(profiles, thread)
    lines = [f"{heading(profiles, thread, whole, sum(ns for _, ns in order))} By calling Python line:", ""]
    lines.append("    native               Python line > native function")
    for (qualname, file, line, native, library), ns in order[:limit]:
        called = native_name(native, library)
        cells = f"{amount(ns, profiles[0].unit, whole.weight):>10} {share_of(whole, ns)}"
        lines.append(beside(cells, f"{place(qualname, file, line)} > {called}", width))
    if len(order) > limit:
        lines.append(f"{'':25}... {len(order) - limit} more (--limit)")
    return lines


def as_json(profiles: Sequence[ProfileData], limit: Optional[int], thread: Optional[str]) -> str:
    """The same for programs."""
    whole, sums = _summed(profiles, thread)
    names = ("qualname", "file", "line", "native", "library")
    rows = [{**dict(zip(names, key)), "weight": weight, **estimate(whole.share(weight), "share")} for key, weight in sums]
    return document("native-calls", {"unit": profiles[0].unit, "weight": whole.weight, **limited("rows", rows, limit)})


def _summed(profiles: Sequence[ProfileData], thread: Optional[str]) -> Tuple[intervals.Whole, List[Tuple[Tuple[Any, ...], int]]]:
    """All time, and that of each Python line and native function below it, the longest first."""
    check(profiles, thread, native=True)
    sums: Dict[Tuple[Any, ...], int] = {}
    for profile in profiles:
        for call in profile.native_calls(thread):
            sums[call[:5]] = sums.get(call[:5], 0) + call.weight
    whole = intervals.together(profile.whole(thread) for profile in profiles)
    return whole, sorted(sums.items(), key=lambda item: (-item[1], item[0]))
