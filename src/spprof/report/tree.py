"""`spprof report --format tree`: the calls from the outermost down, with their shares; `--callees` and `--callers`: those from a
function down, or up."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, Callable, Iterator, Optional, Sequence, Set, TextIO

from ..errors import BadOption
from ..model import intervals
from ..model.data import ProfileData
from ..model.patterns import is_like
from .calltree import Call, CallTree
from .tables import check, heading
from .text import Paint, amount, fit, heat, percent, place, readable, width_of
from .tick_stats import tick_stats, warnings

_FIGURES = 25  # columns before the names


def tree(
    profiles: Sequence[ProfileData], stream: TextIO, thread: Optional[str], by: str, python_only: bool, min_share: float,
    verbose: bool = False,
) -> str:  # fmt: skip
    """The text. `by`: 'function' or 'line'; calls whose share of all is under `min_share` percent are left out."""
    profiles = list(map(readable, profiles))
    check(profiles, thread, native=False)
    whole = intervals.together(profile.whole(thread) for profile in profiles)
    calls = CallTree(profiles, [_namer(profile, by) for profile in profiles], thread, python_only)
    lines = [*warnings(profiles)]
    if not len(calls):
        lines += ["No samples were taken."]
    else:
        lines += [f"{heading(profiles, thread, whole)} Calls of at least {min_share:g} % of it (--min-share):", ""]
        lines += [f"      {'total':{_FIGURES - 6}}{by}", *_lines(calls, whole, stream, min_share, profiles[0].unit)]
    return "\n".join([*lines, "", *tick_stats(profiles, verbose)]) + "\n"


def around(
    profiles: Sequence[ProfileData], stream: TextIO, pattern: str, callers: bool, thread: Optional[str] = None,
    by: str = "function", python_only: bool = False, min_share: float = 1.0,
) -> str:  # fmt: skip
    """The text of `--callers` and `--callees`. `pattern`: a name, with its class or without (`*` and `?` allowed). Raises
    BadOption if no function is called so."""
    profiles = list(map(readable, profiles))
    check(profiles, thread, native=False)
    whole = intervals.together(profile.whole(thread) for profile in profiles)
    seen: Set[str] = set()

    def is_meant(name: Any) -> bool:
        seen.add(name[1])
        return any(is_like(each, pattern) for each in name[:2])

    calls = CallTree.around(profiles, [_namer(profile, by) for profile in profiles], is_meant, callers, thread, python_only)
    if not len(calls):
        near = get_close_matches(pattern, seen, 3, 0.5)
        hint = f"; there is {', '.join(near)}" if near else ""
        raise BadOption(f"no function that was sampled is called {pattern!r} (* and ? are allowed){hint}")
    found = amount(sum(calls.root.weights), profiles[0].unit)
    share = percent(_share(calls.root, whole), whole.is_known).strip()
    lines = [
        *warnings(profiles),
        f"{heading(profiles, thread, whole)} {pattern} has {found}, {share} of it.",
        f"{'What calls it' if callers else 'What it calls'}, indented, at least {min_share:g} % of all (--min-share):",
        "",
        f"      {'total':{_FIGURES - 6}}{by}",
    ]
    return "\n".join([*lines, *_lines(calls, whole, stream, min_share, profiles[0].unit)]) + "\n"


def _namer(profile: ProfileData, by: str) -> Callable[[int], Any]:
    def name(id: int) -> Any:
        frame = profile.frame(id)
        if frame.native:
            return (
                frame.name,
                frame.qualname,
                *((frame.source, frame.source_line) if by == "line" and frame.source else (frame.file, 0)),
            )
        return (*frame[:3], frame.line if by == "line" else profile.first_line(id))

    return name


def _share(call: Call, whole: intervals.Whole) -> intervals.Estimate:
    return whole.share(sum(call.weights), squares=call.squares)


def _lines(calls: CallTree, whole: intervals.Whole, stream: TextIO, min_share: float, unit: str) -> Iterator[str]:
    paint, width = Paint(stream), width_of(stream)
    least = min_share / 100 * whole.weight
    deepest = max(0, (width - _FIGURES) // 2)  # at least half the width is for names
    for depth, node in calls.walk(lambda call: sum(call.weights) >= least):
        weight = sum(node.weights)
        share = _share(node, whole)
        indent = "  " * depth if 2 * depth <= deepest else f"[{depth}]".rjust(deepest) + " "
        name = fit(place(*node.name[1:]), max(8, width - _FIGURES - len(indent)))
        figures = f"{amount(weight, unit, whole.weight):>10} {percent(share, whole.is_known)}  "
        yield paint(figures, heat(share.value)) + indent + name
