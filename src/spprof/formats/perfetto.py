"""Perfetto's trace (https://github.com/google/perfetto/blob/main/protos/perfetto/trace/trace_packet.proto): the numbers in
comments are fields of the messages named beside them.

One sequence of packets: clocks and defaults, the process and its threads as tracks, each frame and stack once (interned), then a
StackSample (stack_sample.proto) with its weight for each sample, and a slice for each run of the garbage collector.
"""

from __future__ import annotations

import os
from itertools import repeat
from typing import TYPE_CHECKING, Any, BinaryIO, Dict, Iterator, List, Sequence, Tuple

from ..model.records import KERNEL, TRUNCATED
from ._frames import Frames
from ._protobuf import data, number, text, varint
from ._samples import CHUNK, Track, distinct_tids, marks, tracks

if TYPE_CHECKING:
    from ..model.data import ProfileData
    from .options import Options

_REALTIME, _MONOTONIC = 1, 3  # BuiltinClock
_CLEARED, _NEEDS_STATE = number(13, 1 | 2), number(13, 2)  # sequence_flags
_SEQUENCE = number(10, 1)  # trusted_packet_sequence_id: its packets share defaults and interned data
_NANOSECONDS = 1  # StackSample.Unit
_USER, _KERNEL = 1, 2  # StackSample.Mode
_NO_PID = 1 << 22  # greater than any of Linux; where the process is not known
_SLICE_BEGIN, _SLICE_END = 1, 2  # TrackEvent.Type
_TAIL = _SEQUENCE + _NEEDS_STATE

# The two bytes of a varint for 14 bits that others follow.
_PAIRS = [bytes((value & 0x7F | 0x80, value >> 7 | 0x80)) for value in range(1 << 14)]
_MASK = (1 << 14) - 1


def write(profile: ProfileData, out: BinaryIO, options: Options) -> None:
    """Writes the trace. With `merge_threads` the samples belong to the process, to none of its threads."""
    for packet in _packets(profile, options):
        out.write(packet)


def _packet(*fields: bytes) -> bytes:
    return data(1, b"".join((*fields, _SEQUENCE)))  # Trace.packet


def _packets(profile: ProfileData, options: Options) -> Iterator[bytes]:
    header = profile.header
    clocks = data(1, number(1, _MONOTONIC) + number(2, int(header.get("start_ns") or 0)))
    if header.get("start_unix_ns"):
        clocks += data(1, number(1, _REALTIME) + number(2, int(header["start_unix_ns"])))
    yield _packet(_CLEARED, data(6, clocks + number(2, _MONOTONIC)), data(59, _defaults(profile)))

    # Tracks are called by their threads' system ids, but two threads with one id, one after the other, are two.
    tids = distinct_tids(profile)
    parts = tracks(profile, options)
    # Field 60, track_descriptor. Its uuid is 2 + id of a thread; those of processes are what these leave.
    processes = {_pid_of(each): each for each in (profile.header, *map(profile.process_of, tids))}
    uuids = {pid: 1 if not place else 2 + max(tids) + place for place, pid in enumerate(processes)}
    for pid, of_process in processes.items():
        yield _packet(data(60, number(1, uuids[pid]) + data(3, _process(of_process, pid))))
    for thread in tids if options.merge_threads else [part.thread for part in parts if part.thread is not None]:
        pid = _pid_of(profile.process_of(thread))
        about = number(1, pid) + number(2, tids[thread]) + text(5, profile.thread_name(thread))
        yield _packet(data(60, number(1, 2 + thread) + number(5, uuids[pid]) + data(4, about)))

    callstacks: Dict[int, int] = {}
    for key in profile.stack_keys():
        callstacks.setdefault(key, len(callstacks) + 1)
    yield from _interned(profile, options, callstacks)
    marked = marks(profile)
    named = [_context(id + 1, labels) for id, labels in enumerate(marked[1]) if labels]
    if named:
        yield _packet(_NEEDS_STATE, data(12, b"".join(named)))
    for part in parts:
        tid = number(3, tids[part.thread]) if part.thread is not None else b""
        pid = _pid_of(header if part.thread is None else profile.process_of(part.thread))
        yield from _samples(profile, part, number(2, pid) + tid, callstacks, marked)
    wanted = set(profile.match_threads(options.thread))
    for marker in profile.markers:
        if marker.thread in wanted:
            track = number(11, 2 + marker.thread)
            notes = b"".join(data(4, text(10, key) + _value(value)) for key, value in marker.data.items())  # debug_annotations
            begin = text(22, marker.name) + text(23, marker.name) + number(9, _SLICE_BEGIN) + track + notes
            yield _packet(number(8, marker.time_ns), _NEEDS_STATE, data(11, begin))
            end = number(8, marker.time_ns + marker.duration_ns)
            yield _packet(end, _NEEDS_STATE, data(11, number(9, _SLICE_END) + track))


def _defaults(profile: ProfileData) -> bytes:
    """TracePacketDefaults: all times are of the monotonic clock; what the weights are."""
    unit = number(3, _NANOSECONDS) if profile.unit == "nanoseconds" else text(4, profile.unit)
    timed = profile.mode and profile.unit == "nanoseconds"
    counter = text(2, f"{profile.mode}-time" if timed else profile.sample_types[0].name) + unit
    return number(58, _MONOTONIC) + data(100, text(1, "python.spprof") + data(2, counter))


def _pid_of(header: Dict[str, Any]) -> int:
    return int(header.get("pid") or _NO_PID)


def _process(header: Dict[str, Any], pid: int) -> bytes:
    argv = list(map(str, header.get("argv") or []))
    name = os.path.basename(argv[0]) if argv else "python"
    return number(1, pid) + b"".join(text(2, arg) for arg in argv) + text(6, name)


def _context(id: int, labels: Dict[str, str]) -> bytes:
    """A set of labels as interned AsyncContextDescriptor: what a thread worked for when a sample was taken."""
    name = ", ".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return data(51, number(1, id) + text(2, name) + text(3, "labels"))


def _value(value: object) -> bytes:
    """A DebugAnnotation's value; a 0 is written too."""
    return b"\x20" + varint(value) if isinstance(value, int) else text(6, str(value))


def _interned(profile: ProfileData, options: Options, callstacks: Dict[int, int]) -> Iterator[bytes]:
    """InternedData (field 12) in packets of some thousand stacks; a frame before the first stack that has it."""
    frames = Frames(profile, options.lines, addresses=True)
    ids: Dict[bytes, int] = {}
    fresh: List[bytes] = []

    def intern(field: int, content: bytes) -> int:
        """The id (from 1, by field) of a message that has its id as field 1."""
        key = b"%d:" % field + content
        if key not in ids:
            ids[key] = len(ids) + 1
            fresh.append(data(field, number(1, ids[key]) + content))
        return ids[key]

    def name(field: int, value: str) -> int:
        return intern(field, text(2, value))

    known: List[bytes] = []  # of each look its frame, as stacks name it
    for key, id in callstacks.items():
        stack = frames.stack(key)
        for look in frames.looks[len(known) :]:
            mapping = intern(19, number(7, name(17, look.library if look.native else look.file)))
            function = number(2, name(5, look.name)) + number(3, mapping) + number(4, look.address)
            source = number(5, name(18, look.file)) if look.file else b""
            known.append(number(2, intern(6, function + source + number(6, look.line or look.first_line))))
        fresh.append(data(7, number(1, id) + b"".join(map(known.__getitem__, stack))))
        if len(fresh) >= CHUNK >> 4:
            yield _packet(_NEEDS_STATE, data(12, b"".join(fresh)))
            fresh.clear()
    if fresh:
        yield _packet(_NEEDS_STATE, data(12, b"".join(fresh)))


def _samples(
    profile: ProfileData, part: Track, task: bytes, callstacks: Dict[int, int], marked: Tuple[Sequence[int], List[Dict[str, str]]]
) -> Iterator[bytes]:
    """The samples of a track. Two samples of one stack differ in time and weight alone: these are written with as many bytes as
    the largest of the track needs, so that all else of the packet, with its lengths, is made once for each stack."""
    keys, flags = part.pick(profile.stack_keys()), part.pick(profile.column("flags"))
    times, weights = part.pick(profile.column("time_ns")), part.pick(profile.column("weight"))
    column, sets = marked
    labels = part.pick(column) if len(sets) > 1 or sets[0] else b""
    time_high, weight_high = (_Padded(max(column, default=0) >> 28) for column in (times, weights))
    heads: Dict[int, bytes] = {}
    for start in range(0, len(keys), CHUNK):
        end = start + CHUNK
        chunk: List[bytes] = []
        columns = (column[start:end] for column in (keys, flags, times, weights))
        for key, flag, time, weight, label in zip(*columns, labels[start:end] or repeat(0)):
            kind = (key << 1 | bool(flag & KERNEL)) * len(sets) + label
            if kind not in heads:
                context = number(3, _KERNEL if flag & KERNEL else _USER)
                working = data(1, task + (number(4, label + 1) if sets[label] else b""))  # task_context, with async_id
                sample = data(3, context) + working + number(6, callstacks[key])  # execution_context, callstack_iid
                sample += text(7, "truncated") if flag & TRUNCATED else b""  # unwind_error
                sample = (
                    varint(135 << 3 | 2) + varint(len(sample) + 5 + weight_high.size) + sample + b"\x58"
                )  # primary_weight is next
                rest = len(sample) + 4 + weight_high.size + 5 + time_high.size + len(_TAIL)
                heads[kind] = b"\x0a" + varint(rest) + _TAIL + sample
            chunk += (heads[kind], _PAIRS[weight & _MASK], _PAIRS[weight >> 14 & _MASK], weight_high[weight >> 28])
            chunk += (b"\x40", _PAIRS[time & _MASK], _PAIRS[time >> 14 & _MASK], time_high[time >> 28])  # timestamp
        yield b"".join(chunk)


class _Padded(Dict[int, bytes]):
    """Varints of as many bytes as the largest of them needs, made when first asked for."""

    def __init__(self, largest: int) -> None:
        super().__init__()
        self.size = len(varint(largest))

    def __missing__(self, value: int) -> bytes:
        result = self[value] = bytes(value >> 7 * i & 0x7F | (0x80 if i < self.size - 1 else 0) for i in range(self.size))
        return result
