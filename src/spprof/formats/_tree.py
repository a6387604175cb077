"""The part of a profile's tree that a format writes, with numbers of its own."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Iterable

from ..model.tree import Tree
from ._frames import Frames

if TYPE_CHECKING:
    from ..model.data import ProfileData


class Part:
    """`tree`: the stacks that were asked for. `nodes`: for each of them its node there. `looks`: for each node the number of its
    frame in `Frames` (of the root, which has no frame, 0)."""

    def __init__(self, profile: ProfileData, frames: Frames, stacks: Iterable[int]) -> None:
        self.tree = Tree()
        self.nodes = self.tree.graft(profile.tree, stacks)
        self.looks = array("I", [0])
        self.looks.extend(map(frames.numbers.__getitem__, self.tree.frames[1:]))
