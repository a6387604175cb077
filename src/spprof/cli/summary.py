"""The summary of a profile: hottest functions, waiting, account of ticks."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from ..errors import BadOption
from ..model import FunctionRow, Profile, loss_title, native_name

LITTLE_CPU = 0.5  # of the wall time: below it, a profile of CPU time does not show what the user waits for


def summary(
    profiles: Sequence[Profile],
    limit: int = 15,
    thread: Optional[str] = None,
    sort: str = "self",
    shown: Optional[str] = None,
) -> str:
    """The text that `spprof run` and `spprof report` print, of one profile or of several processes' together.

    `shown`: 'python' or 'native' as in `Profile.functions(only=)`, or 'calls' for `Profile.native_calls()`.
    Raises BadOption if no thread matches the pattern, or if native functions are asked for and the profile has none."""
    if shown in ("native", "calls") and not any(profile.header.get("native") for profile in profiles):
        raise BadOption("the profile has no native frames; take one with `spprof run --native`")
    if thread is not None and not any(profile.match_threads(thread) for profile in profiles):
        names = ", ".join(sorted({each.name for profile in profiles for each in profile.threads})) or "none at all"
        raise BadOption(f"no thread matches {thread!r}; the profile has: {names}")
    lines: List[str] = []
    for profile in profiles:
        where = f"process {profile.header.get('pid')}: " if len(profiles) > 1 else ""
        if profile.warning:
            lines.append(f"Warning: {where}{profile.warning}.")
        elif profile.end is None:
            lines.append(f"Warning: {where}the program died before the profile was closed; up to 100 ms are missing.")
    if shown == "calls":
        lines += _calls(profiles, limit, thread)
    else:
        lines += _table(profiles, limit, thread, sort, shown)
    lines += ["", *_waiting(profiles), *_account(profiles)]
    return "\n".join(lines) + "\n"


def _rows(profiles: Sequence[Profile], thread: Optional[str], only: Optional[str]) -> List[FunctionRow]:
    if len(profiles) == 1:
        return profiles[0].functions(thread=thread, only=only)
    sums: Dict[Tuple[Any, ...], List[int]] = {}
    for profile in profiles:
        for row in profile.functions(thread=thread, only=only):
            figures = sums.setdefault(row[:4], [0, 0, 0, 0])
            figures[:] = map(int.__add__, figures, row[4:])
    return sorted(
        (FunctionRow(*key, *figures) for key, figures in sums.items()), key=lambda row: (-row.self_weight_ns, row.file, row.line)
    )


def _whole(profiles: Sequence[Profile], thread: Optional[str]) -> Tuple[int, int]:
    """Samples and nanoseconds of all that is asked for."""
    sums = [profile.stack_sums(thread) for profile in profiles]
    return sum(sum(samples.values()) for samples, _ in sums), sum(sum(weights.values()) for _, weights in sums)


def _heading(profiles: Sequence[Profile], thread: Optional[str], native_ns: Optional[int]) -> str:
    samples, whole = _whole(profiles, thread)
    kind = "CPU time" if profiles[0].mode == "cpu" else "wall time"
    where = f" in threads like {thread!r}" if thread else ""
    where += f" of {len(profiles)} processes" if len(profiles) > 1 else ""
    part = "" if native_ns is None else f" {_duration(native_ns)} ({native_ns / (whole or 1):.1%}) in native functions."
    return f"{_duration(whole)} of {kind}{where}, {samples:,} samples.{part}"


def _calls(profiles: Sequence[Profile], limit: int, thread: Optional[str]) -> Iterator[str]:
    sums: Dict[Tuple[Any, ...], int] = {}
    for profile in profiles:
        for call in profile.native_calls(thread):
            sums[call[:5]] = sums.get(call[:5], 0) + call.weight_ns
    whole = _whole(profiles, thread)[1] or 1
    yield f"{_heading(profiles, thread, sum(sums.values()))} By calling Python line:"
    yield ""
    yield "    native            Python line > native function"
    order = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
    for (qualname, file, line, native, library), ns in order[:limit]:
        caller = f"{qualname} ({_short(file)}:{line})" if file else qualname
        yield f"{_duration(ns):>10} {ns / whole:>6.1%}  {caller} > {native_name(native, library)}"
    if len(order) > limit:
        yield f"{'':20}... {len(order) - limit} more (--limit)"


def _table(profiles: Sequence[Profile], limit: int, thread: Optional[str], sort: str, only: Optional[str]) -> Iterator[str]:
    rows = _rows(profiles, thread, only)
    if not rows:
        yield "No samples were taken." if only is None else f"No samples of {only} functions were taken."
        return
    whole = _whole(profiles, thread)[1] or 1
    if sort == "total":
        rows.sort(key=lambda row: (-row.total_weight_ns, -row.self_weight_ns, row.file, row.line, row.qualname))
    native = sum(row.self_weight_ns for row in rows) if only == "native" else None
    yield f"{_heading(profiles, thread, native)} By {sort} time:"
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
    if not row.line:
        return native_name(row.qualname, row.file)
    return f"{row.qualname} ({_short(row.file)}:{row.line})"


def _short(file: str) -> str:
    here = os.getcwd() + os.sep
    return file[len(here) :] if file.startswith(here) else file


def _duration(ns: int) -> str:
    if ns >= 100_000_000:
        return f"{ns / 1e9:.2f} s"
    return f"{ns / 1e6:.2f} ms"


def _waiting(profiles: Sequence[Profile]) -> Iterator[str]:
    wall = max(profile.stats.get("wall_ns", 0) for profile in profiles)
    cpu = sum(profile.stats.get("cpu_ns", 0) for profile in profiles)
    if not wall:
        return
    text = f"On CPU: {_duration(cpu)} of {_duration(wall)} wall time ({cpu / wall:.0%})."
    if profiles[0].mode == "cpu" and cpu < LITTLE_CPU * wall:
        text += " The rest was waiting: `--mode wall` shows where."
    yield text


def _account(profiles: Sequence[Profile]) -> Iterator[str]:
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
