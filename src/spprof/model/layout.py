"""The columns of a file's blocks S and V, one row each, in the order of the file: csrc/core/resolve/columns.h for Python, which
also reads where there is no C core. A test compares the two (`_core.COLUMNS`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple, TypedDict, cast

if TYPE_CHECKING:
    from .calls import Calls
    from .exceptions import Exceptions
    from .hot import HotCalls
    from .imports import Import
    from .line_counts import LineCounts
    from .records import Marker
    from .requests import Request
    from .specialization import Unspecialized
    from .times import Times
    from .tree import Tree

# Name ("": readers keep it apart), table, type of a value as in `array`.
COLUMNS: Tuple[Tuple[str, str, str], ...] = (
    ("", "string", "I"),  # lengths, and the text of all
    ("", "byte", "B"),
    ("code_name", "code", "I"),
    ("code_qualname", "code", "I"),
    ("code_file", "code", "I"),
    ("code_line", "code", "I"),
    ("frame_code", "frame", "I"),
    ("frame_line", "frame", "i"),
    ("frame_end_line", "frame", "i"),
    ("frame_col", "frame", "i"),
    ("frame_end_col", "frame", "i"),
    ("node_parent", "node", "I"),
    ("node_frame", "node", "I"),
    ("thread", "sample", "I"),
    ("time_ns", "sample", "q"),
    ("weight", "sample", "q"),
    ("stack", "sample", "I"),
    ("count", "sample", "I"),
    ("flags", "sample", "B"),
    ("code_kind", "code", "B"),
    ("label", "sample", "I"),
    ("reason", "sample", "B"),
    ("waits_on", "sample", "I"),
    ("task", "sample", "I"),
    ("held_by", "sample", "I"),
    ("span", "sample", "I"),
    ("awaited_by", "sample", "I"),
    ("value_type", "value", "B"),  # from here on: block V
    ("value_thread", "value", "I"),
    ("value_time_ns", "value", "q"),
    ("value_weight", "value", "q"),
    ("value_stack", "value", "I"),
    ("value_count", "value", "I"),
    ("value_flags", "value", "B"),
    ("value_label", "value", "I"),
    ("value_reason", "value", "B"),
    ("value_waits_on", "value", "I"),
    ("value_task", "value", "I"),
    ("value_awaited_by", "value", "I"),
)
VALUES = [name for name, _, _ in COLUMNS].index("value_type")  # the first of block V
OPTIONAL = [name for name, _, _ in COLUMNS].index("code_kind")  # from here on: a block S may end before each; then all are 0

VALUES_OPTIONAL = [name for name, _, _ in COLUMNS].index("value_reason")  # and a block V before each from here on

# Column of a sample -> that of a row of block V, which has no others.
VALUE_COLUMNS = {name[len("value_") :]: name for name, table, _ in COLUMNS if table == "value" and name != "value_type"}

# Columns of a sample that name something in another table of the profile, and how: all others hold plain values.
NAMING = {
    "thread": "thread",
    "stack": "stack",
    "label": "label",  # a set of labels
    "waits_on": "string + 1",  # 0: none
    "task": "string + 1",
    "held_by": "thread + 1",
    "span": "string + 1",
    "awaited_by": "string + 1",
}

FIRST = {table: number for number, (_, table, _) in reversed(list(enumerate(COLUMNS)))}  # the column that says a table's length


def columns_of(*tables: str) -> Dict[str, str]:
    """Name and type of each column of these tables."""
    return {name: typecode for name, table, typecode in COLUMNS if name and table in tables}


class Columns(TypedDict, total=False):
    """A profile, as readers give it and all of `model` works on: tables whose columns are the rows above, and what belongs to
    them. A column that somebody reads by its name has a line here."""

    header: Dict[str, Any]
    tick_stats: Dict[str, Any]
    end: Optional[Dict[str, Any]]
    warning: Optional[str]
    being_written: bool
    shown: str  # the name of the type of samples that these are, of a part
    numbers: Sequence[int]  # of samples, in the whole that this is a part of
    by_type: Dict[int, Any]  # of each type of samples: what a profile of it alone has other than this one
    strings: List[str]
    threads: Dict[int, Dict[str, Any]]
    label_sets: List[Dict[str, str]]
    sources: Dict[int, Tuple[str, int]]  # of native frames by id: the source file and line
    markers: List[Marker]
    requests: List[Request]
    calls: Optional[Calls]
    hot: Optional[HotCalls]
    times: Optional[Times]
    line_counts: Optional[LineCounts]
    exceptions: Optional[Exceptions]
    imports: Optional[List[Import]]
    unspecialized: Optional[Unspecialized]
    code_name: Sequence[int]
    code_qualname: Sequence[int]
    code_file: Sequence[int]
    code_line: Sequence[int]
    code_kind: Sequence[int]
    frame_code: Sequence[int]
    frame_line: Sequence[int]
    frame_end_line: Sequence[int]
    frame_col: Sequence[int]
    frame_end_col: Sequence[int]
    node_parent: Sequence[int]
    node_frame: Sequence[int]
    thread: Sequence[int]
    time_ns: Sequence[int]
    weight: Sequence[int]
    stack: Sequence[int]
    count: Sequence[int]
    flags: Sequence[int]
    label: Sequence[int]
    reason: Sequence[int]
    waits_on: Sequence[int]  # a string + 1
    task: Sequence[int]  # a string + 1
    held_by: Sequence[int]  # a thread + 1
    span: Sequence[int]  # a string + 1
    awaited_by: Sequence[int]  # a string + 1
    # What columns.py adds.
    keys: Sequence[int]  # of each sample: the node of its stack in `tree`
    tree: Tree
    no_frames: int  # the id of that frame
    truncation: int
    callers: List[int]  # see aggregation.callers
    explained: bool  # the column `reason` is that of `waits.reasons`, for stacks that are not whole any more
    shape: Sequence[int]  # of each node of the whole's tree, what it is in `tree`, if functions were left out (shaping.py)
    moved: Tuple[Dict[int, int], Dict[int, int]]
    waited: Dict[Tuple[int, int, int, int, int], int]  # without samples: their thread, stack, reason, what on, holder -> weight


def column(columns: Columns, name: str) -> Sequence[int]:
    """A column whose name is no literal."""
    found: Sequence[int] = cast(Dict[str, Any], columns)[name]
    return found


def changed(columns: Columns, changes: Dict[str, Any]) -> Columns:
    """A copy with other values."""
    return cast(Columns, {**columns, **changes})
