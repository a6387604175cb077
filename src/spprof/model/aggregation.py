"""From samples at the leaves of the tree of stacks to self and total figures of every function: pure functions over columns."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

from .demangle import demangle
from .layout import Columns
from .records import NO_FRAMES, Frame, FunctionRow, NativeCall
from .sums import Sums


def code_text(columns: Columns, code: int) -> Tuple[str, str, str]:
    """The name, qualified name and file of a code object."""
    strings = columns["strings"]
    name, qualname = strings[columns["code_name"][code]], strings[columns["code_qualname"][code]]
    if columns["code_kind"][code]:
        name, qualname = demangle(name), demangle(qualname)
    return name, qualname, strings[columns["code_file"][code]]


def frame_of(columns: Columns, id: int) -> Frame:
    """A frame by its id."""
    line, end_line, col, end_col = (columns[name][id] for name in ("frame_line", "frame_end_line", "frame_col", "frame_end_col"))
    code = columns["frame_code"][id]
    native, source = bool(columns["code_kind"][code]), columns["sources"].get(id, ("", 0))
    return Frame(*code_text(columns, code), line, end_line, col, end_col, native, *source)


def is_native(columns: Columns, frame: int) -> bool:
    """Whether a frame is that of a native function."""
    return bool(columns["code_kind"][columns["frame_code"][frame]])


def functions(columns: Columns, sums: Sums, by: str, only: Optional[str]) -> List[FunctionRow]:
    """See `ProfileData.functions`; `sums`: of the threads that count."""
    found = figures(columns, sums, lambda frame: key_of(columns, frame, by), only)
    rows = [FunctionRow._make((*key, *each)) for key, each in found.items()]
    return sorted(rows, key=lambda row: (-row.self_weight, -row.total_weight, row.file, row.line, row.qualname))


def key_of(columns: Columns, frame: int, by: str) -> Tuple[Any, ...]:
    """The first four fields of the row of `functions` that a frame belongs to."""
    code = columns["frame_code"][frame]
    line = columns["frame_line"][frame] if by == "line" else columns["code_line"][code]
    key: Tuple[Any, ...] = (*code_text(columns, code), 0 if columns["code_kind"][code] else line)
    if by == "line" and frame in columns["sources"]:
        key = (*key[:2], *columns["sources"][frame])
    return key


def figures(
    columns: Columns, sums: Sums, key_of: Callable[[int], Any], only: Optional[str]
) -> Dict[Any, Tuple[int, int, int, int]]:
    """See `ProfileData.figures`."""
    ids: Dict[Any, int] = {}
    of_frame = [ids.setdefault(key_of(frame), len(ids)) for frame in range(len(columns["frame_code"]))]
    nothing = of_frame[columns["no_frames"]]
    labels = [nothing, *map(of_frame.__getitem__, columns["node_frame"][1:])]
    if only == "python":
        labels = [labels[node] for node in callers(columns)]
    result = columns["tree"].totals(sums).figures(labels)
    own = result.pop(nothing, (0, 0))[:2]  # its total would have the Python functions that native code called
    if any(own):
        result[nothing] = (*own, *own)
    if only == "native":
        native = {label for frame, label in enumerate(of_frame) if is_native(columns, frame)}
        result = {label: result[label] for label in native.intersection(result)}
    keys = list(ids)
    return {keys[label]: figure for label, figure in result.items()}


def native_calls(columns: Columns, sums: Sums) -> List[NativeCall]:
    """See `ProfileData.native_calls`."""
    callers_of, frames = callers(columns), columns["node_frame"]
    samples, weights = sums
    result: Dict[Tuple[Any, ...], List[int]] = {}
    for node in samples:
        if not is_native(columns, frames[node]):
            continue
        leaf, caller = frame_of(columns, frames[node]), callers_of[node]
        line = frame_of(columns, frames[caller]) if caller else NO_FRAMES
        figure = result.setdefault((line.qualname, line.file, line.line, leaf.qualname, leaf.file), [0, 0])
        figure[0] += samples[node]
        figure[1] += weights[node]
    calls = [NativeCall(*key, *figure) for key, figure in result.items()]
    return sorted(calls, key=lambda call: (-call.weight, call[:5]))


def callers(columns: Columns) -> List[int]:
    """For each node: itself if its frame is not native, else the nearest node above that is Python's; 0 if there is none."""
    known = columns.get("callers")
    if known is None:
        kinds, codes, cut = columns["code_kind"], columns["frame_code"], columns["truncation"]
        parents, frames = columns["node_parent"], columns["node_frame"]
        known = columns["callers"] = [0]
        for node in range(1, len(frames)):
            caller = known[parents[node]] if kinds[codes[frames[node]]] else node
            known.append(0 if caller != node and frames[caller] == cut else caller)
    return known
