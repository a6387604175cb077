"""Profiles of Firefox's profiler (gecko), as https://profiler.firefox.com saves them and samply and our own `gecko` format write
them, and as Firefox itself and `perf script report gecko` do.

A sample counts its weight, or is one sample: no time is made up. What is no sample (markers, counters) is left out.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Tuple

from ._columns import Columns
from ._fields import checked, field, index, text, whole

_WEIGHTS = {"tracing-ms": ("nanoseconds", 1_000_000), "bytes": ("bytes", 1), "samples": ("samples", 1)}
_DEEPEST = 64  # processes within processes


def read(document: Any) -> Dict[str, Any]:
    """The columns of a file. Raises ValueError."""
    meta = field(document, "meta", dict, "the file")
    threads = _threads(document, "the file", 0)
    kinds = {_weight_type(thread, f"thread {n}") for n, (thread, _) in enumerate(threads) if _samples(thread, f"thread {n}")}
    if len(kinds) > 1:
        raise ValueError(f"threads whose weights are {', '.join(sorted(kinds))} cannot be one profile")
    unit, factor = _WEIGHTS[kinds.pop() if kinds else "samples"]
    columns = Columns("gecko", unit)
    interval = meta.get("interval")
    if unit == "nanoseconds" and type(interval) in (int, float) and 0 < interval < 1e9:
        columns.header["interval_ns"] = round(interval * 1e6)
    product = text(meta, "product", "'meta'")
    if product:
        columns.header["argv"] = [product]
    shared = document.get("shared") or {}
    several = len({str(thread.get("pid")) for thread, _ in threads}) > 1
    for n, (thread, libraries) in enumerate(threads):
        _Thread(columns, thread, checked(shared, dict, "'shared'"), libraries, f"thread {n}", n, factor, several).read()
    return columns.result()


def _threads(document: Dict[str, Any], where: str, depth: int) -> List[Any]:
    """Each thread and the libraries that it refers to, also of processes within."""
    if depth > _DEEPEST:
        raise ValueError("processes within processes without end")
    libraries = checked(document.get("libs") or [], list, f"'libs' of {where}")
    threads = [
        (checked(thread, dict, f"thread {n} of {where}"), libraries)
        for n, thread in enumerate(field(document, "threads", list, where))
    ]
    for n, process in enumerate(checked(document.get("processes") or [], list, f"'processes' of {where}")):
        threads += _threads(checked(process, dict, f"process {n}"), f"process {n}", depth + 1)
    return threads


def _column(table: Any, name: str, where: str) -> Optional[List[Any]]:
    """A column of a table, which has a list for each or, of Firefox itself, a schema and rows."""
    if not isinstance(table, dict):
        raise ValueError(f"{where} is no table")
    if "schema" not in table:
        column = table.get(name)
        return None if column is None else list(checked(column, list, f"{name!r} of {where}"))
    schema, rows = field(table, "schema", dict, where), field(table, "data", list, where)
    at = schema.get(name)
    if at is None:
        return None
    checked(at, int, f"{name!r} in the schema of {where}")
    return [row[at] if 0 <= at < len(row) else None for row in (checked(row, list, f"a row of {where}") for row in rows)]


def _needed(table: Any, name: str, where: str) -> List[Any]:
    column = _column(table, name, where)
    if column is None:
        raise ValueError(f"{where} has no {name!r}")
    return column


def _samples(thread: Dict[str, Any], where: str) -> List[Any]:
    return _needed(field(thread, "samples", dict, where), "stack", f"'samples' of {where}")


def _weight_type(thread: Dict[str, Any], where: str) -> str:
    samples = thread["samples"]
    kind = text(samples, "weightType", where) or "samples"
    if kind not in _WEIGHTS:
        raise ValueError(f"the weights of {where} are {kind!r}: {', '.join(_WEIGHTS)} are read")
    return kind


class _Thread:
    """A thread of the file."""

    def __init__(
        self,
        columns: Columns,
        thread: Dict[str, Any],
        shared: Dict[str, Any],
        libraries: List[Any],
        where: str,
        number: int,
        factor: int,
        several: bool,
    ) -> None:
        self.columns, self.thread, self.shared, self.libraries = columns, thread, shared, libraries
        self.where, self.number, self.factor = where, number, factor
        self.stacks: Dict[int, Tuple[int, int]] = {}
        tid = thread.get("tid")
        tid = int(tid) if isinstance(tid, str) and tid.isascii() and tid.isdecimal() and len(tid) < 19 else tid
        self.tid = tid if type(tid) is int and tid > 0 else 0
        self.base = columns.node(0, columns.frame(f"process {thread.get('pid')}")) if several else 0, 0
        self.strings = self._table("stringArray", "stringTable", list)
        stacks = self._table("stackTable")
        self.prefixes, self.frames = (_needed(stacks, name, f"'stackTable' of {where}") for name in ("prefix", "frame"))
        if len(self.prefixes) != len(self.frames):
            raise ValueError(f"the columns of 'stackTable' of {where} differ in length")
        self.made: Dict[int, int] = {}  # the file's frames -> ours
        table = self._table("frameTable")
        self.locations = _column(table, "location", f"'frameTable' of {where}")
        self.lines, self.cols = (_column(table, name, f"'frameTable' of {where}") for name in ("line", "column"))
        if self.locations is None:
            self.funcs = _needed(table, "func", f"'frameTable' of {where}")
            functions, tables = self._table("funcTable"), f"'funcTable' of {where}"
            self.func_names = _needed(functions, "name", tables)
            names = ("fileName", "source", "lineNumber", "resource")
            self.files, self.sources, self.first_lines, self.resources = (_column(functions, name, tables) for name in names)

    def _table(self, name: str, other: str = "", kind: type = dict) -> Any:
        """A table of the thread, or of all."""
        for place in (self.thread, self.shared):
            for key in filter(None, (name, other)):
                if place.get(key) is not None:
                    return checked(place[key], kind, f"{key!r} of {self.where}")
        raise ValueError(f"{self.where} has no {name!r}")

    def read(self) -> None:
        """Adds its samples."""
        samples = self.thread["samples"]
        cells, weights = _samples(self.thread, self.where), _column(samples, "weight", self.where)
        if weights is not None and len(weights) != len(cells):
            raise ValueError(
                f"{self.where}: stacks and weights of samples differ in number ({len(cells):,} and {len(weights):,})"
            )
        name = text(self.thread, "name", self.where)
        id = self.columns.thread(name or ("" if self.tid else f"thread {self.number}"), self.tid, self.number)
        for n, stack in enumerate(cells):
            where = f"sample {n} of {self.where}"
            weight = 1 if weights is None else weights[n]
            if not (type(weight) in (int, float) and math.isfinite(weight) and 0 <= weight < 1 << 62):
                raise ValueError(f"{where}: {weight!r:.40} is no weight")
            amount = round(weight * self.factor)
            if amount != weight and self.factor == 1:
                raise ValueError(f"{where}: {weight!r:.40} is no whole number")
            self.columns.sample(id, self.base if stack is None else self._stack(stack, where), amount)

    def _stack(self, stack: Any, where: str) -> Tuple[int, int]:
        path: List[int] = []
        at = index(stack, self.frames, f"the stack of {where}")
        base = self.base
        while True:
            if at in self.stacks:
                base = self.stacks[at]
                break
            if len(path) > len(self.frames):
                raise ValueError(f"stack {at} of {self.where} is among its own prefixes")
            path.append(at)
            if self.prefixes[at] is None:
                break
            at = index(self.prefixes[at], self.frames, f"the prefix of stack {at} of {self.where}")
        for one in reversed(path):
            base = self.stacks[one] = self.columns.called(base, self._frame(self.frames[one], f"stack {one} of {self.where}"))
        return base

    def _frame(self, number: Any, where: str) -> int:
        table = self.funcs if self.locations is None else self.locations
        at = index(number, table, f"the frame of {where}")
        if at not in self.made:
            self.made[at] = self._function(at) if self.locations is None else self.columns.frame(self._text(table[at], where))
        return self.made[at]

    def _text(self, number: Any, where: str) -> str:
        return str(checked(self.strings[index(number, self.strings, f"a text of {where}")], str, f"text {number} of {where}"))

    def _cell(self, column: Optional[List[Any]], at: int, where: str) -> Any:
        """An entry of a column that may be missing or shorter."""
        return None if column is None else column[index(at, column, where)]

    def _function(self, at: int) -> int:
        where = f"frame {at} of {self.where}"
        func = index(self.funcs[at], self.func_names, f"the function of {where}")
        name, file = self._text(self.func_names[func], where), self._file(func, where)
        numbers = {"line": self._cell(self.lines, at, where), "column": self._cell(self.cols, at, where)}
        numbers["first"] = self._cell(self.first_lines, func, where)
        line, column, first = (whole(numbers, key, where) or 0 for key in numbers)
        library = self._library(self._cell(self.resources, func, where), where)
        if library:
            return self.columns.native(name, library, 0, file, line)
        return self.columns.frame(name, file, line or first, first, column - 1)

    def _file(self, func: int, where: str) -> str:
        cells = self._cell(self.files, func, where)
        if cells is None:
            source = self._cell(self.sources, func, where)
            if source is None:
                return ""
            names = _needed(self._table("sources"), "filename", f"'sources' of {self.where}")
            cells = names[index(source, names, f"the source of {where}")]
        return self._text(cells, where)

    def _library(self, resource: Any, where: str) -> str:
        if resource in (None, -1):
            return ""
        libraries = _column(self._table("resourceTable"), "lib", f"'resourceTable' of {self.where}") or []
        number = libraries[index(resource, libraries, f"the resource of {where}")]
        if number in (None, -1):
            return ""
        library = self.libraries[index(number, self.libraries, f"the library of {where}")]
        return text(library, "path", where) or text(library, "name", where) if isinstance(library, dict) else ""
