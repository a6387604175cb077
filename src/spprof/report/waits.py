"""`spprof report --waits`: what each thread waited for, or each value of a label (docs/waits.md)."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set, Tuple

from ..errors import BadOption
from ..model import intervals, labelled
from ..model.data import ProfileData
from ..model.intervals import Estimate, Whole
from ..model.waits import TITLES, things
from .document import document
from .tables import BY, check, check_label, heading, key_of_process, named
from .text import amount, fit, percent, readable, shown

_LEAST = 24  # columns for a name, whatever the terminal
_BY = ("thread", "process", "label")  # or the key of a label


class Wait(NamedTuple):
    """The time that a thread spent for one reason, and for one thing where it has a name ('': it has none)."""

    reason: str
    on: str
    samples: int
    ns: int
    share: Estimate  # of the time of the thread, or whose it is


class Waits(NamedTuple):
    """A thread, a process or a value of a label, and where its time went: the rows add up to its time. The longest first. `what`
    says for machines what it is, `text` for people."""

    what: Dict[str, Any]
    text: str
    whole: Whole
    rows: List[Wait]


Key = Tuple[Any, ...]


def waits(profiles: Sequence[ProfileData], thread: Optional[str] = None, by: str = "thread") -> List[Waits]:
    """Of each thread, the one with the most time first; or of what `by` says: 'process', 'label', or the key of a label. Raises
    BadOption if a profile is not of wall time, or if there is no such label."""
    check(profiles, thread, False)
    check_wall(profiles)
    if by in BY and by not in _BY:
        raise BadOption(f"--waits --by {by}: choose {', '.join(_BY)}, or a label's key")
    if by not in BY:
        check_label(profiles, by)
    wholes: Dict[Key, List[Whole]] = {}
    sums: Dict[Key, Dict[Tuple[str, str], List[float]]] = {}
    for number, profile in enumerate(profiles):
        _add(profile, number, by, set(profile.match_threads(thread)), wholes, sums)
    found = []
    for key, of_key in sums.items():
        whole = intervals.together(wholes[key])
        rows = [
            Wait(reason, on, int(samples), int(ns), whole.share(ns, squares=squares))
            for (reason, on), (samples, ns, squares) in of_key.items()
        ]
        rows.sort(key=lambda row: (-row.ns, row.reason, row.on))
        found.append(Waits(*named(by, key, False, len(profiles) > 1), whole, rows))
    return sorted(found, key=lambda one: (-one.whole.weight, one.text))


def check_wall(profiles: Sequence[ProfileData]) -> None:
    """Raises BadOption if a profile is not of wall time, or another profiler's: that does not say what threads did."""
    foreign = next((profile.header["source"] for profile in profiles if "source" in profile.header), None)
    if foreign is not None:
        raise BadOption(f"why threads wait is not in another profiler's file ({foreign})")
    if any(profile.mode != "wall" for profile in profiles):
        raise BadOption("threads that wait were not sampled; take a profile with `spprof run --mode wall`")


def _add(
    profile: ProfileData,
    number: int,
    by: str,
    threads: Set[int],
    wholes: Dict[Key, List[Whole]],
    sums: Dict[Key, Dict[Tuple[str, str], List[float]]],
) -> None:
    """Adds a profile's samples to the things that they belong to."""
    names, reasons = things(profile._columns()), profile.reasons
    whose, keys = _whose(profile, number, by)
    places: Dict[Key, List[int]] = {}
    columns = ("thread", "reason", "waits_on", "count", "weight")
    for at, (id, reason, on, count, weight) in enumerate(zip(*map(profile.column, columns))):
        if id not in threads:
            continue
        key = keys[whose[at]]
        places.setdefault(key, []).append(at)
        known = sums.setdefault(key, {}).setdefault((reasons[reason], names[on]), [0, 0, 0.0])
        known[0] += count
        known[1] += weight
        known[2] += weight * weight / (count or 1)
    for key, of_key in places.items():
        wholes.setdefault(key, []).append(profile.whole_of_samples(of_key))


def _whose(profile: ProfileData, number: int, by: str) -> Tuple[Sequence[int], Dict[int, Key]]:
    """A number for each sample, and what the numbers mean: keys as `named` of tables.py has them."""
    if by == "thread":
        pid = profile.header.get("pid")
        return profile.column("thread"), {each.id: (each.name, each.tid, number, each.id, pid) for each in profile.threads}
    if by == "process":
        return bytes(len(profile)), {0: key_of_process(profile, number)}
    numbers, sets = labelled.label_sets(profile._columns(), (by,))
    chosen = (each.items() if by == "label" else ((name, each[name]) for name in (by,) if name in each) for each in sets)
    return numbers, {id: (tuple(sorted(pairs)),) for id, pairs in enumerate(chosen)}


def text(
    profiles: Sequence[ProfileData], limit: int = 15, thread: Optional[str] = None, width: int = 160, by: str = "thread"
) -> str:
    """The table: a block for each thread."""
    profiles = list(map(readable, profiles))
    found = waits(profiles, thread, by)
    lines = [heading(profiles, thread, profiles[0].whole(thread)) if len(profiles) == 1 else f"{len(profiles)} processes."]
    for one in found:
        whole = one.whole.weight
        lines += ["", f"{amount(whole, 'nanoseconds', whole):>10}  {one.text}"]
        for row in one.rows[:limit]:
            figures = f"{amount(row.ns, 'nanoseconds', one.whole.weight):>10} {percent(row.share, one.whole.is_known)}"
            what = TITLES[row.reason] + (f": {shown(row.on)}" if row.on else "")
            lines.append(f"{figures}  {fit(what, max(_LEAST, width - len(figures) - 2))}")
        if len(one.rows) > limit:
            rest = sum(row.ns for row in one.rows[limit:])
            lines.append(f"{amount(rest, 'nanoseconds', one.whole.weight):>10} {'':>12}  {len(one.rows) - limit} more (--limit)")
    reasons = {row.reason for one in found for row in one.rows}
    if "unknown" in reasons and reasons <= {"running", "unknown"}:
        lines += ["", "Why threads waited is unknown: this system does not say it, or may not (docs/waits.md)."]
    return "\n".join(lines) + "\n"


def as_json(profiles: Sequence[ProfileData], limit: Optional[int], thread: Optional[str] = None, by: str = "thread") -> str:
    """The same for programs."""
    found = waits(profiles, thread, by)
    rows = [
        {
            **one.what,
            "reason": row.reason,
            "on": row.on,
            "samples": row.samples,
            "ns": row.ns,
            "share": row.share.value,
            "share_interval": [row.share.low, row.share.high],
        }
        for one in found
        for row in one.rows[:limit]
    ]
    more = sum(len(one.rows) for one in found) - len(rows)
    return document("waits", {"rows": rows, "more": more})
