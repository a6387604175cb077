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
    moved: Dict[int, int] = {}

    def frames_of(id: int) -> Sequence[int]:
        return (id,) if profile.is_placeholder(id) or id not in left_out else ()

    def keys_of(keys: Sequence[int]) -> Sequence[int]:
        new = set(keys).difference(moved)
        found = tree.graft(profile.tree, new, frames_of)
        moved.update((key, found[key] or tree.child(0, nothing)) for key in new)
        return array("I", map(moved.__getitem__, keys))

    by_type = {type: {**of, "keys": keys_of(of["keys"])} for type, of in columns.get("by_type", {}).items()}
    changes: Dict[str, Any] = {"keys": keys_of(profile.stack_keys()), "by_type": by_type, "tree": tree, "callers": None}
    changes.update(node_parent=tree.parents, node_frame=tree.frames)
    parts = [part for part in (profile.header.get("part"), words) if part]
    changes["header"] = {**profile.header, "part": ", ".join(parts)}
    made = profile.of_columns(changed(columns, changes), profile)
    made._reasons = profile.column("reason")  # which whole stacks explain
    return made
