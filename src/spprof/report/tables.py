"""The rows that `spprof report` shows: functions, lines, files, threads or labels; of one profile or of several together."""

from __future__ import annotations

from operator import add
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

from ..errors import BadOption
from ..model import hot as hottest
from ..model import intervals, labelled
from ..model.calls import Calls, summed, together
from ..model.data import ProfileData
from ..model.hot import HotCalls, HotFunction
from ..model.intervals import Estimate, Whole
from ..model.joining import title_of
from ..model.types import measured
from . import missing
from .paths import short
from .text import amount, files_of, place, shown, weight_word

BY = ("function", "line", "file", "thread", "process", "label")  # or the key of a label
_ON_STACKS = BY[:3]  # these have self and total time

FEW = 10  # samples: a row that rests on fewer says so


class Row(NamedTuple):
    """`what` identifies it for machines, `text` for people. A thread, process or label has no self time: it is its total."""

    what: Dict[str, Any]
    text: str
    self_samples: int
    self_weight: int
    total_samples: int
    total_weight: int
    self_squares: float = 0.0  # see `Whole.samples_of`; 0 where no sample is big
    total_squares: float = 0.0
    calls: Optional[int] = None  # exact counts, where calls were counted; None: not of this function
    resumes: int = 0
    hot: Optional[HotFunction] = None  # it was counted in a part of the run only: `calls` is an estimate

    def times(self, alone: bool) -> List[Tuple[int, float]]:
        """Its times with their squares: its own and that with what it calls; `alone`: that only."""
        total = (self.total_weight, self.total_squares)
        return [total] if alone else [(self.self_weight, self.self_squares), total]

    @property
    def few(self) -> str:
        """` [3 samples]` of a row that rests on few big ones; else nothing."""
        number = round(self.total_weight**2 / self.total_squares) if self.total_squares else FEW
        return f" [{number} sample{'s' if number != 1 else ''}]" if number < FEW else ""


class Table(NamedTuple):
    """Rows in order, and all that shares are shares of. `by`: what a row is; `sort`: 'self', 'total' or 'calls'; `only`: see
    `Profile.functions`. `counted`: what was counted of calls, if rows have that."""

    profiles: Sequence[ProfileData]
    thread: Optional[str]
    by: str
    sort: str
    only: Optional[str]
    whole: Whole
    rows: List[Row]
    counted: Optional[Calls] = None
    hot: Optional[HotCalls] = None  # the same, of the hottest functions only

    @property
    def has_calls(self) -> bool:
        """Whether rows say how often functions were called."""
        return self.counted is not None or self.hot is not None

    def per_call(self, row: Row) -> Optional[Estimate]:
        """The sampled time of one call in ns, its own or (sorted by total time) that with what it calls; resumes are part of
        their call. None: it was not called, or nobody knows how often."""
        if row.hot is not None:  # of its windows alone, and nobody knows what functions that it calls took in these
            time, calls = (row.hot.self_ns, row.hot.squares), row.hot.calls
            known = calls and time[0] and self.sort != "total"
            return self.whole.share(time[0], squares=time[1]).times(self.whole.weight / calls) if known else None
        if not row.calls:
            return None
        time = row.times(False)[1 if self.sort == "total" else 0]
        return self.whole.share(time[0], squares=time[1]).times(self.whole.weight / row.calls)

    @property
    def alone(self) -> bool:
        """Whether a row has one time, not its own and that with what it calls."""
        return self.by not in _ON_STACKS

    @property
    def unit(self) -> str:
        """What weights count: see `Profile.unit`."""
        return self.profiles[0].unit

    @property
    def weight_word(self) -> str:
        """What a weight is of, in a word: 'time', or what the files count."""
        return weight_word(self.unit)

    def heading(self) -> str:
        """`8.31 s of CPU time, 8,310 samples. By self time:`"""
        native = sum(row.self_weight for row in self.rows) if self.only == "native" else None
        return f"{heading(self.profiles, self.thread, self.whole, native)} By {self.order}:"

    @property
    def order(self) -> str:
        """What rows are sorted by, in words."""
        sort = "calls" if self.sort == "calls" else f"{self.sort} {self.weight_word}"
        return self.by if self.alone else sort + (f" of each {self.by}" if self.by != "function" else "")


def table(
    profiles: Sequence[ProfileData],
    by: str = "function",
    thread: Optional[str] = None,
    sort: str = "self",
    only: Optional[str] = None,
) -> Table:
    """Adds up the profiles. `by`: one of `BY`, or the key of a label: its values then. Raises BadOption if there is no such
    label, if no thread matches the pattern, if native functions are asked for and the profiles have none, or if rows are to be
    sorted by calls and have none."""
    check(profiles, thread, only == "native")
    if by not in BY:
        check_label(profiles, by)
    if by not in _ON_STACKS and only is not None:
        raise BadOption("threads, processes and labels are listed with all their time: leave out --python-only and --native-only")
    sums: Dict[Tuple[Any, ...], List[Any]] = {}
    big = any(profile.has_big_samples(thread) for profile in profiles)
    for number, profile in enumerate(profiles):
        squares = _squares(profile, number, by, thread, only) if big else {}
        for key, figures in _figures(profile, number, by, thread, only):
            known = sums.setdefault(key, [0, 0, 0, 0, 0.0, 0.0])
            known[:] = map(add, known, (*figures, *squares.get(key, (0.0, 0.0))))
    foreign = "source" in profiles[0].header
    may_have_calls = by == "function" and thread is None and only != "native"
    calls, hot = (counted(profiles), _hot(profiles)) if may_have_calls else (None, None)
    if sort == "calls" and calls is None and hot is None:
        raise BadOption("nothing to sort by: " + missing.why(profiles, "calls", "counts of calls", "--calls"))
    counts = summed(calls.rows, lambda call: call.function[:4]) if calls is not None else {}
    for key in counts if sort == "calls" else ():
        sums.setdefault(key, [0, 0, 0, 0, 0.0, 0.0])
    whole = intervals.together(profile.whole(thread) for profile in profiles)
    ordered = sorted(sums.items(), key=lambda item: _order(sort, item))
    if sort == "calls":
        ordered.sort(key=lambda item: -sum(counts.get(item[0], ())))
    rows = [
        Row(*named(by, key, foreign, len(profiles) > 1), *figures)._replace(**_calls_of(key, calls, counts))
        for key, figures in ordered
    ]
    if hot is not None:
        rows = _with_hot(rows, ordered, hot)
        rows.sort(key=lambda row: -(row.calls or 0) if sort == "calls" else 0)
    return Table(profiles, thread, by, sort, only, whole, rows, calls, hot)


def counted(profiles: Sequence[ProfileData]) -> Optional[Calls]:
    """The exact counts of calls of all profiles together, if each has them."""
    each = [profile.calls for profile in profiles]
    return together([calls for calls in each if calls is not None]) if None not in each else None


def _hot(profiles: Sequence[ProfileData]) -> Optional[HotCalls]:
    """The counts of the hottest functions' calls of all profiles together, if each has them."""
    each = [profile.hot for profile in profiles]
    return hottest.together([hot for hot in each if hot is not None]) if None not in each else None


def _with_hot(rows: List[Row], ordered: Iterable[Tuple[Tuple[Any, ...], Any]], hot: HotCalls) -> List[Row]:
    """The rows, with estimates of the calls of those functions that were counted."""
    known = {each.function[:4]: each for each in hot.functions}
    found = [(row, known.get(key)) for row, (key, _) in zip(rows, ordered)]
    return [row if each is None else row._replace(calls=each.estimate(row.self_weight), hot=each) for row, each in found]


def _calls_of(key: Tuple[Any, ...], calls: Optional[Calls], counts: Dict[Any, Tuple[int, int]]) -> Dict[str, Any]:
    """Calls and resumes of a row. A Python function that was never seen to begin has 0; of others nobody knows."""
    if calls is None:
        return {}
    return dict(zip(("calls", "resumes"), counts.get(key, (0 if key[3] else None, 0))))


def _order(sort: str, item: Tuple[Tuple[Any, ...], List[Any]]) -> Tuple[Any, ...]:
    key, figures = item
    own, total = -figures[1], -figures[3]
    return (total, own, key[2:], key) if sort == "total" else (own, total, key[2:], key)


def _figures(
    profile: ProfileData, number: int, by: str, thread: Optional[str], only: Optional[str]
) -> Iterable[Tuple[Tuple[Any, ...], Sequence[int]]]:
    if by in ("function", "line"):
        return [(row[:4], row[4:]) for row in profile.functions(by, thread, only)]
    if by == "file":
        return [((file,), figures) for file, figures in profile.figures(_file_of(profile), thread, only).items()]
    matching = set(profile.match_threads(thread))
    if by == "process":
        return [
            (key_of_process(profile, number), (sum(sums[0].values()), sum(sums[1].values())) * 2)
            for sums in [profile.stack_sums(thread)]
        ]
    if by != "thread":
        return _figures_of_labels(profile, None if by == "label" else by, matching)
    pid = profile.header.get("pid")
    threads = [each for each in profile.threads if each.id in matching]
    # Two threads of one name and id stay two: of two profiles, or of one where an id came again.
    return [((each.name, each.tid, number, each.id, pid), (each.samples, each.weight) * 2) for each in threads]


def _squares(
    profile: ProfileData, number: int, by: str, thread: Optional[str], only: Optional[str]
) -> Dict[Tuple[Any, ...], Tuple[float, float]]:
    """What `Whole.samples_of` needs of each of `_figures`."""
    if by in ("function", "line"):
        return profile.function_squares(by, thread, only)
    if by == "file":
        return {(file,): squares for file, squares in profile.squares(_file_of(profile), thread, only).items()}
    matching = set(profile.match_threads(thread))
    if by == "process":
        return {key_of_process(profile, number): (sum(map(profile.thread_squares, matching)),) * 2}
    if by != "thread":
        return {key: (of[2], of[2]) for key, of in _sums_of_labels(profile, None if by == "label" else by, matching).items()}
    pid = profile.header.get("pid")
    threads = [each for each in profile.threads if each.id in matching]
    return {(each.name, each.tid, number, each.id, pid): (profile.thread_squares(each.id),) * 2 for each in threads}


def key_of_process(profile: ProfileData, number: int) -> Tuple[Any, ...]:
    """What a process is: as other keys, of a row by process."""
    return title_of(profile.header), profile.header.get("pid"), number, 0


def _file_of(profile: ProfileData) -> Callable[[int], str]:
    def file_of(id: int) -> str:
        frame = profile.frame(id)
        return frame.qualname if profile.is_placeholder(id) else frame.source or frame.file

    return file_of


def _figures_of_labels(
    profile: ProfileData, key: Optional[str], threads: Set[int]
) -> Iterable[Tuple[Tuple[Any, ...], Sequence[int]]]:
    """Of each set of labels, or of each value of one label."""
    return [(labels, figures[:2] * 2) for labels, figures in _sums_of_labels(profile, key, threads).items()]


def _sums_of_labels(profile: ProfileData, key: Optional[str], threads: Set[int]) -> Dict[Tuple[Any, ...], List[Any]]:
    """Samples, nanoseconds and squares."""
    numbers, known_sets = labelled.label_sets(profile._columns(), (key or "",))
    sets = [tuple(sorted(each.items() if key is None else ((k, v) for k, v in each.items() if k == key))) for each in known_sets]
    figures: Dict[Tuple[Any, ...], List[Any]] = {}
    for one, label, count, weight in zip(profile.column("thread"), numbers, *map(profile.column, ("count", "weight"))):
        if one in threads:
            known = figures.setdefault((sets[label],), [0, 0, 0.0])
            known[0] += count
            known[1] += weight
            known[2] += weight * weight / (count or 1)
    return figures


def check_label(profiles: Sequence[ProfileData], key: str) -> None:
    """Raises BadOption if no sample carries the label."""
    keys = sorted({key for profile in profiles for each in profile.label_sets for key in each})
    if not any(labelled.values(profile._columns(), key) for profile in profiles):
        there = f", or a label: {', '.join(keys)}" if keys else "; no sample carries a label"
        raise BadOption(f"--by {key}: choose {', '.join(BY)}{there}")


def named(by: str, key: Tuple[Any, ...], foreign: bool, several: bool) -> Tuple[Dict[str, Any], str]:
    """What a row is, for machines and for people."""
    if by == "file":
        return {"file": key[0]}, shown(short(key[0])) or "[unknown]"
    if by == "thread":
        process = f", process {key[4]}" if several and key[4] else ""
        return {"thread": key[0], "tid": key[1], "pid": key[4]}, f"{shown(key[0])} ({key[1]}{process})"
    if by == "process":
        return {"process": key[0], "pid": key[1]}, shown(key[0])
    if by not in _ON_STACKS[:2]:
        values = ", ".join(f"{name}={value}" for name, value in key[0])
        return {"labels": dict(key[0])}, shown(values) or ("[no task]" if by == labelled.TASK else "[no label]")
    if foreign and key[2] and not key[3]:  # most profilers do not say where a function begins
        text = shown(f"{key[1]} ({short(key[2])})")
    else:
        text = place(*key[1:])
    return dict(zip(("name", "qualname", "file", "line"), key)), text


def check_units(profiles: Sequence[ProfileData], combined: str) -> None:
    """Raises BadOption if the profiles count different things; says which types all of them have samples of, or which files have
    what time."""
    units = sorted({profile.unit for profile in profiles})
    if len(units) < 2:
        _check_times(profiles, combined)
        return
    common = [
        each.name
        for each in profiles[0].sample_types
        if all(each.name in {type.name for type in other.sample_types} for other in profiles)
    ]
    hint = "; all have samples of " + ", ".join(f"{name} (--type {name})" for name in common) if common else ""
    raise BadOption(f"the files count {' and '.join(units)}, which cannot be {combined}{hint}")


def _check_times(profiles: Sequence[ProfileData], combined: str) -> None:
    files: Dict[str, List[ProfileData]] = {}
    for profile in profiles:
        files.setdefault(measured(profile.header), []).append(profile)
    if "CPU time" in files and "threads' time" in files:
        which = "; ".join(f"{kind}: {files_of(files[kind])}" for kind in ("CPU time", "threads' time"))
        raise BadOption(
            f"CPU time and threads' time cannot be {combined} ({which}): waits are part of the second alone. "
            "Profile all with the same --mode"
        )


def check(profiles: Sequence[ProfileData], thread: Optional[str], native: bool) -> None:
    """Whether there is what is asked for, and can be added up."""
    check_units(profiles, "added up")
    if native and not any(profile.header.get("native") for profile in profiles):
        raise BadOption("the profile has no native frames; take one with `spprof run --native`")
    if thread is not None and not any(profile.match_threads(thread) for profile in profiles):
        names = ", ".join(sorted({each.name for profile in profiles for each in profile.threads})) or "none at all"
        raise BadOption(f"no thread matches {thread!r}; the profile has: {names}")


def heading(profiles: Sequence[ProfileData], thread: Optional[str], whole: Whole, native_ns: Optional[int] = None) -> str:
    """How much time of what kind, in how many samples."""
    where = f" in threads like {thread!r}" if thread else ""
    where += f" of {len(profiles)} processes" if len(profiles) > 1 else ""
    unit = profiles[0].unit
    part = "" if native_ns is None else f" {amount(native_ns, unit)} ({native_ns / (whole.weight or 1):.1%}) in native functions."
    if unit != "nanoseconds":
        return f"{whole.weight:,} {unit}{where}.{part}"
    return f"{amount(whole.weight, unit)} of {measured(profiles[0].header)}{where}, {whole.ticks:,} samples.{part}"
