"""`spprof report --format json` and `--format markdown`; `spprof diff --json`."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from ..model.data import ProfileData
from ..model.intervals import LEVEL, Whole
from .comparison import Change, Comparison, Runs
from .document import document, estimate
from .splitting import Factor, Split, split
from .tables import Row, Table
from .text import ESTIMATED, amount, calls_of, per_call, share_of
from .tick_stats import tick_stats, warnings
from .timed import as_json as times

# What means something in GitHub's Markdown, within a table: `_` beside a word, not in it; a bracket that may begin a link.
_MEANS = re.compile(r"(\\(?=[!-/:-@\[-`{-~])|[*<|~$]|(?<!\w)_|_(?!\w)|\[(?=.*\][(\[:])|&(?=#?\w+;)|^[>#\[])")


def as_json(shown: Table, limit: Optional[int]) -> str:
    """The table, and the times of calls."""
    rows = [
        {
            **row.what,
            "self": _figure(shown.whole, row.self_samples, row.self_weight, row.self_squares),
            "total": _figure(shown.whole, row.total_samples, row.total_weight, row.total_squares),
            **_counts(shown, row),
        }
        for row in shown.rows[:limit]
    ]
    fields: Dict[str, Any] = {
        "mode": shown.profiles[0].mode,
        "by": shown.by,
        "sort": shown.sort,
        "thread": shown.thread,
        "only": shown.only,
        "level": LEVEL,
        "unit": shown.unit,
        "weight": shown.whole.weight,
        "samples": shown.whole.ticks,
        "effective_samples": shown.whole.samples,
        "unknown_weight": shown.whole.unknown_weight,
        "rows": rows,
        "more": len(shown.rows) - len(rows),
        "processes": [_process(profile, profile.whole(shown.thread)) for profile in shown.profiles],
        **(times(shown.profiles) if shown.by == "function" and shown.thread is None else {}),
    }
    return document("report", fields)


def _counts(shown: Table, row: Row) -> Dict[str, Any]:
    """Calls of a row, where they were counted."""
    time = shown.per_call(row)
    if row.hot is not None:
        of = row.hot
        figures = {
            "estimate": row.calls,
            "counted": of.calls,
            "counted_ns": of.counted_ns,
            "self": of.self_ns,
            "samples": of.samples,
        }
        return {"hot_calls": {**figures, **({} if time is None else {"per_call": estimate(time, "weight")})}}
    if row.calls is None:
        return {}
    counts: Dict[str, Any] = {"calls": row.calls, "resumes": row.resumes}
    return counts if time is None else {**counts, "per_call": estimate(time, "weight")}


def _process(profile: ProfileData, whole: Whole) -> Dict[str, Any]:
    """One process of a report, or one run of a diff. `whole`: its samples that count."""
    return {
        "path": profile.path,
        **{key: profile.header.get(key) for key in ("pid", "python", "argv")},
        "clock": profile.clock,
        "interval_ns": profile.interval_ns,
        "complete": profile.end is not None,
        "warning": profile.warning,
        "tick_stats": profile.stats,
        "weight": whole.weight,
        "samples": whole.ticks,
        "effective_samples": whole.samples,
        "unknown_weight": whole.unknown_weight,
    }


def _figure(whole: Whole, samples: int, weight: int, squares: float) -> Dict[str, Any]:
    figure = {"samples": samples, "weight": weight, "effective_samples": whole.samples_of(weight, squares)}
    return {**figure, **estimate(whole.share(weight, squares=squares), "share")}


def escape(text: str) -> str:
    """Text that means nothing in Markdown, but for pairs of backticks, in the cell of a table."""
    made = _MEANS.sub(r"\\\1", text)
    return made if made.count("`") % 2 == 0 else made.replace("`", "\\`")


def code(text: str) -> str:
    """Text as code, in the cell of a table: nothing in it means anything but a bar."""
    fence = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    pad = " " if text[:1] == "`" or text[-1:] == "`" else ""
    return f"{fence}{pad}{text}{pad}{fence}".replace("|", "\\|")


def as_markdown(shown: Table, limit: int, own: Sequence[str] = (), title: str = "Your own code") -> str:
    """A table for an issue or a pull request. `own`: lines of the tree of the user's own code, above it, and what it is."""
    return "\n".join(_markdown(shown, limit, own, title)) + "\n"


def _markdown(shown: Table, limit: int, own: Sequence[str], title: str) -> Iterator[str]:
    for line in warnings(shown.profiles):
        yield escape(line) + "\n"
    if own:
        fence = "`" * max(3, *(len(run) + 1 for line in own for run in ["", *re.findall("`+", line)]))
        yield from (f"{title}, and what it calls:", "", fence, *own, fence, "")
    yield escape(shown.heading())
    yield ""
    alone = shown.alone
    counts = shown.has_calls
    more = f" calls | {'total' if shown.sort == 'total' else 'self'} a call |" if counts else ""
    yield (
        f"| {escape(shown.weight_word)} | share | {shown.by} |"
        if alone
        else f"| self | share | total | share |{more} {shown.by} |"
    )
    yield "|--:|--:|:--|" if alone else "|--:|--:|--:|--:|" + ("--:|--:|" if counts else "") + ":--|"
    for row in shown.rows[:limit]:
        cells = [
            cell
            for one in row.times(alone)
            for cell in (amount(one[0], shown.unit, shown.whole.weight), share_of(shown.whole, *one).strip())
        ]
        cells += [calls_of(row).strip(), per_call(shown.per_call(row)).strip()] if counts else []
        yield f"| {' | '.join(cells)} | {code(row.text)}{row.few} |"
    if len(shown.rows) > limit:
        yield f"\n{len(shown.rows) - limit} more (`--limit`)"
    if shown.hot is not None:
        yield f"\n{escape(ESTIMATED)}"
    yield ""
    for line in tick_stats(shown.profiles):
        yield f"- {escape(line)}"


def diff_as_json(comparison: Comparison, sort: str, compare: str, limit: Optional[int], failed: List[str]) -> str:
    """All that a diff knows of each function."""
    found = comparison.changes("own" if sort == "self" else "total", compare)
    compared = {kind: sum(comparison.compared(getattr(row, kind)) for row in comparison.rows) for kind in ("own", "total")}
    splits = {id(row): {kind: split(comparison, row, kind, len(found)) for kind in compared} for row, _ in found[:limit]}
    fields: Dict[str, Any] = {
        "mode": comparison.sides[0][0].mode,
        "by": comparison.by,
        "sort": sort,
        "compare": compare,
        "thread": comparison.thread,
        "only": comparison.only,
        "unit": comparison.unit,
        "min_share": comparison.min_share,
        "level": LEVEL,
        "compared": len(found),
        "notes": comparison.notes,
        "failed": failed,
        **{
            name: [_process(profile, whole) for profile, whole in zip(side, wholes)]
            for name, side, wholes in zip("ab", comparison.sides, comparison.wholes)
        },
        "weight": _change(comparison.total(), "weight", comparison.scale),
        "rows": [
            {
                "qualname": row.function.qualname,
                "file": row.file,
                "line": row.line,
                "native": row.function.native,
                **_split_calls(splits[id(row)]["own"]),
                **{
                    name: {
                        **{
                            field: _change(_judged(comparison, row.figures(kind), measure, compared[kind]), field, scale)
                            for measure, field, scale in (("share", "share", 1.0), ("time", "weight", comparison.scale))
                        },
                        **_split_time(splits[id(row)][kind], comparison.scale),
                    }
                    for name, kind in (("self", "own"), ("total", "total"))
                },
            }
            for row, _ in found[:limit]
        ],
    }
    return document("diff", fields)


def _judged(comparison: Comparison, figures: Tuple[Runs, Runs], measure: str, compared: int) -> Change:
    change = comparison.change(figures, measure, compared)
    return change if comparison.compared(figures[0]) else change._replace(significant=None)


def _split_calls(of: Optional[Split]) -> Dict[str, Any]:
    return {} if of is None else {"calls": _factor(of.calls, "calls", 1.0)}


def _split_time(of: Optional[Split], scale: float) -> Dict[str, Any]:
    return {} if of is None or of.per_call is None else {"per_call": _factor(of.per_call, "weight", scale)}


def _factor(factor: Factor, field: str, scale: float) -> Dict[str, Any]:
    ratio: Optional[Dict[str, Any]] = factor.ratio and estimate(factor.ratio, "ratio")
    if ratio is not None and ratio["high"] == float("inf"):
        ratio["high"] = None
    return {
        **{name: estimate(value.times(scale), field) for name, value in zip("ab", factor[:2])},
        "ratio": ratio,
        "significant": factor.significant,
    }


def _change(change: Change, field: str, scale: float) -> Dict[str, Any]:
    return {
        **{name: estimate(value.times(scale), field) for name, value in zip(("a", "b", "difference"), change[:3])},
        "significant": change.significant,
    }
