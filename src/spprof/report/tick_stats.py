"""What a summary says below its table: waiting, clock, what became of each tick; and above it: warnings."""

from __future__ import annotations

from typing import Dict, Iterator, List, Sequence

from ..model import intervals
from ..model.counters import COUNTERS
from ..model.data import ProfileData
from ..model.records import loss_title
from .text import duration, weight_word

LITTLE_LOST = 0.01  # of the ticks: a loss that no share shows
LITTLE_UNKNOWN = 0.01  # of the time: less than chance alone has shares be off
_MOST_PIDS = 4  # that a warning names
_INTERNAL = ("calls_interrupted", "signals_not_ignored", "confined", "tasks_unknown")  # counters that only -v shows
NEARLY_ALL = 0.995  # of the time that an event is counted: what is shown as 100%
LITTLE_CPU = 0.5  # of the time elapsed: below it, a profile of CPU time does not show what the user waits for
_LITTLE_REST = 0.1  # of the time elapsed: less that a program waited is no reason to look for where
_OTHERS_NS, _OTHERS_SHARE = 200_000_000, 0.25  # CPU time of other processes that is worth a word: of all
_READY_NS, _READY_SHARE = 100_000_000, 0.1  # without a processor, of the time elapsed: less is not worth a word
_VIEWS = {"tasks": "--tasks", "gc": "--gc"}  # types of samples that have a view of their own


def warnings(profiles: Sequence[ProfileData]) -> Iterator[str]:
    """What is missing from the files."""
    pids: Dict[str, List[str]] = {}
    for profile in profiles:
        if profile.unfinished:
            pids.setdefault(profile.unfinished, []).append(str(profile.header.get("pid")))
    for what, of in pids.items():
        more = ", ..." if len(of) > _MOST_PIDS else ""
        which = f"process {of[0]}: " if len(of) == 1 else f"{len(of)} processes ({', '.join(of[:_MOST_PIDS])}{more}): "
        yield f"Warning: {which if len(profiles) > 1 else ''}{what}."


def used_by_others(profiles: Sequence[ProfileData]) -> Iterator[str]:
    """What the processes used that the program started and waited for, if they are not among the profiles. (What one used that
    began before the profile is not known.)"""
    if len(profiles) > 1 or profiles[0].header.get("begun") != "run":
        return
    used = int(profiles[0].stats.get("children_cpu_ns", 0))
    if used >= max(_OTHERS_NS, _OTHERS_SHARE * (used + on_cpu(profiles))):
        yield f"Other processes that the program started used {duration(used)} of CPU time (recorded only by --subprocesses)."


def tick_stats(profiles: Sequence[ProfileData], verbose: bool = False) -> Iterator[str]:
    """How much waiting there was, the clock, and what became of all ticks, if that matters or is asked for (`verbose`)."""
    sources = sorted({str(profile.header["source"]) for profile in profiles if "source" in profile.header})
    if sources:
        yield f"Read from another profiler's file ({', '.join(sources)}): there are no tick stats."
        headers = [profile.header for profile in profiles if "value" in profile.header]
        for values, chosen in sorted({(", ".join(header["values"]), header["value"]) for header in headers}):
            yield f"Of its values ({values}) this is {chosen}."
        return
    yield from _waiting(profiles)
    yield from _ticks(profiles, verbose)
    yield from _unknown(profiles, verbose)
    yield from _others(profiles)
    yield from _in_turns(profiles)


def _waiting(profiles: Sequence[ProfileData]) -> Iterator[str]:
    took, cpu, without = elapsed(profiles), on_cpu(profiles), ready(profiles)
    if took <= 0 or "event" in profiles[0].header:
        return
    share = f"{cpu / took:.0%}" if cpu <= took else f"{cpu / took:.2f} processors"
    text = f"On CPU: {duration(cpu)} {'of' if cpu <= took else 'in'} {duration(took)} elapsed ({share})."
    if without:
        threads = "its main thread was" if len(profiles) == 1 else "main threads were"
        text += f" For {duration(without)} {threads} ready and had no processor: the machine was busy with others."
    if profiles[0].mode == "cpu" and cpu < LITTLE_CPU * took:
        waited = took - cpu - without
        if not without:
            text += " The rest it did not run: `--mode wall` shows where."
        elif len(profiles) == 1 and waited >= _LITTLE_REST * took:
            text += f" The rest, {duration(waited)}, it waited: `--mode wall` shows where."
    yield text


def ready(profiles: Sequence[ProfileData]) -> int:
    """How long main threads were ready without a processor, in ns, if it is worth a word: of a program that had work to do, in
    CPU mode. In wall mode it is a reason as others are."""
    without = sum(int(profile.stats.get("first_thread_ready_ns", 0)) for profile in profiles)
    little = max(_READY_NS, _READY_SHARE * elapsed(profiles))
    return without if profiles[0].mode == "cpu" and without >= little and on_cpu(profiles) >= _READY_NS else 0


def runs_little(profiles: Sequence[ProfileData]) -> bool:
    """Whether these are profiles of CPU time of a program that waited for most of the time."""
    if profiles[0].mode != "cpu" or "event" in profiles[0].header:
        return False
    return on_cpu(profiles) < LITTLE_CPU * (elapsed(profiles) - (ready(profiles) if len(profiles) == 1 else 0))


def on_cpu(profiles: Sequence[ProfileData]) -> int:
    """The CPU time of all of them, in ns."""
    return sum(_sampled(profile, "cpu_ns", "paused_cpu_ns") for profile in profiles)


def elapsed(profiles: Sequence[ProfileData]) -> int:
    """The time in which any of them was recorded, in ns: of processes one after the other that of all, of those at once it is
    there once."""
    took = [_sampled(profile, "wall_ns", "paused_ns") for profile in profiles]
    began = [int(profile.header.get("start_unix_ns") or 0) for profile in profiles]
    if 0 in began:
        return max(took)
    total, until = 0, 0
    for start, length in sorted(zip(began, took)):
        total += max(0, start + length - max(start, until))
        until = max(until, start + length)
    return total


def _sampled(profile: ProfileData, whole: str, paused: str) -> int:
    """Of a time of the run what was not before --delay, nor between pause and resume."""
    return int(profile.stats.get(whole, 0)) - int(profile.stats.get(paused, 0))


def _ticks(profiles: Sequence[ProfileData], verbose: bool) -> Iterator[str]:
    yield _pace(profiles)
    stats_of_all = [profile.stats for profile in profiles if profile.stats]
    if len(stats_of_all) < len(profiles):
        yield (
            "Ticks: the tick stats were not written." if not stats_of_all else "Ticks: not all processes wrote their tick stats."
        )
    if not stats_of_all:
        return
    expected = sum(stats.get("expected", 0) for stats in stats_of_all)
    parts = [(sum(stats.get(key, 0) for stats in stats_of_all), key) for key in ("taken", "repeated")]
    reasons = {reason: None for stats in stats_of_all for reason in stats.get("losses", {})}
    parts += [(sum(stats.get("losses", {}).get(reason, 0) for stats in stats_of_all), loss_title(reason)) for reason in reasons]
    missing = expected - sum(number for number, _ in parts)
    parts.append((missing, "not accounted for (a bug: please report it)"))
    lost = expected - sum(number for number, _ in parts[:2])
    if verbose or missing:
        shown = " + ".join(f"{number:,} {title}" for number, title in parts if number or title == "taken")
        yield f"Ticks: {expected:,} expected = {shown}."
    elif lost > LITTLE_LOST * expected:
        yield f"Lost: {lost / expected:.1%} of the samples that were to be taken (-v says why)."
    for key, line in COUNTERS.items():
        number = sum(stats.get(key, 0) for stats in stats_of_all)
        if number and line and (verbose or key not in _INTERNAL):
            yield line.format(number=number, max_depth=profiles[0].header.get("max_depth"))


def _pace(profiles: Sequence[ProfileData]) -> str:
    """What makes ticks, and how many."""
    weight = sum(sum(profile.column("weight")) for profile in profiles)
    ticks = sum(sum(profile.column("count")) for profile in profiles)
    if "event" in profiles[0].header:
        event = profiles[0].sample_types[0]
        real = f", {weight / ticks:,.0f} really" if ticks else ""
        user = " Those that arise in the kernel are not counted: a user may not." if profiles[0].header.get("user") else ""
        if event.period == 1 and not profiles[0].header.get("grows"):
            return f"Event: {event.name}, a sample for each.{user}"
        more = " or more" if profiles[0].header.get("grows") else ""
        return f"Event: {event.name}, a sample for {event.period:,}{more} asked{real}.{user}"
    interval = profiles[0].interval_ns
    asked = 1e9 / interval if interval else 0
    real = f", {ticks * 1e9 / weight:,.0f} Hz real" if weight else ""
    return f"Clock: {', '.join(sorted({profile.clock for profile in profiles}))}, {asked:,.0f} Hz asked{real}."


def _others(profiles: Sequence[ProfileData]) -> Iterator[str]:
    """Which other samples there are."""
    others = sorted({each.name for profile in profiles for each in profile.sample_types[1:]})
    if others:
        view = _VIEWS.get(others[0], f"--type {others[0]}")
        yield f"There are samples of {', '.join(others)} too: `spprof report {view}`."


def _in_turns(profiles: Sequence[ProfileData]) -> Iterator[str]:
    """Which events shared the processor's counters with others, so that their numbers are estimates."""
    for name in dict.fromkeys(each.name for profile in profiles for each in profile.sample_types):
        stats = [profile.stats.get("events", {}).get(name, {}) for profile in profiles]
        enabled, running = (sum(each.get(key, 0) for each in stats) for key in ("enabled_ns", "running_ns"))
        if running < NEARLY_ALL * enabled:
            share = f"{running / enabled:.0%}"
            yield f"Shared: {name} had a counter of the processor for {share} of the time; numbers are scaled to all of it."


def _unknown(profiles: Sequence[ProfileData], verbose: bool) -> Iterator[str]:
    """That intervals are wider, or none are shown; why, and what to do."""
    whole = intervals.together(profile.whole() for profile in profiles)
    clocks = {profile.clock for profile in profiles if profile.whole().unknown_weight}
    if whole.unknown_share < (LITTLE_UNKNOWN if clocks <= {"signal"} else 1e-9):
        return
    effect = "intervals are that much wider" if whole.unknown_share <= intervals.MOST_UNKNOWN else "shares have no error bar (±?)"
    what = weight_word(profiles[0].unit)
    if not verbose:
        yield f"Not sampled at random: {whole.unknown_share:.1%} of the {what}, so {effect} (-v says why)."
        return
    took = "hand-overs of the GIL" if clocks == {"gil"} else "the kernel's own tick"
    if "signal" in clocks:
        took = "instants that the scheduler chose, or its own tick"
    if clocks == {"signal"}:
        advice = "The machine is busy, or the rate is high for it; or these threads block signals"
    elif clocks <= {"perf", "perf-trap", "signal"}:
        advice = "These threads had no better clock: they block signals, or no descriptor was left"
    elif clocks == {"gil"}:
        advice = "The clock `suspend` has none of this"
    else:
        advice = "Use `--clock signal`"
    yield (
        f"In step? {whole.unknown_share:.1%} of the {what} {'was' if what == 'time' else 'were'} sampled at {took}, which the "
        f"program may be in step with: {effect}. {advice} (docs/intervals.md)."
    )
