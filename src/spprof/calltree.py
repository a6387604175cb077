"""The call tree of one profile or several: who called whom for how long, with calls of one function by one caller as one node."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

from .model import NO_FRAMES, TRUNCATION, Profile

Namer = Callable[[int], Any]


class Node:
    """A call: `name` is what the namer made of its frame, `weights` the nanoseconds in each profile, with what it calls."""

    __slots__ = ("calls", "name", "weights")

    def __init__(self, name: Any, profiles: int) -> None:
        self.name = name
        self.weights = [0] * profiles
        self.calls: Dict[Any, Node] = {}

    def called(self, name: Any) -> Node:
        """The call of that name from here."""
        if name not in self.calls:
            self.calls[name] = Node(name, len(self.weights))
        return self.calls[name]

    def walk(self, keep: Callable[[Node], bool]) -> Iterator[Tuple[int, Node]]:
        """All calls below with their depth (0: called by none), callers first, the heaviest first; what is not kept is left out
        with what it calls."""
        todo: List[Tuple[int, Node]] = [(-1, self)]
        while todo:
            depth, node = todo.pop()
            if node is not self:
                yield depth, node
            calls = [call for call in node.calls.values() if keep(call)]
            todo += [(depth + 1, call) for call in sorted(calls, key=lambda call: (sum(call.weights), str(call.name)))]


def call_tree(
    profiles: Sequence[Profile], namers: Sequence[Namer], thread: Optional[str] = None, python_only: bool = False
) -> Node:
    """The root, which has all the weight. `namers[i]` gives the name of a frame's id of `profiles[i]`; stacks without frames and
    truncated ones have a name of `NO_FRAMES[:4]` and `TRUNCATION[:4]` at their root."""
    root = Node(None, len(profiles))
    for which, (profile, namer) in enumerate(zip(profiles, namers)):
        names: Dict[int, Any] = {}
        for key, weight in profile.stack_sums(thread)[1].items():
            node = root
            node.weights[which] += weight
            path = [TRUNCATION[:4]] if key < 0 else []
            for id in profile.stack_frames(key):
                if id not in names:
                    names[id] = None if python_only and profile.frame(id).native else namer(id)
                if names[id] is not None:
                    path.append(names[id])
            for name in path or [NO_FRAMES[:4]]:
                node = node.called(name)
                node.weights[which] += weight
    return root
