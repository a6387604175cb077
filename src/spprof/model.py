"""A profile that was taken: its samples, threads, functions and account of ticks.

Columns stay columns: nothing here makes a Python object for each sample unless the samples are iterated.
"""

from __future__ import annotations

import json
import os
from array import array
from typing import Any, Callable, Dict, FrozenSet, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _trie, intervals
from .demangle import demangle
from .errors import BadFile, BadOption

TRUNCATED, KERNEL, STANDING, GAP, UNPAIRED = 1, 2, 4, 8, 16  # marks in Sample.flags

_UNPAIRED_NAME = "[native unpaired]"  # begins a stack that lost its native frames (docs/native-frames.md)
# Where `spprof run` and `%spprof` live. Their frames, and all that called them, are the profiler's own and not shown.
_LAUNCHERS = ("/spprof/cli/", "/spprof/integrations/ipython.py")
_CACHED_STACKS = 1 << 16
_MAGIC = b"\x89SPPROF"


class Frame(NamedTuple):
    """One Python activation. Lines count from 1 (0: unknown), columns are UTF-8 byte offsets from 0 (-1: unknown, as
    always before 3.11).

    Of a native frame `name` is the C function's and `qualname` what Python calls it, where that is known (`zlib.compress`), else
    the same; `file` is the library ('' if unknown), `line` and `end_line` are its address there (of frames with one source line:
    that of one of them), and `source` and `source_line` where it was written ('' and 0 if unknown, as always before
    `spprof symbolize`)."""

    name: str
    qualname: str
    file: str
    line: int
    end_line: int
    col: int
    end_col: int
    native: bool = False
    source: str = ""
    source_line: int = 0


def native_name(qualname: str, file: str, source: str = "", line: int = 0) -> str:
    """How a native function is shown: `deflate [libz.so.1]`, where a Python function has `(file:line)`; with its line if known,
    `deflate (deflate.c:1012) [libz.so.1]`."""
    where = f" ({os.path.basename(source)}:{line})" if source and line else ""
    return f"{qualname}{where} [{os.path.basename(file)}]" if file else qualname + where


def loss_title(reason: str) -> str:
    """A reason of loss (a key of `stats['losses']`) in words."""
    try:
        from ._core import LOSSES
    except ImportError:  # reading where none can be taken
        return reason
    return LOSSES.get(reason, reason)


class Sample(NamedTuple):
    """One sample. `frames` goes from the root (the outermost caller) to the leaf: `frames[-1]` is what was running.

    `timestamp_ns` is on the clock of `time.monotonic_ns()`; `weight_ns` is the measured time that the sample stands for;
    `count` is its ticks (more than 1 for a thread that stood still in wall mode); `flags` are marks: 1 truncated,
    2 kernel time, 4 standing, 8 native frames missing, 16 native frames left out; `labels` are those of `spprof.label`."""

    thread: int
    thread_name: str
    timestamp_ns: int
    weight_ns: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    frames: Tuple[Frame, ...]
    flags: int
    labels: Dict[str, str]


class Marker(NamedTuple):
    """Something that happened in a thread, beside the samples. `name` is `gc` for a run of the garbage collector, whose `data`
    are `generation`, `collected` and `uncollectable`. `time_ns` (its beginning) is on the clock of the samples."""

    name: str
    thread: int
    time_ns: int
    duration_ns: int
    data: Dict[str, Any]


class Thread(NamedTuple):
    """A thread of the profile: `id` counts from 0 in order of appearance, `tid` is the system's id (0: unknown)."""

    id: int
    tid: int
    name: str
    samples: int
    weight_ns: int


class FunctionRow(NamedTuple):
    """Figures of one function, or of one line of it. `line` is the function's first line, or that line. Native functions have
    their library as `file` and 0 as `line`; by line, where `spprof symbolize` found it, their source and its line."""

    name: str
    qualname: str
    file: str
    line: int
    self_samples: int
    self_weight_ns: int
    total_samples: int
    total_weight_ns: int


class Total(NamedTuple):
    """What the samples of one stack add up to."""

    samples: int
    weight_ns: int


NO_FRAMES = Frame("[no Python frames]", "[no Python frames]", "", 0, 0, -1, -1)
TRUNCATION = Frame("[truncated]", "[truncated]", "", 0, 0, -1, -1)


class NativeCall(NamedTuple):
    """Native time below one Python line: its function, file and line, the native function that ran and its library, samples and
    nanoseconds. `qualname` is `[no Python frames]` for native code that no Python code called."""

    qualname: str
    file: str
    line: int
    native: str
    library: str
    samples: int
    weight_ns: int


class _OpenFile:
    """A descriptor of our own, closed when the last profile that reads it goes."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def read(self) -> bytes:
        chunks: List[bytes] = []
        os.lseek(self.fd, 0, os.SEEK_SET)  # Windows has no pread
        while chunk := os.read(self.fd, 1 << 24):
            chunks.append(chunk)
        return b"".join(chunks)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:  # at exit `os` may be gone
        close(self.fd)


class Profile:
    """A profile. `spprof.stop()` gives one, `Profile.load(path)` reads one; the columns are read when first needed.

    `source`: a path, the bytes of a .spprof file, or an open descriptor (owned by the profile from then on)."""

    def __init__(self, source: Union[str, os.PathLike[str], bytes, int]) -> None:
        self.path: Optional[str] = None
        self._bytes: Optional[bytes] = None
        self._open: Optional[_OpenFile] = None
        if isinstance(source, bytes):
            self._bytes = source
        elif isinstance(source, int):
            self._open = _OpenFile(source)
        else:
            self.path = os.path.abspath(os.fspath(source))
        self.part_of: Optional[Profile] = None
        self._loaded: Optional[Dict[str, Any]] = None
        self._sums: Optional[Dict[int, _trie.Sums]] = None
        self._callers_of: Optional[List[int]] = None
        self._wholes: Dict[Optional[str], intervals.Whole] = {}
        self._stacks: Dict[int, Tuple[Frame, ...]] = {}
        self._frames: Dict[int, Frame] = {}

    @classmethod
    def load(cls, path: Union[str, os.PathLike[str]]) -> Profile:
        """Reads a .spprof file now, or one of another profiler (see `spprof.readers`). A damaged .spprof file is read up to
        its last good block: see `warning`.

        Raises BadFile if it is none of these, OSError if it cannot be read."""
        profile = cls(path)
        profile._columns()
        return profile

    @classmethod
    def of_columns(cls, columns: Dict[str, Any], part_of: Optional[Profile] = None) -> Profile:
        """A profile that is no file, but columns as another profile's `_columns` gives them. `part_of`: what it is a part of."""
        profile = cls(b"")
        profile._bytes, profile._loaded, profile.part_of = None, columns, part_of
        return profile

    def save(self, path: Union[str, os.PathLike[str]], format: Optional[str] = None, **options: Any) -> None:
        """Writes the profile to `path` as `format` ('html', 'speedscope', ...: docs/formats.md; by default told from the name).

        `options`: weight ('samples' or 'ns'), lines, merge_threads (bool), thread (a pattern as in `functions`), sources (bool,
        for html: the text of source files too).
        Raises BadOption for a format that does not exist or an option that it cannot follow, OSError if the file cannot be
        written."""
        from . import formats

        formats.save(self, os.fspath(path), format, formats.Options(**options))

    def raw(self) -> bytes:
        """The bytes of the .spprof file; those of the whole if this is a part."""
        if self.part_of is not None:
            return self.part_of.raw()
        if self._bytes is not None:
            return self._bytes
        if self._open is not None:
            return self._open.read()
        assert self.path is not None
        with open(self.path, "rb") as file:
            return file.read()

    @property
    def header(self) -> Dict[str, Any]:
        """What was known at the start: pid, python, argv, mode, clock, interval_ns, start_ns, ... (docs/file-format.md)."""
        header: Dict[str, Any] = self._columns()["header"]
        return header

    @property
    def stats(self) -> Dict[str, Any]:
        """The account of ticks, as `spprof.stats()` gave it last. {} if the program died before one was written."""
        stats: Dict[str, Any] = self._columns()["account"]
        return stats

    @property
    def end(self) -> Optional[Dict[str, Any]]:
        """When (`stop_ns`) and why (`reason`) the profile ended; None if the program died while it was taken."""
        end: Optional[Dict[str, Any]] = self._columns()["end"]
        return end

    @property
    def warning(self) -> Optional[str]:
        """Why reading ended before the end of the file, or None."""
        warning: Optional[str] = self._columns()["warning"]
        return warning

    @property
    def markers(self) -> List[Marker]:
        """What happened beside the samples, in order of time: runs of the garbage collector."""
        columns = self._columns()
        if "markers" not in columns:
            from ._reader import collections

            names = ("generation", "collected", "uncollectable")
            found = [
                Marker("gc", thread, time_ns, duration_ns, dict(zip(names, counts)))
                for thread, time_ns, duration_ns, *counts in collections(self.raw())
            ]
            columns["markers"] = sorted(found, key=lambda marker: marker.time_ns)
        markers: List[Marker] = columns["markers"]
        return markers

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
    def clock(self) -> str:
        """The clock that ticked: perf, perf-user or timer."""
        return str(self.stats.get("clock") or self.header.get("clock", ""))

    @property
    def interval_ns(self) -> int:
        """The time between two ticks that was asked for."""
        return int(self.header.get("interval_ns", 0))

    @property
    def dropped_count(self) -> int:
        """Ticks that gave no sample, for whatever reason (`stats['losses']` says which)."""
        return int(self.stats.get("dropped", 0))

    @property
    def threads(self) -> List[Thread]:
        """All threads, with what their samples add up to."""
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
        """The name of a thread as `threading` knew it; a nameless one is called after its system id."""
        name = self._columns()["threads"].get(thread, {}).get("name")
        return str(name or f"Thread {self.thread_tid(thread) or f'#{thread}'}")

    def match_threads(self, pattern: Optional[str]) -> List[int]:
        """Ids of the threads whose name matches the shell pattern (`*`, `?`), or whose system id it is; all for None."""
        from fnmatch import fnmatchcase

        def matches(thread: int) -> bool:
            name = self.thread_name(thread)
            return pattern is None or pattern in (name, str(self.thread_tid(thread))) or fnmatchcase(name, pattern)

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
        order = ("thread", "time_ns", "weight_ns", "count", "flags", "label")
        for key, thread, time, weight, count, flags, label in zip(self.stack_keys(), *(columns[name] for name in order)):
            yield Sample(thread, names[thread], time, weight, count, self.stack(key), flags, sets[label])

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
        columns = self._columns()

        def key_of(frame: int) -> Tuple[Any, ...]:
            code = columns["frame_code"][frame]
            line = columns["frame_line"][frame] if by == "line" else columns["code_line"][code]
            key: Tuple[Any, ...] = (*self._code_text(code), 0 if columns["code_kind"][code] else line)
            if by == "line" and frame in columns["sources"]:
                key = (*key[:2], *columns["sources"][frame])
            return key

        rows = [FunctionRow._make((*key, *figures)) for key, figures in self.figures(key_of, thread, only).items()]
        return sorted(rows, key=lambda row: (-row.self_weight_ns, -row.total_weight_ns, row.file, row.line, row.qualname))

    def figures(
        self, key_of: Callable[[int], Any], thread: Optional[str] = None, only: Optional[str] = None
    ) -> Dict[Any, Tuple[int, int, int, int]]:
        """Self samples, self ns, total samples and total ns of whatever `key_of` makes of a frame's id; for what has no frame, of
        `NO_FRAMES[:4]` and `TRUNCATION[:4]`. A key that occurs several times in a stack counts once in the totals. `thread` and
        `only` are as in `functions`."""
        columns = self._columns()
        keys: List[Any] = []
        ids: Dict[Any, int] = {}
        frame_labels = []
        for frame in range(len(columns["frame_code"])):
            key = key_of(frame)
            if key not in ids:
                ids[key] = len(keys)
                keys.append(key)
            frame_labels.append(ids[key])
        nothing, cut = len(keys), len(keys) + 1
        keys += [NO_FRAMES[:4], TRUNCATION[:4]]
        labels = [nothing, *map(frame_labels.__getitem__, columns["node_frame"][1:])]
        for launcher in columns["launchers"]:
            labels[launcher] = nothing
        if only == "python":
            labels = [labels[node] for node in self._callers()]
        sums = self.stack_sums(thread)
        figures = _trie.self_and_total(columns["node_parent"], labels, sums)
        if nothing in figures:  # the root has no parent to count it
            own = figures.pop(nothing)[:2]
            if any(own):
                figures[nothing] = (*own, *own)
        truncated = [key for key in sums[0] if key < 0]
        if truncated:
            figures[cut] = (0, 0, sum(map(sums[0].__getitem__, truncated)), sum(map(sums[1].__getitem__, truncated)))
        if only == "native":
            native = {frame_labels[frame] for frame in range(len(frame_labels)) if self._is_native(frame)}
            figures = {label: figures[label] for label in native.intersection(figures)}
        return {keys[label]: figure for label, figure in figures.items()}

    def whole(self, thread: Optional[str] = None) -> intervals.Whole:
        """All samples, or those of the threads that match a pattern: what shares are of, and what their intervals come from."""
        known = self._wholes.get(thread)
        if known is None:
            weights, counts = self.column("weight_ns"), self.column("count")
            if thread is not None:
                matching = set(self.match_threads(thread))
                chosen = [i for i, id in enumerate(self.column("thread")) if id in matching]
                weights, counts = [weights[i] for i in chosen], [counts[i] for i in chosen]
            known = self._wholes[thread] = intervals.whole(weights, counts)
        return known

    def interval(self, part_ns: int, thread: Optional[str] = None) -> Tuple[float, float]:
        """How sure a share is: the 95 % interval (low, high), between 0 and 1, of the share that `part_ns` is of the profile's
        weight, or of the weight of the threads that match a pattern (docs/intervals.md). (0, 1) of a profile without samples.

            row = profile.functions()[0]
            low, high = profile.interval(row.self_weight_ns)"""
        return self.whole(thread).share(part_ns)[1:]

    def native_calls(self, thread: Optional[str] = None) -> List[NativeCall]:
        """Where Python code spends its time in native code: of each Python line the native functions that ran below it (the
        leaves of stacks), by weight, the largest first. `thread`: a pattern, see `match_threads`. Empty without native frames."""
        columns = self._columns()
        callers, frames = self._callers(), columns["node_frame"]
        samples, weights = self.stack_sums(thread)
        figures: Dict[Tuple[Any, ...], List[int]] = {}
        for key in samples:
            node = key if key >= 0 else ~key
            if not node or node in columns["launchers"] or not self._is_native(frames[node]):
                continue
            leaf, caller = self.frame(frames[node]), callers[node]
            line = self.frame(frames[caller]) if caller and caller not in columns["launchers"] else NO_FRAMES
            figure = figures.setdefault((line.qualname, line.file, line.line, leaf.qualname, leaf.file), [0, 0])
            figure[0] += samples[key]
            figure[1] += weights[key]
        calls = [NativeCall(*key, *figure) for key, figure in figures.items()]
        return sorted(calls, key=lambda call: (-call.weight_ns, call[:5]))

    def _is_native(self, frame: int) -> bool:
        columns = self._columns()
        return bool(columns["code_kind"][columns["frame_code"][frame]])

    def _callers(self) -> List[int]:
        """Of each node itself if its frame is Python's, else the nearest above that is; 0 (the root) if none is."""
        columns = self._columns()
        if self._callers_of is None:
            kinds, codes = columns["code_kind"], columns["frame_code"]
            result = [0]
            for node, frame in enumerate(columns["node_frame"]):
                if node:
                    result.append(result[columns["node_parent"][node]] if kinds[codes[frame]] else node)
            self._callers_of = result
        return self._callers_of

    # What formats read: columns, and stacks by key (see _trie).

    def column(self, name: str) -> Sequence[int]:
        """One column of samples: thread, time_ns, weight_ns, count, flags or label (see `label_sets`)."""
        column: Sequence[int] = self._columns()[name]
        return column

    def stack_keys(self) -> Sequence[int]:
        """The key of each sample's stack."""
        keys: Sequence[int] = self._columns()["keys"]
        return keys

    def stack_sums(self, thread: Optional[str] = None) -> _trie.Sums:
        """Stack key -> samples and stack key -> nanoseconds, of the threads that match a pattern."""
        sums = self._thread_sums()
        return _trie.merged(sums[id] for id in self.match_threads(thread) if id in sums)

    def sums_of(self, thread: int) -> _trie.Sums:
        """The same, of one thread."""
        return self._thread_sums().get(thread, ({}, {}))

    def stack_frames(self, key: int) -> List[int]:
        """Frame ids from root to leaf of a stack, without the marks that `stack` adds."""
        columns = self._columns()
        parents, frames, launchers = columns["node_parent"], columns["node_frame"], columns["launchers"]
        node = key if key >= 0 else ~key
        result = []
        while node and node not in launchers:
            result.append(frames[node])
            node = parents[node]
        result.reverse()
        return result

    def stack_tree(self) -> Tuple[Sequence[int], Sequence[int], FrozenSet[int]]:
        """Parent and frame id of each node of the tree that the keys of stacks point into (0: its root, which has no frame); and
        the nodes of `spprof run` itself, which are as the root."""
        columns = self._columns()
        return columns["node_parent"], columns["node_frame"], columns["launchers"]

    def stack(self, key: int) -> Tuple[Frame, ...]:
        """The frames of a stack from root to leaf. A truncated one begins with `[truncated]`; an empty one is
        `[no Python frames]`."""
        stack = self._stacks.get(key)
        if stack is None:
            stack = tuple(map(self.frame, self.stack_frames(key))) or (NO_FRAMES,)
            if key < 0:
                stack = (TRUNCATION, *stack)
            if len(self._stacks) >= _CACHED_STACKS:
                self._stacks.clear()
            self._stacks[key] = stack
        return stack

    def frame(self, id: int) -> Frame:
        """A frame by its id."""
        frame = self._frames.get(id)
        if frame is None:
            columns = self._columns()
            line, end_line, col, end_col = (
                columns[name][id] for name in ("frame_line", "frame_end_line", "frame_col", "frame_end_col")
            )
            code = columns["frame_code"][id]
            source = columns["sources"].get(id, ("", 0))
            native = bool(columns["code_kind"][code])
            frame = self._frames[id] = Frame(*self._code_text(code), line, end_line, col, end_col, native, *source)
        return frame

    def first_line(self, id: int) -> int:
        """The first line of the function of a frame."""
        columns = self._columns()
        return int(columns["code_line"][columns["frame_code"][id]])

    def files(self) -> List[str]:
        """The files of all functions, and the libraries of native ones."""
        columns = self._columns()
        return sorted({columns["strings"][file] for file in columns["code_file"]})

    def _code_text(self, code: int) -> Tuple[str, str, str]:
        columns = self._columns()
        strings = columns["strings"]
        name, qualname = strings[columns["code_name"][code]], strings[columns["code_qualname"][code]]
        if columns["code_kind"][code]:
            name, qualname = demangle(name), demangle(qualname)
        return name, qualname, strings[columns["code_file"][code]]

    def _thread_ids(self) -> List[int]:
        columns = self._columns()
        return sorted({*columns["threads"], *columns["thread"]})

    def _thread_sums(self) -> Dict[int, _trie.Sums]:
        if self._sums is None:
            columns = self._columns()
            self._sums = _trie.sums_by_thread(columns["thread"], self.stack_keys(), columns["count"], columns["weight_ns"])
        return self._sums

    def _columns(self) -> Dict[str, Any]:
        if self._loaded is None:
            try:
                self._loaded = _load(self.raw())
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise BadFile(f"{self.path or 'the profile'}: {error}") from None
        return self._loaded


def _read(data: bytes) -> Dict[str, Any]:
    try:
        from ._core import read
    except ImportError:  # a profile can be read where none can be taken
        from ._reader import read
    return read(data)


_TYPES: Dict[Any, str] = {
    "I": "code_name code_qualname code_file code_line frame_code node_parent node_frame thread stack count label",
    "i": "frame_line frame_end_line frame_col frame_end_col",
    "q": "time_ns weight_ns",
    "B": "flags code_kind",
}


def read_columns(data: bytes) -> Dict[str, Any]:
    """What `_core.read` gives, with memoryviews of numbers instead of bytes. Raises ValueError if it is no .spprof file."""
    return typed(_read(data))


def typed(result: Dict[str, Any]) -> Dict[str, Any]:
    """What `_core.read` gives, its bytes as numbers."""
    for typecode, names in _TYPES.items():
        for name in names.split():
            result[name] = memoryview(result[name]).cast(typecode)
    return result


def prepared(result: Dict[str, Any], data: bytes = b"") -> Dict[str, Any]:
    """What `read_columns` gave -> columns and parsed JSON, with what `spprof symbolize` (in the file's `data`) and
    `spprof run` ask for done to them."""
    if result["header"] is None:
        raise ValueError("a .spprof file without a header: it was cut short or is damaged")
    result["header"] = json.loads(result["header"])
    version = result["header"]["version"]
    if version != 1:
        raise ValueError(f"a .spprof file of version {version}; this spprof reads version 1")
    account = result["account"] = json.loads(result["account"] or b"{}")
    if isinstance(account.get("write_error"), int):  # the file has the errno, `spprof.stats()` the words
        account["write_error"] = os.strerror(account["write_error"]) if account["write_error"] else None
    result["end"] = json.loads(result["end"]) if result["end"] else None
    entries = [entry for block in result["threads"] for entry in json.loads(block)]
    result["threads"] = {entry["id"]: entry for entry in entries}
    result["label"], result["label_sets"] = _labels(result)
    result["sources"] = {}
    if result["header"].get("native"):
        from ._reader import blocks  # here: `spprof run` shares its process with the program

        for _, payload in blocks(data, b"N"):
            _name(result, json.loads(payload)["names"])
        told = [payload for _, payload in blocks(data, b"L")]
        if told:
            _inline(result, json.loads(told[-1])["frames"])
    return _finished(result)


def _load(data: bytes) -> Dict[str, Any]:
    """A file's bytes, ours or another profiler's -> what a `Profile` works on."""
    if data.startswith(_MAGIC):
        return prepared(read_columns(data), data)
    from .readers import read

    return _finished(read(data))


def _finished(result: Dict[str, Any]) -> Dict[str, Any]:
    """Adds the keys of stacks, and lets the program's own frames be roots."""
    result["keys"] = _keys(result)
    result["launchers"] = _launchers(result)
    if result["launchers"]:
        result["node_parent"] = _without(result["launchers"], result)
    return result


def _without(launchers: frozenset[int], result: Dict[str, Any]) -> List[int]:
    """Parents of nodes where the launchers' children are roots, or follow the mark that began their stack."""
    strings, names, codes = result["strings"], result["code_name"], result["frame_code"]
    parents, frames = result["node_parent"], result["node_frame"]
    marks = [0] * len(parents)  # of each node the mark that its stack begins with
    made = []
    for node, parent in enumerate(parents):
        if node and parent == 0:
            marks[node] = node if strings[names[codes[frames[node]]]] == _UNPAIRED_NAME else 0
        elif node:
            marks[node] = marks[parent]
        made.append(0 if node in launchers else marks[node] if parent in launchers else parent)
    return made


def _name(result: Dict[str, Any], names: Dict[str, str]) -> None:
    """Gives native functions their names in Python."""
    if not isinstance(names, dict):
        raise ValueError("the names of native functions do not make sense")
    result["strings"], result["code_qualname"] = list(result["strings"]), list(result["code_qualname"])
    for code, name in names.items():
        if 0 <= int(code) < len(result["code_qualname"]) and result["code_kind"][int(code)] and isinstance(name, str):
            result["code_qualname"][int(code)] = len(result["strings"])
            result["strings"].append(name)


def _inline(result: Dict[str, Any], chains: Dict[str, List[Tuple[str, str, int]]]) -> None:
    """Puts the functions that were inlined into a native frame below it, each as a frame of its own."""
    lists = ("code_name", "code_qualname", "code_file", "code_line", "code_kind", "frame_code", "frame_line", "frame_end_line")
    for name in (*lists, "frame_col", "frame_end_col"):
        result[name] = list(result[name])
    strings: List[str] = list(result["strings"])
    result["strings"] = strings
    ids: Dict[Any, int] = {}

    def code_of(name: str, frame: int, outermost: bool) -> int:
        code = result["frame_code"][frame]
        library, qualname = result["code_file"][code], result["code_qualname"][code]
        in_python = outermost and qualname != result["code_name"][code]  # what Python calls it stays
        key = name, library, qualname if in_python else -1
        if key not in ids:
            ids[key] = len(result["code_name"])
            for column, value in zip(lists, (len(strings), qualname if in_python else len(strings), library, 0, 1)):
                result[column].append(value)
            strings.append(name)
        return ids[key]

    def frame_of(frame: int, outermost: bool, function: str, source: str, line: int) -> int:
        if not (isinstance(function, str) and isinstance(source, str) and isinstance(line, int)):
            raise ValueError("the lines of native functions do not make sense")
        key = code_of(function, frame, outermost), source, line
        if key not in ids:
            id = ids[key] = len(result["frame_code"])
            result["sources"][id] = source, line
            result["frame_code"].append(key[0])
            for column in ("frame_line", "frame_end_line", "frame_col", "frame_end_col"):
                result[column].append(result[column][frame])
        return ids[key]

    known = len(result["frame_code"])
    if not isinstance(chains, dict):
        raise ValueError("the lines of native functions do not make sense")
    made = {
        int(frame): [frame_of(int(frame), at == 0, *one) for at, one in enumerate(chain)]
        for frame, chain in chains.items()
        if int(frame) < known
    }
    result["node_parent"], result["node_frame"], moved = _trie.expanded(result["node_parent"], result["node_frame"], made)
    result["stack"] = [moved[node] for node in result["stack"]]


def _labels(result: Dict[str, Any]) -> Tuple[Sequence[int], List[Dict[str, str]]]:
    """Of each sample its set of labels, as an index into the list of sets. The file names a set by its text."""
    column: Sequence[int] = result["label"]
    sets: List[Dict[str, str]] = [{}]
    texts = sorted(set(column) - {0})
    if not texts:
        return column, sets
    index, known = {0: 0}, {"{}": 0}
    for text in texts:
        content = result["strings"][text - 1]
        if content not in known:
            labels = json.loads(content)
            if not isinstance(labels, dict):
                raise ValueError("a set of labels does not make sense")
            known[content] = len(sets)
            sets.append({str(name): str(value) for name, value in labels.items()})
        index[text] = known[content]
    return array("I", map(index.__getitem__, column)), sets


def _keys(result: Dict[str, Any]) -> Sequence[int]:
    stacks: Sequence[int] = result["stack"]
    marks = bytes(result["flags"]).translate(bytes(mark & TRUNCATED for mark in range(256)))
    if 1 not in marks:
        return stacks
    return [~stack if mark else stack for stack, mark in zip(stacks, marks)]


def _launchers(result: Dict[str, Any]) -> frozenset[int]:
    """Nodes of what runs the program under `spprof run`. Their children become roots: a profile shows the program as
    `python TARGET` would run it."""
    strings = result["strings"]
    ours = {file for file in set(result["code_file"]) if any(place in strings[file].replace("\\", "/") for place in _LAUNCHERS)}
    codes = {code for code, file in enumerate(result["code_file"]) if file in ours}
    frames = {frame for frame, code in enumerate(result["frame_code"]) if code in codes}
    if not frames:
        return frozenset()
    return frozenset(node for node, frame in enumerate(result["node_frame"]) if node and frame in frames)
