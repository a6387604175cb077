"""The call tree of one profile or several: which function called which, and for how long, with calls of one function by one
caller as one node."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..model.data import ProfileData
from ..model.sums import moved
from ..model.tree import Totals, Tree

Namer = Callable[[int], Any]


class Call(NamedTuple):
    """`name` is what the namer made of the frame; `weights`: the nanoseconds in each profile, with what it calls; `squares`: of
    all profiles, what `Whole.samples_of` needs where samples are big."""

    name: Any
    weights: List[int]
    squares: float = 0.0


class CallTree:
    """`namers[i]` gives the name of a frame's id of `profiles[i]`. With `python_only` native functions are left out; what is then
    without a function is the name of the frame `[no Python frames]`."""

    def __init__(
        self, profiles: Sequence[ProfileData], namers: Sequence[Namer], thread: Optional[str] = None, python_only: bool = False
    ) -> None:
        names: Dict[Any, int] = {}
        self._tree = Tree()
        nanoseconds: List[Sequence[int]] = []
        squares: List[Sequence[float]] = []
        big = any(profile.has_big_samples(thread) for profile in profiles)
        for profile, namer in zip(profiles, namers):

            def named(id: int, profile: ProfileData = profile, namer: Namer = namer) -> Tuple[int, ...]:
                if python_only and profile.frame(id).native:
                    return ()
                return (names.setdefault(namer(id), len(names)),)

            sums = profile.stack_sums(thread)
            nodes = self._tree.graft(profile.tree, sums[0], named)
            bare = [stack for stack in sums[0] if not nodes[stack]]
            if bare:
                nothing = self._tree.child(0, names.setdefault(namer(profile.no_frames), len(names)))
                nodes.update(dict.fromkeys(bare, nothing))
            nanoseconds.append(Totals(self._tree, moved(sums, nodes)).nanoseconds)
            if big:
                squares.append(Totals(self._tree, moved(profile.stack_squares(thread), nodes)).samples)
        self._finish(list(names), nanoseconds, squares)

    @classmethod
    def around(
        cls, profiles: Sequence[ProfileData], namers: Sequence[Namer], of: Callable[[Any], bool], callers: bool,
        thread: Optional[str] = None, python_only: bool = False,
    ) -> CallTree:  # fmt: skip
        """The functions whose names `of` chooses with what they call, or (`callers`) with what calls them, below. In a stack that
        has several of them the outermost is meant, so a recursion counts once."""
        made = cls.__new__(cls)
        made._tree = Tree()
        names: Dict[Any, int] = {}
        nanoseconds: List[Sequence[int]] = []
        squares: List[Sequence[float]] = []
        big = any(profile.has_big_samples(thread) for profile in profiles)
        for profile, namer in zip(profiles, namers):
            tree, (samples, weights) = profile.tree, profile.stack_sums(thread)
            frames = set(tree.frames[1:])
            hidden = {id for id in frames if python_only and profile.frame(id).native}
            known = {id: namer(id) for id in frames - hidden}
            chosen = {id for id, name in known.items() if of(name)}
            tops = [0]  # for each node the outermost that is meant
            for node in range(1, len(tree)):
                tops.append(tops[tree.parents[node]] or (node if tree.frames[node] in chosen else 0))
            moved_to: Dict[int, int] = {}
            for stack in samples:
                top, node = tops[stack], 0
                if not top:
                    continue
                above = tree.path(top)
                path = above[::-1] if callers else tree.path(stack)[len(above) - 1 :]
                for id in path:
                    if id not in hidden:
                        node = made._tree.child(node, names.setdefault(known[id], len(names)))
                moved_to[stack] = node
            nanoseconds.append(Totals(made._tree, _of(moved_to, (samples, weights))).nanoseconds)
            if big:
                squares.append(Totals(made._tree, _of(moved_to, profile.stack_squares(thread))).samples)
        made._finish(list(names), nanoseconds, squares)
        return made

    def _finish(self, found: List[Any], nanoseconds: List[Sequence[int]], squares: List[Sequence[float]]) -> None:
        def of(node: int, figures: List[Sequence[Any]]) -> List[Any]:
            return [each[node] if node < len(each) else 0 for each in figures]

        self._calls = [
            Call(found[name] if node else None, of(node, nanoseconds), sum(of(node, squares)))
            for node, name in enumerate(self._tree.frames)
        ]
        self._below: Dict[int, List[int]] = {}
        for node in range(1, len(self._tree)):
            self._below.setdefault(self._tree.parents[node], []).append(node)

    @property
    def root(self) -> Call:
        """All the weight, under no name."""
        return self._calls[0]

    def __len__(self) -> int:
        """The number of calls."""
        return len(self._calls) - 1

    def walk(self, keep: Callable[[Call], bool]) -> Iterator[Tuple[int, Call]]:
        """All calls with their depth (0: called by none), callers first, the heaviest first; what is not kept is left out with
        what it calls."""
        todo: List[Tuple[int, int]] = [(-1, 0)]
        while todo:
            depth, node = todo.pop()
            if node:
                yield depth, self._calls[node]
            kept = [each for each in self._below.get(node, ()) if keep(self._calls[each])]
            kept.sort(key=lambda each: (sum(self._calls[each].weights), str(self._calls[each].name)))
            todo += [(depth + 1, each) for each in kept]


def _of(moved_to: Dict[int, int], sums: Any) -> Any:
    """The sums of these stacks, under the names that they have there."""
    some, weights = ({stack: each[stack] for stack in moved_to if stack in each} for each in sums)
    return moved((some, weights), moved_to)
