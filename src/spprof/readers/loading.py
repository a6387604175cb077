"""The bytes of a file -> the columns that a profile works on."""

from __future__ import annotations

import json
import os
from array import array
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from ..model.columns import finished
from ..model.layout import Columns, columns_of
from ..model.records import COARSE, OFF_CPU
from ..model.tree import Tree
from ..model.types import join, split
from . import read
from .about import end_of, header_of, threads_of, tick_stats_of

_MAGIC = b"\x89SPPROF"
_COARSE_CLOCKS = ("timer", "gil")  # all samples are COARSE, except of off-CPU threads; older files do not say it


def load(data: bytes) -> Columns:
    """The columns of a file, spprof's own or another profiler's. Raises ValueError, KeyError, TypeError or RecursionError if it
    is neither, or makes no sense."""
    if data.startswith(_MAGIC):
        return prepared(read_columns(data), data)
    return finished(read(data))


def _read_ours(data: bytes) -> Dict[str, Any]:
    try:
        from .._core import read
    except ImportError:  # a profile can be read where none can be taken
        from .spprof import read
    return read(data)


def read_columns(data: bytes) -> Dict[str, Any]:
    """What `_core.read` gives, with memoryviews of numbers instead of bytes. Raises ValueError if it is no .spprof file."""
    return typed(_read_ours(data))


def typed(result: Dict[str, Any]) -> Dict[str, Any]:
    """What `_core.read` gives, its bytes as numbers."""
    casts: Dict[str, Any] = columns_of("code", "frame", "node", "sample", "value")
    for name, typecode in casts.items():
        result[name] = memoryview(result[name]).cast(typecode)
    return result


def prepared(
    result: Dict[str, Any], data: bytes = b"", whole: Optional[Iterable[int]] = None, cut: Optional[Iterable[int]] = None
) -> Columns:
    """Takes what `read_columns` returned; parses its JSON, adds names and lines of native functions from the file's `data`, and
    makes the tree of stacks (`whole`, `cut`: see `finished`)."""
    result["header"] = header_of(result["header"])
    result["warning"] = result["warning"] or result["header"].pop("warning", None)  # of what it is a part of
    tick_stats = result["tick_stats"] = tick_stats_of(result["tick_stats"])
    if "write_error" in tick_stats:  # the file has the errno, `spprof.stats()` the words
        tick_stats["write_error"] = os.strerror(tick_stats["write_error"]) if tick_stats["write_error"] else None
    result["end"] = end_of(result["end"])
    result["threads"] = threads_of(result["threads"])
    if (tick_stats.get("clock") or result["header"].get("clock")) in _COARSE_CLOCKS:
        result["flags"] = bytes(result["flags"]).translate(bytes(n if n & OFF_CPU else n | COARSE for n in range(256)))
    types = join(result)
    result["label"], result["label_sets"] = _labels(result)
    result["sources"] = {}
    if result["header"].get("native"):
        from .spprof import blocks

        for _, payload in blocks(data, b"N"):
            _name(result, json.loads(payload)["names"])
        payloads = [payload for _, payload in blocks(data, b"L")]
        if payloads:
            _inline(result, json.loads(payloads[-1])["frames"])
    columns = finished(result, whole, cut)
    split(result, types)
    return columns


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
    """Adds the functions that were inlined into a native frame below it, each as its own frame."""
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
    tree = Tree()
    old = Tree(result["node_parent"], result["node_frame"])
    moved = tree.graft(old, range(len(old)), lambda frame: made.get(frame) or (frame,))
    result["node_parent"], result["node_frame"] = tree.parents, tree.frames
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
