"""A profile with stacks from which functions are left out, as a profile of its own. No time is lost: that of a function that is
not there is its caller's."""

from __future__ import annotations

from array import array
from typing import Any, Container, Dict, Sequence

from .data import Data
from .layout import changed
from .tree import Tree


def shaped(profile: Data, left_out: Container[int], words: str) -> Data:
    """`left_out`: ids of frames; placeholders stay. A stack that has none left is `[no Python frames]`. `words`: what was asked
    for, for the header's `part`."""
    columns = profile._columns()
    tree, nothing = Tree(), profile.no_frames

    def frames_of(id: int) -> Sequence[int]:
        return (id,) if profile.is_placeholder(id) or id not in left_out else ()

    nodes = range(len(profile.tree))  # all: those that held what others waited for may have no samples in a part
    found = tree.graft(profile.tree, nodes, frames_of)
    moved = array("I", (found[node] or tree.child(0, nothing) for node in nodes))

    def of_samples(of: Data) -> Dict[str, Any]:
        return {"keys": _moved(moved, of.stack_keys()), "reason": of.column("reason")}  # which whole stacks explain

    changes: Dict[str, Any] = {**of_samples(profile), "explained": True, "tree": tree, "callers": None}
    listed = zip(profile._listed_types(), profile.each_type()) if "by_type" in columns else ()
    changes["by_type"] = {about["type"]: {**columns["by_type"][about["type"]], **of_samples(of)} for about, of in listed}
    changes["shape"] = _moved(moved, columns.get("shape") or nodes)
    changes.update(node_parent=tree.parents, node_frame=tree.frames)
    parts = [part for part in (profile.header.get("part"), words) if part]
    changes["header"] = {**profile.header, "part": ", ".join(parts)}
    return profile.of_columns(changed(columns, changes), profile)


def _moved(moved: Sequence[int], keys: Sequence[int]) -> Sequence[int]:
    return array("I", map(moved.__getitem__, keys))
