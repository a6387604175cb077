"""The columns of a file's blocks S and V, one row each, in the order of the file: csrc/core/resolve/columns.h for Python, which
also reads where there is no C core. A test compares the two (`_core.COLUMNS`)."""

from __future__ import annotations

from typing import Dict, Tuple

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
    ("value_type", "value", "B"),  # from here on: block V
    ("value_thread", "value", "I"),
    ("value_time_ns", "value", "q"),
    ("value_weight", "value", "q"),
    ("value_stack", "value", "I"),
    ("value_count", "value", "I"),
    ("value_flags", "value", "B"),
    ("value_label", "value", "I"),
)
VALUES = [name for name, _, _ in COLUMNS].index("value_type")  # the first of block V
OPTIONAL = [name for name, _, _ in COLUMNS].index("code_kind")  # from here on: a block S may end before each; then all are 0

FIRST = {table: number for number, (_, table, _) in reversed(list(enumerate(COLUMNS)))}  # the column that says a table's length


def columns_of(*tables: str) -> Dict[str, str]:
    """Name and type of each column of these tables."""
    return {name: typecode for name, table, typecode in COLUMNS if name and table in tables}
