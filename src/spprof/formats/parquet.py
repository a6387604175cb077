"""Parquet (https://parquet.apache.org/docs/file-format/): a table with a row a sample, for DuckDB and every other engine.

Files of many processes and machines can lie in one folder and be asked together, so each row says which process it is of.
The file's metadata `spprof` is a JSON object with the header and the tick stats. The extra `parquet` brings pyarrow.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, BinaryIO, Dict, Optional, Sequence

import pyarrow as pa
from pyarrow import compute, parquet

from ..model.calls import Function
from ..model.spans import SPAN, TRACE
from ..model.spans import ids as ids_of_spans
from ..model.tasks import names as names_of_tasks
from ..model.unicode import clean
from ._frames import Frames, Look, json_bytes
from ._samples import CHUNK, tracks, whys, written_tids

if TYPE_CHECKING:
    from ..model.calls import Calls
    from ..model.data import ProfileData
    from .options import Options


_WHY = ("reason", "waits_on", "held_by")
_PICKED = ("time_ns", "weight", "count", "flags", "label", "task", "span")
_ROWS = CHUNK >> 1  # of a group: each has its stacks in full
# Columns with a least and largest value by which an engine skips whole row groups. For stacks these cost a third of the time.
_SKIPPED_BY = ("pid", "tid", "time", "time_ns", "weight")


def write(profile: ProfileData, out: BinaryIO, options: Options) -> None:
    """Writes the table, thread after thread, each in order of time."""
    pool = pa.default_memory_pool()
    # Arrow's own allocators keep what was freed: of a million samples the process then took 299 MB instead of 274.
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        _write(profile, out, options)
    finally:
        pa.set_memory_pool(pool)


def _write(profile: ProfileData, out: BinaryIO, options: Options) -> None:
    table = _Table(profile, profile.calls if options.thread is None else None)
    settings = {"compression": "zstd", "compression_level": 1, "write_statistics": list(_SKIPPED_BY)}
    with parquet.ParquetWriter(out, table.schema, **settings) as writer:
        for part in tracks(profile, options):
            assert part.thread is not None  # threads are never merged here
            columns = {name: part.pick(profile.column(name)) for name in _PICKED}
            columns["key"] = part.pick(profile.stack_keys())
            columns["why"] = part.pick(table.reasons)
            for start in range(0, len(columns["key"]), _ROWS):
                chunk = {name: column[start : start + _ROWS] for name, column in columns.items()}
                writer.write_batch(table.batch(part.thread, len(chunk["key"]), chunk))


class _Table:
    """The columns. Texts are dictionaries; a stack is made once and taken by number for each row that has it."""

    def __init__(self, profile: ProfileData, calls: Optional[Calls]) -> None:
        self.profile = profile
        self.calls = calls
        self.called = calls.functions() if calls is not None else {}
        self.tids = written_tids(profile)
        text = pa.dictionary(pa.int32(), pa.string())
        frame = [("function", text), ("file", text), ("first_line", pa.int32()), ("line", pa.int32())]
        fields = [
            ("pid", pa.int64()),
            ("argv", text),
            ("python", text),
            ("mode", text),
            ("tid", pa.int64()),
            ("thread", text),
            ("time", pa.timestamp("ns", tz="UTC")),
            ("time_ns", pa.int64()),
            ("weight", pa.int64()),
            ("count", pa.int64()),
            ("flags", pa.uint8()),
            ("labels", pa.map_(pa.string(), pa.string())),
            ("task", text),
            (TRACE, text),
            (SPAN, text),
            *((name, text) for name in _WHY),
            *frame,
            ("native", pa.bool_()),
            ("stack_id", pa.int32()),
            ("stack", pa.list_(pa.struct(frame))),
            ("calls", pa.int64()),
        ]
        about: Dict[str, Any] = {"header": profile.header, "stats": profile.stats, "end": profile.end, "unit": profile.unit}
        if calls is not None:
            about.update(calls=calls.as_json(), calls_missing=calls.missing)
        self.schema = pa.schema(fields, metadata={"spprof": json_bytes(about)})
        labels = [[(clean(key), clean(value)) for key, value in labels.items()] for labels in profile.label_sets]
        self.labels = pa.array(labels, self.schema.field("labels").type)
        tasks = names_of_tasks(profile._columns())
        self.tasks = pa.array([clean(name) or None for name in tasks.values()], pa.string()).dictionary_encode()
        self.task_places = {number: place for place, number in enumerate(tasks)}
        spans = ids_of_spans(profile._columns())
        self.spans = {
            name: pa.array([each.get(name) for each in spans.values()], pa.string()).dictionary_encode() for name in (TRACE, SPAN)
        }
        self.span_places = {number: place for place, number in enumerate(spans)}
        self.reasons, meant = whys(profile)
        self.whys = {name: pa.array([each.get(name) for each in meant], pa.string()).dictionary_encode() for name in _WHY}
        self._stacks()

    def _texts(self, values: Sequence[str]) -> Any:
        """A dictionary array."""
        return pa.array([clean(value) for value in values], pa.string()).dictionary_encode()

    def _stacks(self) -> None:
        """`frames`: each frame once; `stacks`: the list of their numbers of each stack; `leaves`: the last frame of each; `ids`:
        stack key -> its place in both. (The frames of all stacks, in full, took 60 MB of 95,000 stacks.)"""
        frames = Frames(self.profile)
        self.ids: Dict[int, int] = {}
        numbers, ends = array("i"), array("i", [0])
        for key in self.profile.stack_keys():
            if key not in self.ids:
                self.ids[key] = len(self.ids)
                numbers.extend(frames.stack(key))
                ends.append(len(numbers))
        looks = frames.looks
        columns = [
            self._texts([look.name for look in looks]),
            self._texts([look.library if look.native else look.file for look in looks]),
            pa.array([look.first_line for look in looks], pa.int32()),
            pa.array([look.line for look in looks], pa.int32()),
        ]
        self.frames = pa.StructArray.from_arrays(columns, fields=list(self.schema.field("stack").type.value_type))
        order, offsets = (
            pa.Array.from_buffers(pa.int32(), len(values), [None, pa.py_buffer(values)]) for values in (numbers, ends)
        )
        self.stacks = pa.ListArray.from_arrays(offsets, order)
        counts = [self._calls_of(look) for look in looks]
        last = order.take(compute.subtract(offsets[1:], 1))
        self.leaves, self.native = self.frames.take(last), pa.array([look.native for look in looks], pa.bool_()).take(last)
        self.counts = pa.array(counts, pa.int64()).take(last)

    def _calls_of(self, look: Look) -> Optional[int]:
        """Exact calls; a Python function that was never seen to begin has 0, of others nobody knows."""
        if self.calls is None or look.native or not look.first_line:
            return None
        key = Function(look.system_name, look.name, look.file, look.first_line)
        return self.called.get(key, (0, 0))[0]

    def batch(self, thread: int, rows: int, columns: Dict[str, Any]) -> Any:
        """Some samples of one thread."""
        profile, header = self.profile, self.profile.header
        ids = self._numbers(map(self.ids.__getitem__, columns["key"])).cast(pa.int32())
        time_ns = self._numbers(columns["time_ns"])
        start = header.get("start_unix_ns")
        since = int(start) - int(header.get("start_ns") or 0) if start else None
        process = profile.process_of(thread)
        same = {
            "pid": process.get("pid"),
            "argv": " ".join(map(str, process.get("argv") or [])),
            "python": str(process.get("python", "")),
            "mode": str(process.get("mode", "")),
            "tid": self.tids[thread],
            "thread": profile.thread_name(thread),
        }
        values = {name: self._repeated(name, value, rows) for name, value in same.items()}
        values["time"] = compute.add(time_ns, pa.scalar(since, pa.int64())).cast(self.schema.field("time").type)
        values["time_ns"] = time_ns
        for name in ("weight", "count", "flags"):
            values[name] = self._numbers(columns[name]).cast(self.schema.field(name).type)
        values["labels"] = self.labels.take(self._numbers(columns["label"]))
        values["task"] = self.tasks.take(self._numbers(map(self.task_places.__getitem__, columns["task"])))
        span = self._numbers(map(self.span_places.__getitem__, columns["span"]))
        values.update((name, each.take(span)) for name, each in self.spans.items())
        why = self._numbers(columns["why"])
        values.update((name, each.take(why)) for name, each in self.whys.items())
        values.update(zip(("function", "file", "first_line", "line"), self.leaves.take(ids).flatten()))
        stacks = self.stacks.take(ids)
        stack = pa.ListArray.from_arrays(stacks.offsets, self.frames.take(stacks.values))
        values.update(native=self.native.take(ids), stack_id=ids, stack=stack, calls=self.counts.take(ids))
        return pa.record_batch([values[name] for name in self.schema.names], schema=self.schema)

    def _numbers(self, values: Any) -> Any:
        """An int64 array, by way of its memory: ten times as fast as number by number."""
        numbers = array("q", values)
        return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])

    def _repeated(self, name: str, value: Any, rows: int) -> Any:
        if isinstance(value, str):
            return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), rows), [clean(value)])
        return pa.repeat(pa.scalar(value, self.schema.field(name).type), rows)
