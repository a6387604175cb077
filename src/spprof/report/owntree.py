"""The first answer of a summary: the tree of the user's own functions, in about twenty lines.

What they call in a library is one node, whatever happens in it, and what that calls back of the user's is below it. The import
system's frames and the code of the module are one node, `import x`. A function that calls itself, in whatever way, is one node:
its calls are on the stack once, so figures are those of the table. A node's time is that in which its calls were on the stack.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from ..model import intervals
from ..model.data import ProfileData
from ..model.intervals import Estimate
from .imports import module_name
from .owners import IMPORTS, MINE, Owners
from .paths import full_paths, short, tails
from .text import amount, fit, percent, shown

MOST = 18  # lines
_LEAST = 0.01  # of all time: less is left out, and a line of its own is not worth less
_REST = 0.1  # of a call: so much may be beside the one that is shown in its line
_COLUMNS = 80

_FUNCTION, _LIBRARY, _IMPORT, _FOREIGN_IMPORT, _FINDING = range(5)  # kinds of nodes; the last: modules are looked for and read
_MINE = (_FUNCTION, _IMPORT)
# Comprehensions are their caller's: from Python 3.12 on they have no frame (PEP 709).
_INLINED = ("<listcomp>", "<dictcomp>", "<setcomp>")


class Node(NamedTuple):
    """`name`: of a function the qualified name, file and first line; else what is shown. `parent`: 0 is the root."""

    parent: int
    kind: int
    name: Tuple[Any, ...]


class OwnTree:
    """Of several profiles together. `python_only`: native functions are their callers'."""

    def __init__(
        self, profiles: Sequence[ProfileData], owners: Owners, thread: Optional[str] = None, python_only: bool = False
    ) -> None:
        self.nodes: List[Node] = [Node(0, _FUNCTION, ())]
        self._owners, self._python_only = owners, python_only
        self._ids: Dict[Tuple[int, int, Tuple[Any, ...]], int] = {}
        self.whole = intervals.together(profile.whole(thread) for profile in profiles)
        self.is_wall = all(profile.mode == "wall" and profile.unit == "nanoseconds" for profile in profiles)
        self.totals: Counter[int] = Counter()
        self.waiting: Counter[int] = Counter()  # that part of it in which the thread did not run, in wall mode
        self._squares: Counter[int] = Counter()
        big = any(profile.has_big_samples(thread) for profile in profiles)
        for profile in profiles:
            labels, totals = self._labels(profile), profile.tree.totals
            self._add(self.totals, totals(profile.stack_sums(thread)).figures(labels), 3)
            if self.is_wall:
                self._add(self.waiting, totals(profile.off_cpu_sums(thread)).figures(labels), 3)
            if big:
                self._add(self._squares, totals(profile.stack_squares(thread)).figures(labels), 2)

    def _add(self, to: Counter[int], figures: Dict[int, Tuple[int, int, int, int]], which: int) -> None:
        """Total figures; of the search for modules its own, without the modules' code."""
        for node, each in figures.items():
            to[node] += each[which - 2 if self.nodes[node].kind == _FINDING else which]

    def __bool__(self) -> bool:
        """Whether any code is the user's own."""
        return any(node.kind in _MINE and self.totals[number] for number, node in enumerate(self.nodes) if number)

    def most_called(self) -> str:
        """The library in which more than half of all time is that the user's code calls it, not the reverse; "": none."""
        of: Counter[str] = Counter()
        for number, node in enumerate(self.nodes):
            caller = self.nodes[node.parent]
            if node.kind == _LIBRARY and caller.kind in _MINE:
                of[str(node.name[0])] += self.totals[number]
            elif caller.kind == _LIBRARY:
                of[str(caller.name[0])] -= self.totals[number]
        return next((name for name, time in of.most_common(1) if 2 * time > self.whole.weight), "")

    def share(self, node: int) -> Estimate:
        """Of all time."""
        return self.whole.share(self.totals[node], squares=self._squares[node])

    def _labels(self, profile: ProfileData) -> List[int]:
        """The node of each node of the profile's tree."""
        parents, frames = profile.tree.parents, profile.tree.frames
        labels, importing = [0], bytearray(len(parents))
        kinds: Dict[int, Tuple[Optional[str], Tuple[Any, ...]]] = {}
        steps: Dict[Tuple[int, int, int], Tuple[int, int]] = {}
        for node in range(1, len(parents)):
            frame = frames[node]
            key = (labels[parents[node]], importing[parents[node]], frame)
            step = steps.get(key)
            if step is None:
                if frame not in kinds:
                    kinds[frame] = self._kind(profile, frame)
                step = steps[key] = self._step(key[0], bool(key[1]), *kinds[frame])
            labels.append(step[0])
            importing[node] = step[1]
        return labels

    def _kind(self, profile: ProfileData, id: int) -> Tuple[Optional[str], Tuple[Any, ...]]:
        """The owner of a frame, and its function."""
        frame = profile.frame(id)
        if profile.is_placeholder(id):
            return (frame.qualname if id == profile.no_frames else None), ()
        if frame.native:
            return (None if self._python_only else self._owners.of(frame.file, True)), ()
        if frame.qualname.rpartition(".")[2] in _INLINED:
            return None, ()
        return self._owners.of(frame.file, False), (frame.qualname, frame.file, profile.first_line(id)) if frame.file else ()

    def _step(self, at: int, importing: bool, owner: Optional[str], name: Tuple[Any, ...]) -> Tuple[int, bool]:
        """The node of a frame below `at`, and whether the import system has called it (and no module's code yet)."""
        kind, parent = self.nodes[at].kind, self.nodes[at].parent
        module = bool(name) and name[0] == "<module>"
        if owner is None and name and kind not in (_LIBRARY, _FOREIGN_IMPORT, _FINDING):
            owner = MINE
        if owner is None:
            return at, importing
        if owner == MINE:
            base = parent if kind == _FINDING else at
            if module and importing:
                return self._below(base, _IMPORT, ("import " + module_name(name[1]),)), False
            return self._own(base, name), False
        if kind in (_LIBRARY, _FOREIGN_IMPORT):
            return at, (importing or owner == IMPORTS) and not module
        if owner == IMPORTS:
            return (at if kind == _FINDING else self._below(at, _FINDING, ("import (finding modules)",))), True
        if kind != _FINDING:
            return self._below(at, _LIBRARY, (owner,)), False
        return (self._below(parent, _FOREIGN_IMPORT, ("import " + owner,)), False) if module else (at, True)

    def _own(self, base: int, name: Tuple[Any, ...]) -> int:
        """A function of the user's: the one above that it is a recursion of, or else below `base`."""
        at = base
        while at:
            if self.nodes[at].kind == _FUNCTION and self.nodes[at].name == name:
                return at
            at = self.nodes[at].parent
        return self._below(base, _FUNCTION, name)

    def _below(self, parent: int, kind: int, name: Tuple[Any, ...]) -> int:
        node = self._ids.setdefault((parent, kind, name), len(self.nodes))
        if node == len(self.nodes):
            self.nodes.append(Node(parent, kind, name))
        return node

    def lines(self, most: int = MOST) -> List[Tuple[int, List[int]]]:
        """The largest calls, callers first: the depth of a line and its nodes, each of which calls the next and nearly nothing
        else."""
        worth = [node for node in range(1, len(self.nodes)) if self._is_worth(node)]
        for least in sorted({self.totals[node] for node in worth}):
            lines = list(self._lines({node for node in worth if self.totals[node] >= least}))
            if len(lines) <= most:
                return lines
        return []

    def _is_worth(self, node: int) -> bool:
        share = self.share(node)
        return share.value >= _LEAST and (share.is_more_than_nothing or not self.whole.is_known)

    def _lines(self, kept: Set[int]) -> Iterator[Tuple[int, List[int]]]:
        below: Dict[int, List[int]] = {}
        for node in kept:
            below.setdefault(self.nodes[node].parent, []).append(node)
        for each in below.values():
            each.sort(key=lambda node: (self.totals[node], self.nodes[node].name))
        waiting = [(0, node) for node in below.get(0, ())]
        while waiting:
            depth, node = waiting.pop()
            chain = [node]
            while len(below.get(node, ())) == 1 and self._is_most(node, below[node][0]):
                node = below[node][0]
                chain.append(node)
            yield depth, chain
            waiting += [(depth + 1, each) for each in below.get(node, ())]

    def _is_most(self, node: int, child: int) -> bool:
        rest = self.totals[node] - self.totals[child]
        return rest < _LEAST * self.whole.weight and rest < _REST * self.totals[node]

    def text(self, unit: str, width: int) -> Iterator[str]:
        """The lines as people read them, at most 80 columns wide."""
        width = width if full_paths() else min(width, _COLUMNS)
        yield "     total              " + "   off CPU " * self.is_wall + " function"
        ends = tails(node.name[1] for node in self.nodes if len(node.name) == 3)
        for depth, chain in self.lines():
            indent = "  " * depth
            first, whole = chain[0], self.whole
            figures = f"{amount(self.totals[first], unit, whole.weight):>10} {percent(self.share(first), whole.is_known)}"
            figures += f" {amount(self.waiting[first], unit, whole.weight):>10}" * self.is_wall + "  " + indent
            yield figures + self._chain(chain, ends, max(24, width - len(figures)))

    def _chain(self, chain: List[int], ends: Dict[str, str], width: int) -> str:
        """`main > load (app.py:7) > pandas`: what calls what. A library that calls the program is not worth a word."""
        nodes = [self.nodes[node] for node in chain]
        first = next((at for at, node in enumerate(nodes) if node.kind in _MINE), 0)
        nodes = nodes[first:]
        last = max((at for at, node in enumerate(nodes) if node.kind == _FUNCTION), default=-1)
        for path in (short, lambda file: min(short(file), ends[file], key=len)):
            words = [_words(node, self.nodes[node.parent], at == last, path) for at, node in enumerate(nodes)]
            if len(" > ".join(words)) <= width:
                break
        text = ""
        for shorter in _shorter(words, last):
            text = " > ".join(shorter)
            if len(text) <= width:
                break
        return fit(text, width)


def _shorter(words: List[str], last: int) -> Iterator[List[str]]:
    """The chain, less and less of it. `last`: the user's function of which the place is said; it is in all of them."""
    yield words
    for cut in range(2, last + 1):
        yield [words[0], "...", *words[cut:]]
    yield ["...", *words[max(0, last) :]]
    yield words[max(0, last) :]
    yield words[max(0, last) : last + 1] or words[-1:]


def _words(node: Node, caller: Node, placed: bool, path: Any) -> str:
    if node.kind != _FUNCTION:
        return shown(str(node.name[0]))
    qualname, file, line = node.name
    if qualname == "<module>":
        return shown(path(file))
    if caller.kind == _FUNCTION and caller.name and qualname.startswith(f"{caller.name[0]}.<locals>."):
        qualname = qualname[len(caller.name[0]) + len(".<locals>.") :]
    return shown(f"{qualname} ({path(file)}:{line})" if placed and line else qualname)
