"""What a summary says below its table: waiting, clock, what became of each tick; and above it: warnings."""

from __future__ import annotations

from typing import Iterator, Sequence

from ..model import Profile, loss_title
from .text import duration

LITTLE_CPU = 0.5  # of the wall time: below it, a profile of CPU time does not show what the user waits for


def warnings(profiles: Sequence[Profile]) -> Iterator[str]:
    """What is missing from the files."""
    for profile in profiles:
        where = f"process {profile.header.get('pid')}: " if len(profiles) > 1 else ""
        if profile.warning:
            yield f"Warning: {where}{profile.warning}."
        elif profile.end is None:
            yield f"Warning: {where}the program died before the profile was closed; up to 100 ms are missing."


def account(profiles: Sequence[Profile]) -> Iterator[str]:
    """How much waiting there was, the clock, and what became of all ticks."""
    sources = sorted({str(profile.header["source"]) for profile in profiles if "source" in profile.header})
    if sources:
        yield f"Read from another profiler's file ({', '.join(sources)}): there is no account of ticks."
        return
    yield from _waiting(profiles)
    yield from _ticks(profiles)


def _waiting(profiles: Sequence[Profile]) -> Iterator[str]:
    wall = max(profile.stats.get("wall_ns", 0) for profile in profiles)
    cpu = sum(profile.stats.get("cpu_ns", 0) for profile in profiles)
    if not wall:
        return
    text = f"On CPU: {duration(cpu)} of {duration(wall)} wall time ({cpu / wall:.0%})."
    if profiles[0].mode == "cpu" and cpu < LITTLE_CPU * wall:
        text += " The rest was waiting: `--mode wall` shows where."
    yield text


def _ticks(profiles: Sequence[Profile]) -> Iterator[str]:
    interval = profiles[0].interval_ns
    asked = 1e9 / interval if interval else 0
    weight = sum(sum(profile.column("weight_ns")) for profile in profiles)
    ticks = sum(sum(profile.column("count")) for profile in profiles)
    real = f", {ticks * 1e9 / weight:,.0f} Hz real" if weight else ""
    yield f"Clock: {', '.join(sorted({profile.clock for profile in profiles}))}, {asked:,.0f} Hz asked{real}."
    accounts = [profile.stats for profile in profiles if profile.stats]
    if len(accounts) < len(profiles):
        yield "Ticks: the account was not written." if not accounts else "Ticks: not all processes wrote their account."
    if not accounts:
        return
    expected = sum(stats.get("expected", 0) for stats in accounts)
    parts = [(sum(stats.get(key, 0) for stats in accounts), key) for key in ("taken", "repeated")]
    reasons = {reason: None for stats in accounts for reason in stats.get("losses", {})}
    parts += [(sum(stats.get("losses", {}).get(reason, 0) for stats in accounts), loss_title(reason)) for reason in reasons]
    missing = expected - sum(number for number, _ in parts)
    parts.append((missing, "not accounted for (a bug: please report it)"))
    shown = " + ".join(f"{number:,} {title}" for number, title in parts if number or title == "taken")
    yield f"Ticks: {expected:,} expected = {shown}."
    truncated = sum(stats.get("truncated", 0) for stats in accounts)
    if truncated:
        yield f"Truncated: {truncated:,} stacks deeper than {profiles[0].header.get('max_depth')} (--max-depth)."
    unpaired = sum(stats.get("native_unpaired", 0) for stats in accounts)
    if unpaired:
        yield f"Native: {unpaired:,} stacks without native frames, which did not fit the Python frames."
    for stats in accounts:
        if stats.get("write_error"):
            yield f"Warning: the file is incomplete: {stats['write_error']}."
