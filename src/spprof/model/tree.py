"""The tree of stacks: the one way in which stacks are kept, joined, cut and added up.

A node is a call: a frame, called by the node's parent. Node 0 is the root; it has no frame. A parent's number is less than its
child's. A stack is named by the node of its leaf. A stack that lost its callers begins with a node `[truncated]`, and one without
frames is a node `[no Python frames]` (`columns.py` makes both), so no stack needs a rule of its own.
"""

from __future__ import annotations

from array import array
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from .sums import Sums

_FEW = 64  # fewer than one stack in so many nodes: adding up copies them out of the tree first


class Tree:
    """`parents` and `frames` have an entry for each node. What a frame is, the user of the tree decides: a number."""

    __slots__ = ("_children", "frames", "parents")

    def __init__(self, parents: Optional[Sequence[int]] = None, frames: Optional[Sequence[int]] = None) -> None:
        """Without arguments: the root alone, to be grown by `child` and `graft`."""
        self.parents: Any = array("I", [0]) if parents is None else parents
        self.frames: Any = array("I", [0]) if frames is None else frames
        self._children: Dict[int, int] = {}  # parent << 32 | frame -> node, of those that `child` made

    def __len__(self) -> int:
        return len(self.parents)

    def child(self, parent: int, frame: int) -> int:
        """The node of this frame below that parent; made if it is new."""
        key = parent << 32 | frame
        node = self._children.get(key)
        if node is None:
            node = self._children[key] = len(self.parents)
            self.parents.append(parent)
            self.frames.append(frame)
        return node

    def path(self, node: int) -> List[int]:
        """The frames of a stack from root to leaf."""
        parents, frames = self.parents, self.frames
        result = []
        while node:
            result.append(frames[node])
            node = parents[node]
        result.reverse()
        return result

    def with_callers(self, nodes: Iterable[int]) -> List[int]:
        """These nodes and all above them but the root, in order."""
        parents = self.parents
        seen = {0}
        for node in nodes:
            while node not in seen:
                seen.add(node)
                node = parents[node]
        seen.discard(0)
        return sorted(seen)

    def graft(
        self, other: Tree, nodes: Iterable[int], frames_of: Callable[[int], Sequence[int]] = lambda frame: (frame,)
    ) -> Dict[int, int]:
        """Adds stacks of another tree, with each frame replaced by those that `frames_of` gives, callers first (none: it is left
        out). Stacks that become equal become one. Gives for each node on the way the node here."""
        parents, frames, children = other.parents, other.frames, self._children
        add_parent, add_frame, free = self.parents.append, self.frames.append, len(self.parents)
        given: Dict[int, Sequence[int]] = {}
        moved = {0: 0}
        for node in other.with_callers(nodes):
            at, frame = moved[parents[node]], frames[node]
            made = given.get(frame)
            if made is None:
                made = given[frame] = frames_of(frame)
            for each in made:  # `child`, without a call for each node of a large tree
                key = at << 32 | each
                at = children.get(key, 0)
                if not at:
                    at = children[key] = free
                    add_parent(key >> 32)
                    add_frame(each)
                    free += 1
            moved[node] = at
        return moved

    def totals(self, sums: Sums) -> Totals:
        """The sums of these stacks, added up from callee to caller."""
        if len(sums[0]) * _FEW < len(self):
            part = Tree()
            moved = part.graft(self, sums[0])
            return Totals(part, sums, moved)
        return Totals(self, sums)


class Totals:
    """What stacks add up to. `samples` and `nanoseconds` have, for each node, its figures with what it calls; the root's are the
    sum of all. Nodes that no stack passes through are not there."""

    __slots__ = ("_first", "_moved", "_next", "_sums", "nanoseconds", "parents", "samples")

    def __init__(self, tree: Tree, sums: Sums, moved: Optional[Dict[int, int]] = None) -> None:
        """`moved`: the tree's node for each node that `sums` and labels are about, if it is another."""
        self._sums, self._moved, self.parents = sums, moved, tree.parents
        n = len(tree)
        samples, nanoseconds = [0] * n, [0] * n  # no arrays: other profilers' files may add up to more than 64 bits
        there = bytearray(n)
        for stack, count in sums[0].items():
            node = moved[stack] if moved else stack
            samples[node] += count
            nanoseconds[node] += sums[1][stack]
            there[node] = 1
        first, sibling, parents = array("I", bytes(4 * n)), array("I", bytes(4 * n)), tree.parents
        for node in range(n - 1, 0, -1):  # children before their parents
            if there[node]:
                parent = parents[node]
                there[parent] = 1
                samples[parent] += samples[node]
                nanoseconds[parent] += nanoseconds[node]
                sibling[node], first[parent] = first[parent], node
        self.samples, self.nanoseconds, self._first, self._next = samples, nanoseconds, first, sibling

    def _own_labels(self, labels: Sequence[int]) -> Sequence[int]:
        if self._moved is None:
            return labels
        own = array("I", bytes(4 * len(self.parents)))
        for old, new in self._moved.items():
            own[new] = labels[old]
        return own

    def outermost(self, labels: Sequence[int]) -> Iterator[int]:
        """Nodes that have no caller with the same label: so that recursion counts once. Labels count from 0."""
        first, sibling = self._first, self._next
        open_labels = array("I", bytes(4 * (max(labels, default=0) + 1)))
        path: List[int] = []
        node = first[0]
        while node or path:
            if not node:  # everything below is done
                node = path.pop()
                open_labels[labels[node]] -= 1
                node = sibling[node]
                continue
            label = labels[node]
            if not open_labels[label]:
                yield node
            if first[node]:
                open_labels[label] += 1
                path.append(node)
                node = first[node]
            else:
                node = sibling[node]

    def figures(self, labels: Sequence[int]) -> Dict[int, Tuple[int, int, int, int]]:
        """Label -> (self samples, self ns, total samples, total ns), where `labels[node]` says whose figures a node adds to.

        A label that occurs several times in one stack (recursion) gets that stack's total once."""
        figures: Dict[int, List[int]] = {}
        nanoseconds = self._sums[1]
        for stack, count in self._sums[0].items():
            figure = figures.setdefault(labels[stack], [0, 0, 0, 0])
            figure[0] += count
            figure[1] += nanoseconds[stack]
        own = self._own_labels(labels)
        for node in self.outermost(own):
            figure = figures.setdefault(own[node], [0, 0, 0, 0])
            figure[2] += self.samples[node]
            figure[3] += self.nanoseconds[node]
        return {label: (f[0], f[1], f[2], f[3]) for label, f in figures.items()}
