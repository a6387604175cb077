"""`spprof diff` as text and as a table for GitHub."""

from __future__ import annotations

import sys
import textwrap
from typing import Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..model.intervals import Estimate
from ..model.types import measured
from .comparison import MEASURES, Change, Comparison, Row
from .export import code, escape
from .splitting import Factor, Split, split
from .text import Paint, amount, each_takes, files_of, fit, percent, place, times, width_of, width_of_table

_ALL, _NAME = 72, 24  # columns of all figures, and of a name at least


class Shown(NamedTuple):
    """What to show of a comparison: rows ordered by `sort` ('self' or 'total'), changes of `compare` ('share' or 'time'), at most
    `limit` rows of functions or lines (`by`)."""

    sort: str
    compare: str
    limit: int
    by: str


def _measure(comparison: Comparison, shown: Shown) -> str:
    return "share" if shown.compare == "share" else comparison.weight_word


def _kind(shown: Shown) -> str:
    return "own" if shown.sort == "self" else "total"


def _of(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"


def _head(comparison: Comparison) -> Iterator[str]:
    for name, side, wholes in zip("AB", comparison.sides, comparison.wholes):
        weights = "; ".join(amount(whole.weight, comparison.unit) for whole in wholes)
        kind = f" of {measured(side[0].header)}" if comparison.scale > 1 else f" {comparison.unit}"
        ticks = f", {sum(whole.ticks for whole in wholes):,} samples" if comparison.unit != "samples" else ""
        yield f"{name}: {files_of(side)} ({_of(len(side))}, {weights}{kind}{ticks})"
    a, b, difference, significant = comparison.total()
    line = f"{comparison.weight_word.capitalize()} of a run: {_weight(comparison, a)} -> {_weight(comparison, b)}"
    line += f", {difference.value / a.value:+.1%}"
    if significant is None:
        yield f"{line}. How much runs vary is not known of one run each."
    else:
        word = "surely changed" if significant else "may be chance"
        yield f"{line} ({difference.low / a.value:+.1%} .. {difference.high / a.value:+.1%}): {word}."
    for note in comparison.notes:
        yield f"Note: {note}."


def _weight(comparison: Comparison, value: Estimate) -> str:
    reach = _reach(value)
    return _spread(comparison, value.value, reach) if reach else _alone(comparison, value)


def _alone(comparison: Comparison, value: Estimate) -> str:
    return amount(value.value * comparison.scale, comparison.unit)


def _in_column(comparison: Comparison, value: Estimate) -> str:
    """The same, in the unit that a column of it has."""
    return amount(value.value * comparison.scale, comparison.unit, _largest(comparison))


def _largest(comparison: Comparison) -> float:
    return max(whole.weight for side in comparison.wholes for whole in side)


def _spread(comparison: Comparison, seconds: float, reach: float, sign: str = "", largest: float = 0.0) -> str:
    """`0.772 ±0.048 s`: both in one unit, that of `largest` in a column."""
    if comparison.scale == 1:
        return f"{seconds:{sign},.0f} ±{reach:,.0f}"
    if max(abs(seconds), reach, largest) >= 0.1:
        return f"{seconds:{sign}.3f} ±{reach:.3f} s"
    return f"{1000 * seconds:{sign}.2f} ±{1000 * reach:.2f} ms"


def _reach(of: Estimate) -> float:
    return max(of.high - of.value, of.value - of.low)


def _shares(comparison: Comparison, shares: Change) -> List[str]:
    return [percent(share, known) for share, known in zip((shares.a, shares.b), comparison.known)]


def _difference(comparison: Comparison, change: Change, measure: str) -> str:
    value, reach = change.difference.value, _reach(change.difference)
    if measure == "share":
        error = f"{100 * reach:.1f}" if all(comparison.known) else "?"
        return f"{100 * value:>+6.1f} ±{error:<4}"
    if not all(comparison.known):
        return f"{'+' if value > 0 else ''}{_in_column(comparison, change.difference)} ±?"
    return _spread(comparison, value, reach, "+", _largest(comparison) / comparison.scale)


def _factors(comparison: Comparison, of: Optional[Split]) -> Tuple[str, str]:
    """`3.10 x * (100,000 -> 310,000)`: of the number of calls, and of the time of a call; '' if it is not known."""
    if of is None:
        return "", ""
    ends = [f"{round(value.value):,}" for value in of.calls[:2]]
    of_calls = _factor(of.calls, " -> ".join(ends), True)
    if of.per_call is None:
        return of_calls, ""
    ends = [each_takes(value.value * comparison.scale, comparison.unit) for value in of.per_call[:2]]
    return of_calls, _factor(of.per_call, " -> ".join(ends), all(comparison.known))


def _factor(factor: Factor, ends: str, known: bool) -> str:
    if factor.ratio is None:
        return ends + (" *" if factor.significant else "")
    value, low, high = factor.ratio
    spread = f" ({times(low)} .. {times(high)})" if low != high else ""
    return f"{times(value)} x{spread if known else ' (?)'}{' *' if factor.significant else ''}, {ends}"


def _foot(comparison: Comparison, shown: Shown, found: Sequence[Tuple[Row, Change]], rows: int) -> Iterator[str]:
    hidden = sum(change.significant is True for _, change in found[rows:])
    if len(found) > rows:
        yield f"... {len(found) - rows} more (--limit)" + (f", {hidden} of them marked" if hidden else "")
    left = sum(any(map(any, getattr(row, _kind(shown)))) for row in comparison.rows) - len(found)
    if left:
        least = f"{100 * comparison.min_share:g} % of the {comparison.weight_word}"
        yield f"{left} of less than {least} in A and B together are left out (--min-share)."
    if shown.compare == "share" and any(change.significant for _, change in found):
        word = comparison.weight_word
        why = "what did not change has less where something else takes more, and more where it takes less"
        yield f"Shares are of all {word}: {why}. {_amounts(comparison)}"
    how = (
        "from how much runs vary"
        if comparison.repeated
        else "of sampling alone; how much runs vary takes several: A1 A2 A3 -- B1 B2 B3"
    )
    if shown.compare == "time" and not comparison.repeated:
        word = comparison.weight_word
        yield f"No change of {word} is marked: one run each does not show how much runs vary. ± is the 95 % interval {how}."
    else:
        yield f"* more than chance, all {len(found)} compared counted (Bonferroni, 95 %). ± is each one's 95 % interval, {how}."
    if comparison.calls is not None:
        yield "Calls are exact. " + (
            "Calls and the time of a call are counted apart: all of both (Bonferroni, 95 %)."
            if comparison.repeated
            else "The time of a call has no mark: one run each does not report how much runs vary."
        )


def _amounts(comparison: Comparison) -> str:
    """How to see what changed by itself."""
    if comparison.repeated:
        return "--compare time marks those that changed by themselves."
    if _is_narrow():
        return f"--compare time has the {comparison.weight_word} itself."
    return f"The columns at the right have the {comparison.weight_word} itself."


def _is_narrow() -> bool:
    """Whether a line is too narrow for shares, times and a name: it has only those of what is compared then."""
    return width_of_table(sys.stdout) < _ALL + _NAME


def _wrapped(lines: Iterable[str]) -> Iterator[str]:
    width = width_of(sys.stdout)
    for line in lines:
        yield from textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False) if len(line) > width else [line]


def text(comparison: Comparison, shown: Shown) -> Iterator[str]:
    yield from _wrapped(_head(comparison))
    found = comparison.changes(_kind(shown), shown.compare)
    paint = Paint(sys.stdout)
    yield ""
    has_shares, has_times = (not _is_narrow() or shown.compare == each for each in ("share", "time"))
    shares_of = f" {shown.sort + ', A':<12}{'B':>6}      " if has_shares else ""
    changed, word = "change of " + _measure(comparison, shown), comparison.weight_word
    times_of = f"{word + ' of A':>10} {'of B':>10}  " if has_times else ""
    yield f"{shares_of} {changed:>18}   {times_of}{shown.by}"
    for row, change in found[: shown.limit]:
        shares = change if shown.compare == "share" else comparison.change(row.figures(_kind(shown)))
        seconds = change if shown.compare == "time" else comparison.change(row.figures(_kind(shown)), "time")
        mark = "*" if change.significant else " "
        line = " ".join(_shares(comparison, shares)) if has_shares else ""
        line += f" {_difference(comparison, change, shown.compare):>18} {mark} "
        line += f"{_in_column(comparison, seconds.a):>10} {_in_column(comparison, seconds.b):>10}  " if has_times else ""
        line += fit(_place(row), max(_NAME, width_of_table(sys.stdout) - len(line)))
        yield paint(line, ("hot" if change.difference.value > 0 else "good") if change.significant else "")
        of_calls, of_a_call = _factors(comparison, split(comparison, row, _kind(shown), len(found)))
        if of_calls:
            yield "      " + f"calls: {of_calls}" + (f"; a call: {of_a_call}" if of_a_call else "")
    yield ""
    yield from _wrapped(_foot(comparison, shown, found, shown.limit))


def _place(row: Row) -> str:
    return place(row.function.qualname, row.file, 0 if row.function.native and not row.function.line else row.line)


def markdown(comparison: Comparison, shown: Shown) -> Iterator[str]:
    for line in _head(comparison):
        yield escape(line) + "  "
    found = comparison.changes(_kind(shown), shown.compare)
    changed, word = f"change of {_measure(comparison, shown)}", comparison.weight_word
    more, lines = ("", "") if comparison.calls is None else (" calls | a call |", "--:|--:|")
    yield f"\n| {shown.sort} A | B | {changed} | {word} A | B |{more} {shown.by} |\n|--:|--:|--:|--:|--:|{lines}:--|"
    for row, change in found[: shown.limit]:
        shares, seconds = (comparison.change(row.figures(_kind(shown)), measure) for measure in MEASURES)
        cells = [*map(str.strip, (*_shares(comparison, shares), _difference(comparison, change, shown.compare)))]
        cells[2] = f"**{cells[2]}** \\*" if change.significant else cells[2]
        cells += [_in_column(comparison, seconds.a), _in_column(comparison, seconds.b)]
        if comparison.calls is not None:
            factors = _factors(comparison, split(comparison, row, _kind(shown), len(found)))
            cells += [each.replace("*", "\\*") for each in factors]
        cells.append(code(_place(row)))
        yield f"| {' | '.join(cells)} |"
    yield ""
    for line in _foot(comparison, shown, found, shown.limit):
        yield escape(line) + "  "
