"""The summary of a profile as text: a table with error bars, waiting, the account of ticks."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from .. import intervals
from ..model import Profile, native_name
from .account import account, warnings
from .tables import Table, check, heading, table
from .text import amount, percent, place, printable


def summary(
    profiles: Sequence[Profile],
    limit: int = 15,
    thread: Optional[str] = None,
    sort: str = "self",
    shown: Optional[str] = None,
    by: str = "function",
) -> str:
    """The text that `spprof run` and `spprof report` print, of one profile or of several processes' together.

    `shown`: 'python' or 'native' as in `Profile.functions(only=)`, or 'calls' for `Profile.native_calls()`. `by`: what a row is,
    one of `tables.BY`. Raises BadOption if no thread matches the pattern, or if native functions are asked for and there are
    none."""
    if shown == "calls":
        lines = _calls(profiles, limit, thread)
    else:
        lines = list(_flat(table(profiles, by, thread, sort, shown), limit))
    return "\n".join([*warnings(profiles), *lines, "", *account(profiles)]) + "\n"


def _flat(shown: Table, limit: int) -> Iterator[str]:
    if not shown.rows:
        yield "No samples were taken." if shown.only is None else f"No samples of {shown.only} functions were taken."
        return
    yield shown.heading()
    yield ""
    alone = shown.by == "thread"
    yield "      time               thread" if alone else f"      self                   total               {shown.by}"
    for row in shown.rows[:limit]:
        figures = [row.total_weight_ns] if alone else [row.self_weight_ns, row.total_weight_ns]
        yield f"{' '.join(f'{amount(ns, shown.unit):>10} {percent(shown.whole.share(ns))}' for ns in figures)}  {row.text}"
    if len(shown.rows) > limit:
        yield f"{'':{25 if alone else 49}}... {len(shown.rows) - limit} more (--limit)"


def _calls(profiles: Sequence[Profile], limit: int, thread: Optional[str]) -> List[str]:
    check(profiles, thread, native=True)
    sums: Dict[Tuple[Any, ...], int] = {}
    for profile in profiles:
        for call in profile.native_calls(thread):
            sums[call[:5]] = sums.get(call[:5], 0) + call.weight_ns
    whole = intervals.together(profile.whole(thread) for profile in profiles)
    lines = [f"{heading(profiles, thread, whole, sum(sums.values()))} By calling Python line:", ""]
    lines.append("    native               Python line > native function")
    order = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    for (qualname, file, line, native, library), ns in order[:limit]:
        called = printable(native_name(native, library))
        lines.append(f"{amount(ns, profiles[0].unit):>10} {percent(whole.share(ns))}  {place(qualname, file, line)} > {called}")
    if len(order) > limit:
        lines.append(f"{'':25}... {len(order) - limit} more (--limit)")
    return lines
