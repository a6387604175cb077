"""A profile as data: its samples, threads, functions and tick stats, from columns that somebody else read.

Columns stay columns: nothing here makes a Python object for each sample unless the samples are iterated.
"""

from __future__ import annotations

import errno
import os
from array import array
from itertools import compress
from typing import Any, Callable, Collection, Dict, Iterator, List, Optional, Sequence, Tuple, Type, TypeVar

from ..errors import BadOption
from . import aggregation, intervals, spans, sums, tasks, types, waits
from .layout import Columns, changed, column
from .patterns import is_like
from .records import COARSE, KERNEL, OFF_CPU, Frame, FunctionRow, Marker, NativeCall, Sample, Thread, Total
from .sums import Sums
from .tree import Tree
from .types import SampleType

TYPE_CHECKING = False  # see __init__: what a run without exact counts does not need
if TYPE_CHECKING:
    from . import blame
    from .calls import Calls
    from .exceptions import Exceptions
    from .hot import HotCalls
    from .imports import Import
    from .line_counts import LineCounts
    from .requests import Request
    from .specialization import Unspecialized
    from .times import Times

_CACHED_STACKS = 1 << 16
_UNKNOWN = bytes(flags & (KERNEL | COARSE) != 0 and not flags & OFF_CPU for flags in range(256))  # see ProfileData.whole
Data = TypeVar("Data", bound="ProfileData")


_WHY_NOT_WRITTEN = {
    os.strerror(errno.EFBIG): "the limit on the size of files was reached (ulimit -f)",
    os.strerror(getattr(errno, "EDQUOT", errno.ENOSPC)): "the disk quota is used up",
    os.strerror(errno.ENOSPC): "the disk is full",
    os.strerror(errno.EIO): "the disk failed",
}


def _stopped(error: str, ticks: int, more: str) -> str:
    """Why a recording stopped before the program: a write failed with this error."""
    why = _WHY_NOT_WRITTEN.get(error, error)
    return (
        f"the recording stopped early: {why}. It holds what was written until then; {ticks:,}{more} ticks are lost (not_written)"
    )


class ProfileData:
    """A profile's columns and all that follows from them. Knows no file: `spprof.Profile` adds reading and writing."""

    path: Optional[str] = None

    def __init__(self) -> None:
        self.part_of: Optional[ProfileData] = None
        self.joins: Sequence[ProfileData] = ()  # those that this one has all of
        self._loaded: Optional[Columns] = None
        self._sums: Optional[Dict[int, Sums]] = None
        self._stack_squares: Optional[Dict[int, Dict[int, float]]] = None
        self._wholes: Dict[Optional[str], intervals.Whole] = {}
        self._stacks: Dict[int, Tuple[Frame, ...]] = {}
        self._reasons: Optional[Sequence[int]] = None
        self._frames: Dict[int, Frame] = {}

    @classmethod
    def of_columns(cls: Type[Data], columns: Columns, part_of: Optional[ProfileData] = None) -> Data:
        """A profile that is no file, but columns as another profile's `_columns` gives them. `part_of`: what it is a part of."""
        profile = cls.__new__(cls)
        ProfileData.__init__(profile)
        profile._loaded, profile.part_of = columns, part_of
        return profile

    def __repr__(self) -> str:
        """What it is, without reading the file for it."""
        name = f"{type(self).__name__} {os.path.basename(self.path)}" if self.path else type(self).__name__
        if self._loaded is None:
            return f"<{name}, not read yet>"
        whole = self.whole()
        amount = f"{whole.weight / 1e9:.2f} s of" if self.unit == "nanoseconds" else f"{whole.weight:,}"
        return f"<{name}: {amount} {types.measured(self.header)}, {whole.ticks:,} samples, {len(self.threads)} threads>"

    def _columns(self) -> Columns:
        assert self._loaded is not None
        return self._loaded

    def _collections(self) -> List[Marker]:
        """Runs of the garbage collector, where the columns do not have them."""
        return []

    def _ended_requests(self) -> List[Request]:
        """Requests, where the columns do not have them."""
        return []

    @property
    def origin(self) -> ProfileData:
        """The whole profile if this is a part of one, or of a part; else this one."""
        return self if self.part_of is None else self.part_of.origin

    def raw(self) -> bytes:
        """The bytes of the .spprof file; those of the whole if this is a part, none if it is no file."""
        return b"" if self.part_of is None else self.part_of.raw()

    def raws(self) -> List[bytes]:
        """The bytes of each file that it is made of."""
        origin = self.origin
        return [raw for each in origin.joins for raw in each.raws()] if origin.joins else [origin.raw()]

    def process_of(self, thread: int) -> Dict[str, Any]:
        """The header of a thread's process."""
        joins = self.origin.joins
        return joins[self._columns()["threads"][thread]["process"]].header if joins else self.header

    @property
    def header(self) -> Dict[str, Any]:
        """What was known at the start: pid, python, argv, mode, clock, interval_ns, start_ns, ... (docs/file-format.md)."""
        header: Dict[str, Any] = self._columns()["header"]
        return header

    @property
    def stats(self) -> Dict[str, Any]:
        """The last tick stats of `spprof.stats()`. {} if none were written: the program died first, or has just begun."""
        stats: Dict[str, Any] = self._columns()["tick_stats"]
        return stats

    @property
    def end(self) -> Optional[Dict[str, Any]]:
        """When (`stop_ns`) and why (`reason`) the profile ended; None if it was not finished (see `unfinished`)."""
        end: Optional[Dict[str, Any]] = self._columns()["end"]
        return end

    @property
    def warning(self) -> Optional[str]:
        """Why the file was not read to its end, or not written to its end as far as `spprof.stop` knows; or None."""
        warning: Optional[str] = self._columns()["warning"]
        return warning

    @property
    def unfinished(self) -> Optional[str]:
        """What is missing from the file and why, in words; None if it is complete."""
        if self._columns().get("being_written"):
            return "the program still runs, and the profile is still being written"
        end = self.end or {}
        if end.get("write_error"):
            return _stopped(os.strerror(end["write_error"]), end.get("unwritten", 0), "")
        if self.stats.get("write_error") and (self.end is None or end.get("cut")):  # the program was killed later
            return _stopped(self.stats["write_error"], self.stats.get("losses", {}).get("not_written", 0), " and more")
        if self.warning is None and self.end is None:
            return "the program did not finish the profile; up to 100 ms are missing"
        if self.warning is None and end.get("reason") == "seccomp":
            return "the program put a filter of system calls (seccomp) on that allows not all of the profiler's; it ends there"
        if self.warning is None and end.get("cut") and end.get("reason") == "exit":
            return (
                "the end of the profile is missing: the program left by a bare system call (up to 100 ms are missing), or "
                "the file could not be written (ulimit -f, a full disk)"
            )
        if self.warning is None and end.get("cut") and end.get("reason") != "exec":
            return f"the program had no time to finish the profile ({end.get('reason')}); up to 100 ms are missing"
        return self.warning

    @property
    def markers(self) -> List[Marker]:
        """Events other than samples, by time: runs of the garbage collector."""
        columns = self._columns()
        if "markers" not in columns:
            columns["markers"] = self._collections()
        return columns["markers"]

    @property
    def requests(self) -> List[Request]:
        """The requests that began and ended meanwhile, by beginning: those of `spprof.request` and of the web middlewares."""
        columns = self._columns()
        if "requests" not in columns:
            columns["requests"] = self._ended_requests()
        requests: List[Request] = columns["requests"]
        return requests

    @property
    def calls(self) -> Optional[Calls]:
        """How often each function was called, by the line that called it, exactly (`spprof.start(calls=True)`); None if that was
        not counted, or the program died before it was written. A part of a profile has none: a count has no time and no thread.

            for call in profile.calls.rows:
                print(call.function.qualname, call.line, call.calls, call.resumes)"""
        columns = self._columns()
        if "calls" not in columns:
            columns["calls"] = self._counted_calls()
        return columns["calls"] if not self.header.get("part") else None

    @property
    def exceptions(self) -> Optional[Exceptions]:
        """How often exceptions of each type were raised by one line and caught by another, exactly
        (`spprof.start(exceptions=True)`); None if that was not counted, or the program died before it was written. A part of a
        profile has none.

            for row in profile.exceptions.rows:
                print(row.type, row.raised_by.qualname, row.raised_line, row.caught_line, row.number)"""
        columns = self._columns()
        if "exceptions" not in columns:
            columns["exceptions"] = self._counted_exceptions()
        return columns["exceptions"] if not self.header.get("part") else None

    @property
    def imports(self) -> Optional[List[Import]]:
        """The imports of the run with their exact times, in the order in which they began (`spprof.start(imports=True)`); None if
        they were not timed, or the program died before they were written. A part of a profile has none."""
        columns = self._columns()
        if "imports" not in columns:
            columns["imports"] = self._timed_imports()
        return columns["imports"] if not self.header.get("part") else None

    def _timed_imports(self) -> Optional[List[Import]]:
        """The imports, where the columns do not have them."""
        return None

    @property
    def hot(self) -> Optional[HotCalls]:
        """How often those functions were called that samples showed hottest, each in a part of the run
        (`spprof.start(calls="hot")`); None if that was not counted, or the program died before it was written. A part of a
        profile has none.

            for hot in profile.hot.functions:
                print(hot.function.qualname, hot.calls, hot.counted_ns, hot.per_call_ns)"""
        columns = self._columns()
        if "hot" not in columns:
            columns["hot"] = self._counted_hot_calls()
        return columns["hot"] if not self.header.get("part") else None

    def _counted_hot_calls(self) -> Optional[HotCalls]:
        """The counts of the hottest functions' calls, where the columns do not have them."""
        return None

    def _counted_exceptions(self) -> Optional[Exceptions]:
        """The exact counts of exceptions, where the columns do not have them."""
        return None

    def _counted_calls(self) -> Optional[Calls]:
        """The exact counts of calls, where the columns do not have them."""
        return None

    @property
    def times(self) -> Optional[Times]:
        """How long each call of the chosen functions took, exactly (`spprof.start(time=...)`); None if none was timed, or the
        program died before it was written. A part of a profile has none.

            for timed in profile.times.functions:
                print(timed.function.qualname, timed.calls, timed.wall.quantile(0.99), timed.wall.max_ns)"""
        columns = self._columns()
        if "times" not in columns:
            columns["times"] = self._timed_calls()
        return columns["times"] if not self.header.get("part") else None

    def _timed_calls(self) -> Optional[Times]:
        """The exact times of calls, where the columns do not have them."""
        return None

    @property
    def line_counts(self) -> Optional[LineCounts]:
        """How often each line of the chosen functions ran, and which ways their branches went, exactly
        (`spprof.start(lines=...)`); None if that was not counted, or the program died before it was written. A part of a profile
        has none.

            for counted in profile.line_counts.functions:
                print(counted.function.qualname, counted.lines, counted.branches)"""
        columns = self._columns()
        if "line_counts" not in columns:
            columns["line_counts"] = self._counted_lines()
        return columns["line_counts"] if not self.header.get("part") else None

    def _counted_lines(self) -> Optional[LineCounts]:
        """The exact executions of lines, where the columns do not have them."""
        return None

    @property
    def unspecialized(self) -> Optional[Unspecialized]:
        """Which instructions CPython had not specialized, or for what does not come any more, when the run was stopped
        (`spprof.start(specialization=True)`); None if that was not asked for, or not read. A part of a profile has none.

            for one in profile.unspecialized.instructions:
                print(one.function.qualname, one.line, one.name, one.runs)"""
        columns = self._columns()
        if "unspecialized" not in columns:
            columns["unspecialized"] = self._read_unspecialized()
        return columns["unspecialized"] if not self.header.get("part") else None

    def _read_unspecialized(self) -> Optional[Unspecialized]:
        """These instructions, where the columns do not have them."""
        return None

    @property
    def label_sets(self) -> List[Dict[str, str]]:
        """The distinct sets of labels; a sample's column `label` is an index into this list. The first is the empty set."""
        sets: List[Dict[str, str]] = self._columns()["label_sets"]
        return sets

    @property
    def mode(self) -> str:
        """'cpu' or 'wall'."""
        return str(self.header.get("mode", ""))

    @property
    def unit(self) -> str:
        """What weights count: 'nanoseconds', or what another profiler's file counts ('samples', 'bytes', ...; see `readers`)."""
        return str(self.header.get("unit", "nanoseconds"))

    @property
    def sample_types(self) -> List[SampleType]:
        """What the profile has samples of. The first is what it shows; `of` gives it for another one."""
        if "source" in self.header:
            return [SampleType(str(self.header.get("value", self.unit)), self.unit, 0)]
        return [SampleType(about["name"], about["unit"], about["period"]) for about in self._listed_types()]

    def _listed_types(self) -> List[Dict[str, Any]]:
        shown = self._columns().get("shown")
        all_types = types.listed_types(self.header)
        return all_types if shown is None else [about for about in all_types if about["name"] == shown]

    def of(self: Data, name: str) -> Data:
        """The profile of one of its `sample_types`, by name: of its samples alone, which every report and format takes. `unit` is
        what its weights count then, so `weight` and the like are of that unit. Raises BadOption if it has no samples of that.

            spprof.start(events=["time", "page-faults"])
            ...
            faults = spprof.stop().of("page-faults")"""
        names = [each.name for each in self.sample_types]
        if name not in names:
            raise BadOption(f"the profile has no samples of {name!r}, but of {', '.join(names)}")
        if len(names) == 1:
            return self
        columns = self._columns()
        about = next(about for about in self._listed_types() if about["name"] == name)
        result = type(self).of_columns(changed(columns, {**types.of(columns, about), "shown": name}), self)
        result.path = self.path
        return result

    def each_type(self: Data) -> List[Data]:
        """A profile of each of its `sample_types`, the first one first."""
        return [self.of(each.name) for each in self.sample_types]

    @property
    def clock(self) -> str:
        """The clock that was used, by its name (docs/clocks.md)."""
        return str(self.stats.get("clock") or self.header.get("clock", ""))

    @property
    def interval_ns(self) -> int:
        """The requested time between two ticks."""
        return int(self.header.get("interval_ns", 0))

    @property
    def dropped_count(self) -> int:
        """The number of ticks without a sample, for any reason (`stats['losses']` lists the reasons)."""
        return int(self.stats.get("dropped", 0))

    @property
    def threads(self) -> List[Thread]:
        """All threads with the sums of their samples."""
        result = []
        for thread in self._thread_ids():
            samples, weights = self.sums_of(thread)
            totals = sum(samples.values()), sum(weights.values())
            result.append(Thread(thread, self.thread_tid(thread), self.thread_name(thread), *totals))
        return result

    def thread_tid(self, thread: int) -> int:
        """The system's id of a thread, 0 if unknown."""
        return int(self._columns()["threads"].get(thread, {}).get("tid") or 0)

    def thread_name(self, thread: int) -> str:
        """The name that `threading` knew for a thread; one without a name is called after its system id."""
        name = self._columns()["threads"].get(thread, {}).get("name")
        return str(name or f"Thread {self.thread_tid(thread) or f'#{thread}'}")

    def match_threads(self, pattern: Optional[str]) -> List[int]:
        """Ids of the threads whose name is like the pattern (`*`, `?`), or whose system id it is; all for None."""

        def matches(thread: int) -> bool:
            name = self.thread_name(thread)
            return pattern is None or pattern == str(self.thread_tid(thread)) or is_like(name, pattern)

        return [thread for thread in self._thread_ids() if matches(thread)]

    def __len__(self) -> int:
        return len(self._columns()["stack"])

    def __iter__(self) -> Iterator[Sample]:
        return self.samples()

    def samples(self) -> Iterator[Sample]:
        """Samples in the order of the file: for each thread in order of time."""
        columns = self._columns()
        names = {thread: self.thread_name(thread) for thread in self._thread_ids()}
        sets = self.label_sets
        task_names, span_names = tasks.names(columns), spans.names(columns)
        order = ("thread", "time_ns", "weight", "count", "flags", "label", "task", "span")
        for key, thread, time, weight, count, flags, label, task, span in zip(
            self.stack_keys(), *(column(columns, name) for name in order)
        ):
            rest = (sets[label], task_names[task], span_names[span])
            yield Sample(thread, names[thread], time, weight, count, self.stack(key), flags, *rest)

    def aggregate(self, thread: Optional[str] = None) -> Dict[Tuple[Frame, ...], Total]:
        """Each distinct stack (frames from root to leaf) with its samples and weight, of the threads that match a pattern."""
        samples, weights = self.stack_sums(thread)
        totals: Dict[Tuple[Frame, ...], Total] = {}
        for key in samples:  # stacks that differ only in what is hidden look the same
            stack = self.stack(key)
            known = totals.get(stack, (0, 0))
            totals[stack] = Total(known[0] + samples[key], known[1] + weights[key])
        return totals

    def functions(self, by: str = "function", thread: Optional[str] = None, only: Optional[str] = None) -> List[FunctionRow]:
        """Self and total figures of each function (`by='line'`: of each line), by self weight, the largest first.

        Recursion counts once in the totals. `thread`: a pattern, see `match_threads`. `only='python'` gives the time of native
        functions to the Python function that called them; `only='native'` leaves out what is Python, with its time.
        Raises BadOption for another `by` or `only`."""
        if by not in ("function", "line"):
            raise BadOption(f"by={by!r}: functions can be listed by 'function' or by 'line'")
        if only not in (None, "python", "native"):
            raise BadOption(f"only={only!r}: functions can be listed with only='python', only='native' or all")
        return aggregation.functions(self._columns(), self.stack_sums(thread), by, only)

    def figures(
        self, key_of: Callable[[int], Any], thread: Optional[str] = None, only: Optional[str] = None
    ) -> Dict[Any, Tuple[int, int, int, int]]:
        """Self samples, self ns, total samples and total ns of whatever `key_of` makes of a frame's id. A key that occurs several
        times in a stack counts once in the totals. `thread` and `only` are as in `functions`."""
        return aggregation.figures(self._columns(), self.stack_sums(thread), key_of, only)

    def has_big_samples(self, thread: Optional[str] = None) -> bool:
        """Whether a sample stands for so much more time than others that shares are as sure as their own samples are few."""
        whole, counts = self.whole(thread), self.column("count")
        most = intervals.BIG * whole.weight / (whole.ticks or 1)
        return any(weight > most * (count or 1) for weight, count in zip(self.column("weight"), counts))

    def function_squares(
        self, by: str = "function", thread: Optional[str] = None, only: Optional[str] = None
    ) -> Dict[Tuple[Any, ...], Tuple[float, float]]:
        """The first four fields of each row of `functions` -> what `Whole.samples_of` needs of its self and total time."""
        rows = aggregation.functions(self._columns(), self.stack_squares(thread), by, only)
        return {row[:4]: (row.self_samples, row.total_samples) for row in rows}

    def squares(
        self, key_of: Callable[[int], Any], thread: Optional[str] = None, only: Optional[str] = None
    ) -> Dict[Any, Tuple[float, float]]:
        """The same of each key of `figures`."""
        found = aggregation.figures(self._columns(), self.stack_squares(thread), key_of, only)
        return {key: (figure[0], figure[2]) for key, figure in found.items()}

    def thread_squares(self, thread: int) -> float:
        """The same of all time of a thread."""
        return sum(self._squares_of_threads().get(thread, {}).values())

    def _squares_of_threads(self) -> Dict[int, Dict[int, float]]:
        if self._stack_squares is None:
            names = ("count", "weight")
            columns = (self.column("thread"), self.stack_keys(), *map(self.column, names))
            self._stack_squares = sums.squares_by_thread(*columns)
        return self._stack_squares

    def stack_squares(self, thread: Optional[str]) -> Any:
        """As `stack_sums`, with squares for samples."""
        known, of_all = self._squares_of_threads(), self._thread_sums()
        return sums.merged((known[id], of_all[id][1]) for id in self.match_threads(thread) if id in known)  # type: ignore[misc]

    def whole(self, thread: Optional[str] = None) -> intervals.Whole:
        """All samples, or those of the threads that match a pattern. Shares and their intervals refer to it."""
        known = self._wholes.get(thread)
        if known is None:
            known = self._wholes[thread] = self.whole_of(None if thread is None else self.match_threads(thread))
        return known

    def whole_of(self, threads: Optional[Collection[int]]) -> intervals.Whole:
        """The same of the threads with these ids, or of all for None."""
        if threads is None:
            return self.whole_of_samples(None)
        matching = set(threads)
        return self.whole_of_samples([i for i, id in enumerate(self.column("thread")) if id in matching])

    def whole_of_samples(self, numbers: Optional[Sequence[int]]) -> intervals.Whole:
        """The same of these samples, by their places in the columns, or of all for None."""
        weights, counts, flags = self.column("weight"), self.column("count"), self.column("flags")
        if numbers is not None:
            weights, counts, flags = ([column[i] for i in numbers] for column in (weights, counts, flags))
        # The kernel's tick took these, or the GIL's handing over, and the program may be in step with that.
        unknown = bytes(flags).translate(_UNKNOWN)
        unknown_weight = sum(compress(weights, unknown)) if 1 in unknown else 0
        return intervals.whole(weights, counts, unknown_weight)

    def confidence_interval(self, part: int, thread: Optional[str] = None) -> Tuple[float, float]:
        """The 95 % interval (low, high), between 0 and 1, of the share that `part` is of the profile's weight, or of the
        weight of the threads that match a pattern (docs/intervals.md). (0, 1) for a profile without samples. It is as much
        wider as there is time whose samples were taken at no random instant: all of it with the clock `timer`.

            row = profile.functions()[0]
            low, high = profile.confidence_interval(row.self_weight)"""
        return self.whole(thread).share(part)[1:]

    def interval(self, part: int, thread: Optional[str] = None) -> Tuple[float, float]:
        """The old name of `confidence_interval`. Deprecated."""
        import warnings

        warnings.warn("Profile.interval() is now called confidence_interval()", DeprecationWarning, stacklevel=2)
        return self.confidence_interval(part, thread)

    def native_calls(self, thread: Optional[str] = None) -> List[NativeCall]:
        """Where Python code spends time in native code: for each Python line the native functions that ran below it (the
        leaves of stacks), the largest weight first. `thread`: a pattern, see `match_threads`. Empty without native frames."""
        return aggregation.native_calls(self._columns(), self.stack_sums(thread))

    def column(self, name: str) -> Sequence[int]:
        """One column of samples: thread, time_ns, weight, count, flags, label (see `label_sets`), or reason (see `reasons`)."""
        if name == "reason" and not self._columns().get("explained"):
            if self._reasons is None:
                self._reasons = waits.reasons(self._columns(), self.stack_keys(), self.stack_frames)
            return self._reasons
        return column(self._columns(), name)

    def charges(self, thread: Optional[str] = None, reason: int = waits.GIL) -> Iterator[Tuple[int, blame.Charge, int]]:
        """What the waits for the GIL, or for locks, of the threads that match a pattern are charged to: model/blame.py."""
        from . import blame

        columns, origin = self._columns(), self.origin
        keys = self.stack_keys()
        if "shape" in columns:  # functions were left out: the whole stacks say which threads wait to be notified
            whole_keys = origin.of(self.sample_types[0].name).stack_keys()
            keys = [whole_keys[number] for number in columns.get("numbers") or range(len(whole_keys))]
        known: Dict[int, bool] = {}

        def is_notified(sample: int) -> bool:
            stack = keys[sample]
            if stack not in known:
                known[stack] = waits.is_notified(columns, origin.stack_frames(stack))
            return known[stack]

        waiters = set(self.match_threads(thread))
        return blame.charges(
            columns,
            self.column("reason"),
            self.in_whole(origin.sample_types[0].name),
            waiters,
            self.interval_ns,
            reason,
            is_notified,
        )

    def in_whole(self, type: str) -> Columns:
        """The samples of a type in all of what this is a part of, with stacks of this one's tree: what other threads did while
        those of a part waited."""
        whole, shape = self.origin.of(type)._columns(), self._columns().get("shape")
        return whole if shape is None else changed(whole, {"keys": array("I", map(shape.__getitem__, whole["keys"]))})

    @property
    def reasons(self) -> Tuple[str, ...]:
        """The names of the numbers in the column `reason`: why a sample's thread was off the CPU (docs/waits.md)."""
        return waits.REASONS

    def stack_keys(self) -> Sequence[int]:
        """The stack of each sample: a node of `tree`."""
        keys: Sequence[int] = self._columns()["keys"]
        return keys

    def stack_sums(self, thread: Optional[str] = None) -> Sums:
        """Stack -> samples and stack -> nanoseconds, of the threads that match a pattern."""
        known = self._thread_sums()
        return sums.merged(known[id] for id in self.match_threads(thread) if id in known)

    def off_cpu_sums(self, thread: Optional[str] = None) -> Sums:
        """The same, of the samples of threads that did not run."""
        off = [flags & OFF_CPU for flags in self.column("flags")]
        columns = (self.column("thread"), self.stack_keys(), self.column("count"), self.column("weight"))
        known = sums.sums_by_thread(*(list(compress(each, off)) for each in columns))
        return sums.merged(known[id] for id in self.match_threads(thread) if id in known)

    def sums_of(self, thread: int) -> Sums:
        """The same, of one thread."""
        return self._thread_sums().get(thread, ({}, {}))

    @property
    def tree(self) -> Tree:
        """The tree of all stacks; its frames are ids, as `frame` takes them."""
        return self._columns()["tree"]

    def stack_frames(self, stack: int) -> List[int]:
        """Frame ids of a stack from root to leaf."""
        return self.tree.path(stack)

    def stack(self, stack: int) -> Tuple[Frame, ...]:
        """The frames of a stack from root to leaf. A truncated one begins with `[truncated]`; an empty one is
        `[no Python frames]`."""
        frames = self._stacks.get(stack)
        if frames is None:
            if len(self._stacks) >= _CACHED_STACKS:
                self._stacks.clear()
            frames = self._stacks[stack] = tuple(map(self.frame, self.stack_frames(stack)))
        return frames

    def frame(self, id: int) -> Frame:
        """A frame by its id."""
        frame = self._frames.get(id)
        if frame is None:
            frame = self._frames[id] = aggregation.frame_of(self._columns(), id)
        return frame

    @property
    def no_frames(self) -> int:
        """The id of the frame `[no Python frames]`."""
        return int(self._columns()["no_frames"])

    def is_placeholder(self, id: int) -> bool:
        """Whether a frame is a placeholder, not one of the program's: `[truncated]` or `[no Python frames]`."""
        columns = self._columns()
        return id in (columns["no_frames"], columns["truncation"])

    def first_line(self, id: int) -> int:
        """The first line of the function of a frame."""
        columns = self._columns()
        return int(columns["code_line"][columns["frame_code"][id]])

    def files(self) -> List[str]:
        """The files of all functions, and the libraries of native ones."""
        columns = self._columns()
        placeholders = {columns["frame_code"][columns[name]] for name in ("no_frames", "truncation")}
        return sorted({columns["strings"][file] for code, file in enumerate(columns["code_file"]) if code not in placeholders})

    def _thread_ids(self) -> List[int]:
        columns = self._columns()
        return sorted({*columns["threads"], *columns["thread"]})

    def _thread_sums(self) -> Dict[int, Sums]:
        if self._sums is None:
            columns = self._columns()
            self._sums = sums.sums_by_thread(columns["thread"], self.stack_keys(), columns["count"], columns["weight"])
        return self._sums
