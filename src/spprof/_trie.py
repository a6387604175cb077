"""Sums over the trie of stacks: from samples at leaves to self and total figures of every function.

A *key* names the stack of a sample: its node, or `~node` if the stack is truncated (its root part is missing), so that
a truncated stack is never taken for a whole one.
"""

from __future__ import annotations

from array import array
from typing import Dict, Iterable, List, Sequence, Tuple

Sums = Tuple[Dict[int, int], Dict[int, int]]  # key -> samples, key -> nanoseconds


def sums_by_thread(threads: Sequence[int], keys: Sequence[int], counts: Sequence[int], weights: Sequence[int]) -> Dict[int, Sums]:
    """One pass over the samples: thread id -> its sums."""
    result: Dict[int, Sums] = {thread: ({}, {}) for thread in set(threads)}
    for thread, key, count, weight in zip(threads, keys, counts, weights):
        samples, nanoseconds = result[thread]
        if key in samples:
            samples[key] += count
            nanoseconds[key] += weight
        else:
            samples[key] = count
            nanoseconds[key] = weight
    return result


def merged(parts: Iterable[Sums]) -> Sums:
    """The sums of several threads together."""
    samples: Dict[int, int] = {}
    nanoseconds: Dict[int, int] = {}
    for some_samples, some_nanoseconds in parts:
        for key, count in some_samples.items():
            samples[key] = samples.get(key, 0) + count
        for key, weight in some_nanoseconds.items():
            nanoseconds[key] = nanoseconds.get(key, 0) + weight
    return samples, nanoseconds


def expanded(
    parents: Sequence[int], frames: Sequence[int], chains: Dict[int, List[int]]
) -> Tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """A trie with each frame of `chains` replaced by one or more, of which the first takes its place and each is called by the
    one before: parent and frame of each node, and of each old node the new one. Nodes that become equal become one."""
    new_parents, new_frames, moved = array("I", [0]), array("I", [0]), array("I", [0])
    known: Dict[int, int] = {}  # parent << 32 | frame -> node
    for node in range(1, len(parents)):
        at = moved[parents[node]]
        for frame in chains.get(frames[node]) or [frames[node]]:
            key = at << 32 | frame
            child = known.get(key)
            if child is None:
                child = known[key] = len(new_parents)
                new_parents.append(at)
                new_frames.append(frame)
            at = child
        moved.append(at)
    return new_parents, new_frames, moved


def self_and_total(parents: Sequence[int], labels: Sequence[int], sums: Sums) -> Dict[int, Tuple[int, int, int, int]]:
    """Label -> (self samples, self ns, total samples, total ns), where `labels[node]` says whose figures a node adds to.

    A label that occurs several times in one stack (recursion) gets that stack's total once."""
    samples: Dict[int, int] = {}
    nanoseconds: Dict[int, int] = {}
    for key, count in sums[0].items():
        node = key if key >= 0 else ~key
        samples[node] = samples.get(node, 0) + count
        nanoseconds[node] = nanoseconds.get(node, 0) + sums[1][key]
    own = [(node, samples[node], nanoseconds[node]) for node in samples]

    # A parent's id is less than its child's: one downward pass carries every sum to the root.
    children: Dict[int, List[int]] = {}
    pending = set(samples)
    for node in range(max(pending, default=0), 0, -1):
        if node in pending:
            parent = parents[node]
            pending.add(parent)
            children.setdefault(parent, []).append(node)
            samples[parent] = samples.get(parent, 0) + samples[node]
            nanoseconds[parent] = nanoseconds.get(parent, 0) + nanoseconds[node]

    figures: Dict[int, List[int]] = {}
    for node, count, weight in own:
        figure = figures.setdefault(labels[node], [0, 0, 0, 0])
        figure[0] += count
        figure[1] += weight
    for node in _outermost(children, labels):
        figure = figures.setdefault(labels[node], [0, 0, 0, 0])
        figure[2] += samples[node]
        figure[3] += nanoseconds[node]
    return {label: (f[0], f[1], f[2], f[3]) for label, f in figures.items()}


def _outermost(children: Dict[int, List[int]], labels: Sequence[int]) -> Iterable[int]:
    """Nodes none of whose ancestors has the same label, by a walk in depth that keeps the labels of the path."""
    open_labels: Dict[int, int] = {}
    todo = list(children.get(0, ()))
    while todo:
        node = todo.pop()
        if node < 0:
            open_labels[labels[~node]] -= 1
            continue
        label = labels[node]
        depth = open_labels.get(label, 0)
        if depth == 0:
            yield node
        if node in children:
            open_labels[label] = depth + 1
            todo.append(~node)
            todo.extend(children[node])
