"""The summary of a profile: hottest functions, waiting, account of ticks."""

from __future__ import annotations

import os
from typing import Iterator, List, Optional

from ..errors import BadOption
from ..model import FunctionRow, Profile

LITTLE_CPU = 0.5  # of the wall time: below it, a profile of CPU time does not show what the user waits for


def summary(profile: Profile, limit: int = 15, thread: Optional[str] = None, sort: str = "self") -> str:
    """The text that `spprof run` and `spprof report` print. Raises BadOption if no thread matches the pattern."""
    if thread is not None and not profile.match_threads(thread):
        names = ", ".join(sorted({each.name for each in profile.threads})) or "none at all"
        raise BadOption(f"no thread matches {thread!r}; the profile has: {names}")
    lines: List[str] = []
    if profile.warning:
        lines.append(f"Warning: {profile.warning}.")
    elif profile.end is None:
        lines.append("Warning: the program died before the profile was closed; up to 100 ms are missing.")
    lines += _table(profile, limit, thread, sort)
    lines += ["", *_waiting(profile), *_account(profile)]
    return "\n".join(lines) + "\n"


def _table(profile: Profile, limit: int, thread: Optional[str], sort: str) -> Iterator[str]:
    rows = profile.functions(thread=thread)
    if not rows:
        yield "No samples were taken."
        return
    whole = sum(row.self_weight_ns for row in rows) or 1
    if sort == "total":
        rows.sort(key=lambda row: (-row.total_weight_ns, -row.self_weight_ns, row.file, row.line, row.qualname))
    kind = "CPU time" if profile.mode == "cpu" else "wall time"
    where = f" in threads like {thread!r}" if thread else ""
    yield f"{_duration(whole)} of {kind}{where}, {sum(row.self_samples for row in rows):,} samples. By {sort} time:"
    yield ""
    yield "      self             total           function"
    for row in rows[:limit]:
        yield (
            f"{_duration(row.self_weight_ns):>10} {row.self_weight_ns / whole:>6.1%} "
            f"{_duration(row.total_weight_ns):>10} {row.total_weight_ns / whole:>6.1%}  {_place(row)}"
        )
    if len(rows) > limit:
        yield f"{'':38}... {len(rows) - limit} more (--limit)"


def _place(row: FunctionRow) -> str:
    if not row.file:
        return row.qualname
    file = row.file
    here = os.getcwd() + os.sep
    return f"{row.qualname} ({file[len(here) :] if file.startswith(here) else file}:{row.line})"


def _duration(ns: int) -> str:
    if ns >= 100_000_000:
        return f"{ns / 1e9:.2f} s"
    return f"{ns / 1e6:.2f} ms"


def _waiting(profile: Profile) -> Iterator[str]:
    wall, cpu = profile.stats.get("wall_ns"), profile.stats.get("cpu_ns")
    if not wall or cpu is None:
        return
    text = f"On CPU: {_duration(cpu)} of {_duration(wall)} wall time ({cpu / wall:.0%})."
    if profile.mode == "cpu" and cpu < LITTLE_CPU * wall:
        text += " The rest was waiting: `--mode wall` shows where."
    yield text


def _account(profile: Profile) -> Iterator[str]:
    asked = 1e9 / profile.interval_ns if profile.interval_ns else 0
    weight = sum(profile.column("weight_ns"))
    real = f", {sum(profile.column('count')) * 1e9 / weight:,.0f} Hz real" if weight else ""
    yield f"Clock: {profile.clock}, {asked:,.0f} Hz asked{real}."
    stats = profile.stats
    if not stats:
        yield "Ticks: the account was not written."
        return
    parts = [(stats.get("taken", 0), "taken"), (stats.get("repeated", 0), "repeated")]
    parts += [(lost, _title(reason)) for reason, lost in stats.get("losses", {}).items()]
    missing = stats.get("expected", 0) - sum(number for number, _ in parts)
    parts.append((missing, "not accounted for (a bug: please report it)"))
    shown = " + ".join(f"{number:,} {title}" for number, title in parts if number or title == "taken")
    yield f"Ticks: {stats.get('expected', 0):,} expected = {shown}."
    if stats.get("truncated"):
        yield f"Truncated: {stats['truncated']:,} stacks deeper than {profile.header.get('max_depth')} (--max-depth)."
    if stats.get("write_error"):
        yield f"Warning: the file is incomplete: {stats['write_error']}."


def _title(reason: str) -> str:
    try:
        from .._core import LOSSES
    except ImportError:  # reading where none can be taken
        return reason
    return LOSSES.get(reason, reason)
