"""A profile with a frame below each leaf that says why the thread was off the CPU: for flame graphs (docs/waits.md)."""

from __future__ import annotations

from array import array
from typing import Any, Dict, Tuple

from ..errors import BadOption
from .data import Data
from .layout import changed, column, columns_of
from .records import OFF_CPU
from .tree import Tree
from .waits import TITLES


def explained(profile: Data) -> Data:
    """Stacks of threads that ran stay as they are. Raises BadOption if the profile is not of wall time alone."""
    if profile.mode != "wall" or profile.unit != "nanoseconds":
        raise BadOption("threads that wait were not sampled; take a profile with `spprof run --mode wall`")
    if len(profile.sample_types) > 1:
        raise BadOption("only time has reasons: choose it with --type time")
    columns = profile._columns()
    made: Dict[str, Any] = {name: array(kind, column(columns, name)) for name, kind in columns_of("code", "frame").items()}
    strings, origin = list(columns["strings"]), profile.origin
    parents, of_nodes = array("I", columns["tree"].parents), array("I", columns["tree"].frames)
    frames: Dict[Tuple[int, int, int], int] = {}
    nodes: Dict[Tuple[int, int], int] = {}

    def frame_of(why: Tuple[int, int, int]) -> int:
        reason, on, by = why
        title = TITLES[profile.reasons[reason]] + (f": {strings[on - 1]}" if on else "")
        title += f", held by {origin.thread_name(by - 1)}" if by else ""
        values = {"code_name": len(strings), "code_qualname": len(strings), "code_file": len(strings) + 1}
        values.update(frame_code=len(made["code_name"]), frame_col=-1, frame_end_col=-1)
        strings.extend([f"[{title}]", ""])
        for name, grown in made.items():
            grown.append(values.get(name, 0))
        return len(made["frame_code"]) - 1

    keys = array("I", profile.stack_keys())
    whys = zip(profile.column("reason"), columns["waits_on"], columns["held_by"])
    for i, (flags, why) in enumerate(zip(columns["flags"], whys)):
        if not flags & OFF_CPU:
            continue
        if why not in frames:
            frames[why] = frame_of(why)
        below = keys[i], frames[why]
        if below not in nodes:
            nodes[below] = len(parents)
            parents.append(keys[i])
            of_nodes.append(frames[why])
        keys[i] = nodes[below]
    made.update(strings=strings, keys=keys, tree=Tree(parents, of_nodes), node_parent=parents, node_frame=of_nodes, callers=None)
    made.update(reason=profile.column("reason"), explained=True)
    return profile.of_columns(changed(columns, made), profile)
