"""Calls that wait: is one ended by a tick, or early, and how much later are they with a profiler?"""

from pathlib import Path
from typing import Any, Dict, Iterator, List

from . import child, empty, shares
from .goals import Options, Row

SOURCE = Path(__file__).with_name("calls.c")
TARGET = child.TARGETS / "calls.py"
MOST_LATER_MS = 0.2
Kinds = Dict[str, Dict[str, int]]


def calls(options: Options) -> List[Row]:
    """1,000,000 calls of poll, nanosleep, select, epoll_wait, recv with a timeout, semaphores and futexes, by clock and rate."""
    child.WORK.mkdir(parents=True, exist_ok=True)
    library = empty.library(SOURCE)
    if library is None:
        return [Row("calls that wait are not ended", "not measured: no C compiler", None)]
    words = [str(TARGET), str(library), str(options.samples // 20 if options.quick else options.samples)]
    clocks, rows = shares.able(options)
    alone: Kinds = child.run(shares.plain(options, *words)).says["kinds"]
    options.note(f"alone: {_described(alone)}")
    for clock in clocks:
        for rate in options.rates:
            with child.folder() as folder:
                file = folder / "calls.spprof"
                kinds: Kinds = child.run(shares.command(options, clock, rate, file, *words)).says["kinds"]
                tick_stats = child.ask([options.python.path, child.TARGETS / "reading.py", file])["tick_stats"]
            options.note(f"{clock}, {rate:,} Hz: {_described(kinds)}")
            rows += _rows(f"{clock}, {rate:,} Hz{options.where}", kinds, alone, tick_stats)
    return rows


def _sum(kinds: Kinds, name: str) -> int:
    return sum(one[name] for one in kinds.values())


def _late_ms(one: Dict[str, int]) -> float:
    """Mean of the calls that waited to their end."""
    return one["late_ns"] / max(1, one["calls"] - one["ended"] - one["early"] - one["failed"]) / 1e6


def _described(kinds: Kinds) -> str:
    parts = []
    for kind, one in kinds.items():
        bad = ", ".join(f"{one[what]} {what}" for what in ("ended", "early", "failed"))
        parts.append(f"{kind} {one['calls']:,} calls, {bad}, {_late_ms(one):.3f} ms late (most {one['latest_ns'] / 1e6:.1f})")
    return "; ".join(parts)


def _rows(title: str, kinds: Kinds, alone: Kinds, tick_stats: Dict[str, Any]) -> Iterator[Row]:
    ended = {what: _sum(kinds, what) for what in ("ended", "early", "failed")}
    which = ", ".join(f"{kind} {one['ended'] + one['early']}" for kind, one in kinds.items() if one["ended"] + one["early"])
    yield Row(
        f"{title}: 0 of {_sum(kinds, 'calls'):,} calls ended by a tick or early",
        f"{ended['ended']} ended with EINTR, {ended['early']} early, {ended['failed']} failed"
        + (f" ({which})" if which else "")
        + f"; alone {_sum(alone, 'ended')}, {_sum(alone, 'early')}, {_sum(alone, 'failed')}; {tick_stats['taken']:,} samples",
        not any(ended.values()),
        {"kinds": kinds, "alone": alone, "tick_stats": tick_stats},
    )
    later = {kind: _late_ms(one) - _late_ms(alone[kind]) for kind, one in kinds.items()}
    yield Row(
        f"{title}: timeouts move by less than {MOST_LATER_MS} ms in the mean",
        ", ".join(f"{kind} {ms:+.3f} ms" for kind, ms in later.items()),
        max(ms for kind, ms in later.items() if kind != "recv") < MOST_LATER_MS,  # whose timeouts are 4 ms apart themselves
    )
