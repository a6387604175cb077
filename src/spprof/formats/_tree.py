"""The stacks of a profile as one tree, and what samples add up to in it."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Dict, Iterable, Iterator, List, Sequence, Tuple

from ..model import NO_FRAMES, TRUNCATION
from ._frames import Frames

if TYPE_CHECKING:
    from .._trie import Sums
    from ..model import Frame, Profile


class Tree:
    """Nodes count from 0, parents before their children. `parents` (-1: none) and `frames` (numbers of `Frames`) have a value for
    each node; `nodes` tells the node of each stack key. Marks such as `[truncated]` are nodes."""

    def __init__(self, profile: Profile, frames: Frames, keys: Iterable[int]) -> None:
        self.parents, self.frames = array("i"), array("I")
        self.nodes: Dict[int, int] = {}
        parents, frame_ids, launchers = profile.stack_tree()
        whole = array("i", [-1]) * len(parents)  # the profile's node -> the node here
        cut: Dict[int, int] = {}  # the same in truncated stacks
        roots: Dict[Frame, int] = {}

        def root(mark: Frame) -> int:
            if mark not in roots:
                roots[mark] = self._add(-1, frames.mark(mark))
            return roots[mark]

        for key in keys:
            node, top = (key, -1) if key >= 0 else (~key, root(TRUNCATION))
            if not node or node in launchers:
                self.nodes[key] = root(NO_FRAMES) if key >= 0 else self._add(top, frames.mark(NO_FRAMES))
                continue
            path: List[int] = []
            while node and (whole[node] if key >= 0 else cut.get(node, -1)) < 0:
                path.append(node)
                node = parents[node]
            at = top if not node else whole[node] if key >= 0 else cut[node]
            for node in reversed(path):
                at = self._add(at, frames.numbers[frame_ids[node]])
                if key >= 0:
                    whole[node] = at
                else:
                    cut[node] = at
            self.nodes[key] = at

    def _add(self, parent: int, number: int) -> int:
        self.parents.append(parent)
        self.frames.append(number)
        return len(self.parents) - 1

    def totals(self, sums: Sums) -> Tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]]:
        """Of each node its own samples and nanoseconds, and those of all stacks that pass through it."""
        own = array("q", bytes(8 * len(self.parents))), array("q", bytes(8 * len(self.parents)))
        for column, values in zip(own, sums):
            for key, value in values.items():
                column[self.nodes[key]] += value
        samples, nanoseconds = array("q", own[0]), array("q", own[1])
        parents = self.parents
        for node in range(len(parents) - 1, -1, -1):
            parent = parents[node]
            if parent >= 0:
                samples[parent] += samples[node]
                nanoseconds[parent] += nanoseconds[node]
        return (*own, samples, nanoseconds)

    def outermost(self, labels: Sequence[int]) -> Iterator[int]:
        """Nodes none of whose ancestors has the same label: so that recursion counts once. Labels count from 0."""
        parents = self.parents
        first = array("i", [-1]) * (len(parents) + 1)  # child of each node, the roots' last
        sibling = array("i", [-1]) * len(parents)
        for node in range(len(parents) - 1, -1, -1):
            sibling[node], first[parents[node]] = first[parents[node]], node
        open_labels = array("I", bytes(4 * (max(labels, default=0) + 1)))
        path: List[int] = []
        node = first[-1]
        while node >= 0 or path:
            if node < 0:  # all below is done
                node = path.pop()
                open_labels[labels[node]] -= 1
                node = sibling[node]
                continue
            label = labels[node]
            if not open_labels[label]:
                yield node
            open_labels[label] += 1
            path.append(node)
            node = first[node]
