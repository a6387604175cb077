"""`spprof report --gc`: which lines triggered garbage collections, what they took and what they freed."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import Deque, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..errors import BadOption
from ..model.data import ProfileData
from ..model.records import Marker, Sample
from .document import document, limited
from .text import amount, fit, place, readable

_LEAST = 24  # columns for a name, whatever the terminal


class Triggered(NamedTuple):
    """The collections that one line triggered ('' and 0: nobody knows which). `generations`: how many of each."""

    qualname: str
    file: str
    line: int
    collections: int
    ns: int
    longest_ns: int
    collected: int
    uncollectable: int
    generations: Dict[int, int]


def triggered(profiles: Sequence[ProfileData]) -> List[Triggered]:
    """By line, the longest first. Raises BadOption if a profile has no stacks of collections."""
    found: Dict[Tuple[str, str, int], List[Marker]] = defaultdict(list)
    for profile in profiles:
        if not any(each.name == "gc" for each in profile.sample_types):
            raise BadOption("garbage collections were not sampled; take a profile with `spprof run --event time --event gc`")
        for marker, sample in _joined(profile):
            found[_place(sample)].append(marker)
    rows = [
        Triggered(
            *where,
            len(runs),
            sum(run.duration_ns for run in runs),
            max(run.duration_ns for run in runs),
            sum(run.data["collected"] for run in runs),
            sum(run.data["uncollectable"] for run in runs),
            dict(sorted(Counter(run.data["generation"] for run in runs).items())),
        )
        for where, runs in found.items()
    ]
    return sorted(rows, key=lambda row: (-row.ns, row[:3]))


def _joined(profile: ProfileData) -> Iterator[Tuple[Marker, Optional[Sample]]]:
    """Each collection with its sample: of the same thread, in the same order, and of just its time."""
    samples: Dict[int, Deque[Sample]] = defaultdict(deque)
    for sample in profile.of("gc").samples():
        samples[sample.thread].append(sample)
    for marker in profile.markers:
        if marker.name == "gc":
            waiting = samples[marker.thread]
            at = next((i for i, sample in enumerate(waiting) if sample.weight == marker.duration_ns), None)
            for _ in range(at or 0):  # their collections are missing, as of a file that was cut
                waiting.popleft()
            yield marker, None if at is None else waiting.popleft()


def _place(sample: Optional[Sample]) -> Tuple[str, str, int]:
    """The innermost Python function and its line. There are no native frames."""
    if sample is None or not sample.frames or not sample.frames[-1].line:
        return "", "", 0
    return sample.frames[-1].qualname, sample.frames[-1].file, sample.frames[-1].line


def collections(profiles: Sequence[ProfileData], limit: int = 15, width: int = 160) -> str:
    """The text."""
    rows = triggered(list(map(readable, profiles)))
    number, freed = sum(row.collections for row in rows), sum(row.collected for row in rows)
    ns = sum(row.ns for row in rows)
    took = amount(ns, "nanoseconds")
    lines = [f"{number:,} garbage collections took {took} and freed {freed:,} objects. By the line that triggered them:", ""]
    if rows:
        lines.append("  collections       time    longest  objects freed  of generations  line")
    for row in rows[:limit]:
        generations = ", ".join(f"{generation}: {n:,}" for generation, n in row.generations.items())
        times = f"{amount(row.ns, 'nanoseconds', ns):>10} {amount(row.longest_ns, 'nanoseconds', ns):>10}"
        figures = f"{row.collections:>13,} {times} {row.collected:>14,}  {generations:<14}"
        name = place(*row[:3]) if row.line else "[unknown]"
        lines.append(f"{figures}  {fit(name, max(_LEAST, width - len(figures) - 2))}")
    if len(rows) > limit:
        lines.append(f"{'':68}... {len(rows) - limit} more (--limit)")
    return "\n".join(lines) + "\n"


def as_json(profiles: Sequence[ProfileData], limit: Optional[int]) -> str:
    """The same for programs."""
    return document("gc", limited("rows", [row._asdict() for row in triggered(profiles)], limit))
