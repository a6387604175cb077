"""The columns that a profile works on, as readers give them: what is done to them before anything else looks at them.

Every stack gets a node of its own in one tree (`tree.py`): a truncated one below a node `[truncated]`, one without frames the
node `[no Python frames]`. What called a notebook's cell is left out.
"""

from __future__ import annotations

from array import array
from itertools import compress
from typing import Any, Dict, Iterable, List, Optional, Sequence, Set, cast

from .layout import Columns, columns_of
from .records import NO_FRAMES, TRUNCATED, TRUNCATION
from .tree import Tree

_UNPAIRED_NAME = "[native unpaired]"  # begins a stack that lost its native frames (docs/native-frames.md)
# Where `%spprof` lives. Its frames, and all that called them, are the notebook's and not shown.
_LAUNCHERS = ("/spprof/integrations/ipython.py",)


def finished(result: Dict[str, Any], whole: Optional[Iterable[int]] = None, cut: Optional[Iterable[int]] = None) -> Columns:
    """Adds the tree of stacks, and the column `keys`: the node of each sample's stack.

    `whole`, `cut`: the file's nodes at which whole and truncated stacks end (default: those of the samples). `moved` of the
    result says what became of both where they have another node now."""
    stacks: Sequence[int] = result["stack"]
    flagged = bytes(result["flags"]).translate(bytes(flags & TRUNCATED for flags in range(256)))
    if whole is None:
        whole = set(stacks)
    if cut is None:
        cut = set(compress(stacks, flagged))
    hidden = _launchers(result)
    result["no_frames"], result["truncation"] = _add_placeholders(result)
    parents = _without(hidden, result) if hidden else result["node_parent"]
    tree = _Growing(parents, result["node_frame"])
    to_whole = dict.fromkeys({0, *hidden}.intersection(whole))
    if to_whole:
        to_whole = dict.fromkeys(to_whole, tree.add(0, result["no_frames"]))
    to_cut = _cut_stacks(tree, set(cut), hidden, result) if cut else {}
    result["node_parent"], result["node_frame"] = tree.parents, tree.frames
    result["tree"] = Tree(tree.parents, tree.frames)
    result["moved"] = to_whole, to_cut
    keys: Any = _copy("I", stacks) if to_whole or 1 in flagged else stacks
    result["keys"] = keys
    if to_whole:
        for i in [i for i, stack in enumerate(stacks) if stack in to_whole]:
            keys[i] = to_whole[stacks[i]]
    for i in compress(range(len(flagged)), flagged):
        keys[i] = to_cut[stacks[i]]
    return cast(Columns, result)


def _copy(typecode: str, column: Any) -> Any:
    """A column that can grow."""
    if not isinstance(column, memoryview):
        return array(typecode, column)
    made = array(typecode)
    made.frombytes(column.cast("B"))
    return made


class _Growing:
    """The file's tree, copied when the first node is added."""

    def __init__(self, parents: Sequence[int], frames: Sequence[int]) -> None:
        self.parents: Any = parents
        self.frames: Any = frames
        self.copied = False

    def add(self, parent: int, frame: int) -> int:
        if not self.copied:
            self.parents, self.frames, self.copied = _copy("I", self.parents), _copy("I", self.frames), True
        self.parents.append(parent)
        self.frames.append(frame)
        return len(self.parents) - 1


def _add_placeholders(result: Dict[str, Any]) -> List[int]:
    """Adds the frames `NO_FRAMES` and `TRUNCATION` to the tables. Returns their ids."""
    result["strings"] = strings = list(result["strings"])
    columns = columns_of("code", "frame")
    for name, typecode in columns.items():
        result[name] = _copy(typecode, result[name])
    ids = []
    for placeholder in (NO_FRAMES, TRUNCATION):
        values = {"code_name": len(strings), "code_qualname": len(strings), "code_file": len(strings) + 1}
        values["frame_code"] = len(result["code_name"])
        values.update(zip(("frame_line", "frame_end_line", "frame_col", "frame_end_col"), placeholder[3:7]))
        strings += [placeholder.qualname, placeholder.file]
        ids.append(len(result["frame_code"]))
        for name in columns:
            result[name].append(values.get(name, 0))
    return ids


def _cut_stacks(tree: _Growing, ends: Set[int], hidden: frozenset[int], result: Dict[str, Any]) -> Dict[int, int]:
    """Copies the truncated stacks that end at these nodes to below one node `[truncated]`: each node -> its copy."""
    top = tree.add(0, result["truncation"])
    copies = dict.fromkeys((0, *hidden), top)
    inside = Tree(tree.parents, tree.frames).with_callers(ends - copies.keys())
    parents, frames = tree.parents, tree.frames
    for node in inside:
        if node not in copies:
            copies[node] = tree.add(copies[parents[node]], frames[node])
    nothing = ends & {0, *hidden}
    copies.update(dict.fromkeys(nothing, tree.add(top, result["no_frames"]) if nothing else 0))
    return copies


def _without(launchers: frozenset[int], result: Dict[str, Any]) -> List[int]:
    """Parents of nodes, where the launchers' children are roots, or follow the `[native unpaired]` that began their stack."""
    strings, names, codes = result["strings"], result["code_name"], result["frame_code"]
    parents, frames = result["node_parent"], result["node_frame"]
    unpaired = [0] * len(parents)  # for each node the `[native unpaired]` that its stack begins with, or 0
    made = []
    for node, parent in enumerate(parents):
        if node and parent == 0:
            unpaired[node] = node if strings[names[codes[frames[node]]]] == _UNPAIRED_NAME else 0
        elif node:
            unpaired[node] = unpaired[parent]
        made.append(0 if node in launchers else unpaired[node] if parent in launchers else parent)
    return made


def _launchers(result: Dict[str, Any]) -> frozenset[int]:
    """The nodes of the code that runs a cell under `%spprof`. Their children become roots."""
    strings = result["strings"]
    ours = {file for file in set(result["code_file"]) if any(place in strings[file].replace("\\", "/") for place in _LAUNCHERS)}
    codes = {code for code, file in enumerate(result["code_file"]) if file in ours}
    frames = {frame for frame, code in enumerate(result["frame_code"]) if code in codes}
    if not frames:
        return frozenset()
    return frozenset(node for node, frame in enumerate(result["node_frame"]) if node and frame in frames)
