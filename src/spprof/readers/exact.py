"""What a run counts and times exactly: the blocks B, C, I, K, M, Q and W. Format: docs/file-format.md.

Apart from `spprof`, since a profile of samples alone needs none of these, nor their records."""

from __future__ import annotations

import json
from array import array
from typing import Callable, Dict, List, Optional, Tuple, TypeVar

from ..model import exceptions as raises
from ..model import hot, line_counts
from ..model.calls import Call, Calls, Function
from ..model.exceptions import HOW, Exceptions, Raised
from ..model.hot import HotCalls, HotFunction
from ..model.imports import Import, nested
from ..model.line_counts import CountedFunction, LineCounts, Way, branches_of
from ..model.specialization import Instruction, Unspecialized
from ..model.times import Histogram, SlowCall, TimedFunction, Times, together
from .spprof import MAGIC, _check_below, _Damage, _same_length, _Tables, _unpacked, blocks

Made = TypeVar("Made")

_CALLS = 13  # columns of block C


def calls(data: bytes) -> Optional[Calls]:
    """The exact counts of calls; None if none were taken, or the file ends before them."""
    return _last(data, b"C", _CALLS, _calls)


def _last(data: bytes, kind: bytes, columns: int, made: Callable[[List[array[int]]], Made]) -> Optional[Made]:
    """What the last block of a kind, of so many columns, says; None if there is none. One that makes no sense ends the file."""
    result = None
    for _, payload in blocks(data, kind) if data.startswith(MAGIC) else ():
        try:
            result = made(_unpacked(payload, columns))
        except (_Damage, ValueError):  # labels are JSON
            return result
    return result


def _named(columns: List[array[int]]) -> Tuple[List[str], List[Function]]:
    """The strings and functions with which blocks B, C, K, M, Q and W begin."""
    strings, functions_in = _Tables._strings(*columns[:2]), columns[2:7]
    _same_length(*functions_in)
    for column in functions_in[:3]:
        _check_below(column, len(strings), "string")
    functions = [
        Function(strings[name], strings[qualname], strings[file], line, bool(kind))
        for name, qualname, file, line, kind in zip(*functions_in)
    ]
    return strings, functions


def _calls(columns: List[array[int]]) -> Calls:
    functions = _named(columns)[1]
    edges, about = columns[7:12], columns[12]
    _same_length(*edges)
    _check_below(edges[0], len(functions), "function")
    _check_below(edges[1], len(functions) + 1, "function")
    if len(about) != 2:
        raise _Damage("there are not two numbers about the calls")
    callers = [None, *functions]
    rows = [Call(functions[callee], callers[caller], *rest) for callee, caller, *rest in zip(*edges)]
    return Calls(rows, *about)


_HOT = 13  # columns of block W


def hot_calls(data: bytes) -> Optional[HotCalls]:
    """The counts of the hottest functions' calls; None if none were taken, or the file ends before them."""
    return _last(data, b"W", _HOT, _hot_calls)


def _hot_calls(columns: List[array[int]]) -> HotCalls:
    functions = _named(columns)[1]
    counted = columns[7:]
    _same_length(*counted)
    _check_below(counted[0], len(functions), "function")
    rows = [
        HotFunction(functions[function], calls, counted_ns, samples, self_ns, squares * 1e6)
        for function, calls, counted_ns, samples, self_ns, squares in zip(*counted)
    ]
    return hot.together([HotCalls(rows)])


_TIMES = 34  # columns of block M


def times(data: bytes) -> Optional[Times]:
    """The exact times of calls; None if none were taken, or the file ends before them."""
    return _last(data, b"M", _TIMES, _times)


def _times(columns: List[array[int]]) -> Times:
    strings, functions = _named(columns)
    timed, buckets, slow, frames, about = columns[7:18], columns[18:22], columns[22:31], columns[31:33], columns[33]
    for table in (timed, buckets, slow, frames):
        _same_length(*table)
    n = len(timed[0])
    _check_below(timed[0], len(functions), "function")
    _check_below(frames[0], len(functions), "function")
    _check_below(buckets[0], n, "timed function")
    _check_below(buckets[1], 3, "kind of time")
    _check_below(slow[0], n, "timed function")
    _check_below(slow[7], len(strings) + 1, "string")
    if len(about) != 3:
        raise _Damage("there are not three numbers about the times")
    untimed, lost, cpu = about
    found: List[Tuple[Dict[int, int], ...]] = [({}, {}, {}) for _ in range(n)]
    for row, what, bucket, count in zip(*buckets):
        found[row][what][bucket] = count
    stacks = [(functions[function], line) for function, line in zip(*frames)]
    slowest = _slowest(slow, stacks, strings, [bool(steps) for steps in timed[1]], bool(cpu))
    rows = []
    for i, (function, steps, calls, raised, unfinished, *figures) in enumerate(zip(*timed)):
        wall, running, own = (Histogram(found[i][k], figures[k], figures[3 + k]) for k in range(3))
        own_slowest = sorted(slowest[i], key=lambda call: -call.wall_ns)
        rows.append(
            TimedFunction(
                functions[function],
                calls,
                raised,
                unfinished,
                wall,
                running if steps else None,
                own if cpu else None,
                own_slowest,
            )
        )
    return together([Times(rows, untimed, lost)])


def _slowest(
    slow: List[array[int]], frames: List[Tuple[Function, int]], strings: List[str], steps: List[bool], cpu: bool
) -> List[List[SlowCall]]:
    """The slow calls of each timed function."""
    result: List[List[SlowCall]] = [[] for _ in steps]
    at = 0
    for row, began, wall, running, own, tid, flags, labels, depth in zip(*slow):
        stack = frames[at : at + depth]
        at += depth
        if len(stack) != depth:
            raise _Damage("a slow call has more frames than there are")
        known = json.loads(strings[labels - 1]) if labels else {}
        if not isinstance(known, dict):
            raise _Damage("labels are no object")
        result[row].append(
            SlowCall(
                wall,
                running if steps[row] else None,
                own if cpu else None,
                began,
                tid,
                bool(flags & 1),
                {str(key): str(value) for key, value in known.items()},
                stack,
                bool(flags & 2),
            )
        )
    return result


_LINES = 19  # columns of block B


def lines(data: bytes) -> Optional[LineCounts]:
    """The exact executions of lines; None if none were counted, or the file ends before them."""
    return _last(data, b"B", _LINES, _lines)


def _lines(columns: List[array[int]]) -> LineCounts:
    functions = _named(columns)[1]
    codes, lines, ways, about = columns[7:9], columns[9:12], columns[12:18], columns[18]
    for table in (codes, lines, ways):
        _same_length(*table)
    _check_below(codes[0], len(functions), "function")
    _check_below(lines[0], len(codes[0]), "counted function")
    _check_below(ways[0], len(codes[0]), "counted function")
    if len(about) != 2:
        raise _Damage("there are not two numbers about the lines")
    executions: List[Dict[int, int]] = [{} for _ in codes[0]]
    for row, line, count in zip(*lines):
        executions[row][line] = count
    taken: List[List[Tuple[int, int, Way]]] = [[] for _ in codes[0]]
    for row, start, end, line, goes_on, count in zip(*ways):
        taken[row].append((line, start, Way(goes_on, end, count)))
    rows = [
        CountedFunction(functions[function], calls, executions[i], branches_of(taken[i]))
        for i, (function, calls) in enumerate(zip(*codes))
    ]
    return line_counts.together([LineCounts(rows, *about)])


_IMPORTS = 8  # columns of block I


def imports(data: bytes) -> Optional[List[Import]]:
    """The imports that were timed, in the order in which they began; None if none were, or the file ends before them."""
    return _last(data, b"I", _IMPORTS, _imports)


def _imports(columns: List[array[int]]) -> List[Import]:
    strings = _Tables._strings(*columns[:2])
    _same_length(*columns[2:])
    for column in columns[2:4]:
        _check_below(column, len(strings), "string")
    return nested((strings[name], strings[file], *rest) for name, file, *rest in zip(*columns[2:]))


_RAISES = 17  # columns of block K


def exceptions(data: bytes) -> Optional[Exceptions]:
    """The exact counts of exceptions; None if none were taken, or the file ends before them."""
    return _last(data, b"K", _RAISES, _exceptions)


def _exceptions(columns: List[array[int]]) -> Exceptions:
    strings, functions = _named(columns)
    ways, about = columns[7:16], columns[16]
    _same_length(*ways)
    _check_below(ways[0], len(strings), "string")
    _check_below(ways[1], len(functions), "function")
    _check_below(ways[3], len(functions) + 1, "function")
    _check_below(ways[5], len(HOW), "end")
    if len(about) != 2:
        raise _Damage("there are not two numbers about the exceptions")
    callers = [None, *functions]
    rows = [
        Raised(strings[kind], functions[raised], line, callers[caught], caught_line, HOW[how], *rest)
        for kind, raised, line, caught, caught_line, how, *rest in zip(*ways)
    ]
    return raises.together([Exceptions(rows, *about)])


_UNSPECIALIZED = 16  # columns of block Q


def unspecialized(data: bytes) -> Optional[Unspecialized]:
    """The instructions that were not specialized; None if that was not read, or the file ends before it."""
    return _last(data, b"Q", _UNSPECIALIZED, _unspecialized)


def _unspecialized(columns: List[array[int]]) -> Unspecialized:
    strings, functions = _named(columns)
    rows, about = columns[7:15], columns[15]
    _same_length(*rows)
    _check_below(rows[0], len(functions), "function")
    _check_below(rows[5], len(strings), "string")
    if len(about) != 1:
        raise _Damage("there is not one number about the instructions")
    return Unspecialized(
        [
            Instruction(functions[function], line, end_line, col - 1, end_col - 1, strings[name], bool(missed), runs)
            for function, line, end_line, col, end_col, name, missed, runs in zip(*rows)
        ],
        *about,
    )
