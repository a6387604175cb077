"""cProfile's file, for `pstats` (https://docs.python.org/3/library/profile.html): a marshalled dictionary
`(file, line, function): (cc, nc, tt, ct, callers)`.

Samples are no calls. What pstats calls calls (`cc`, `nc`) are samples that have the function on the stack; `tt` and `ct` are the
seconds of its self and total weight. A caller's entry has the same of the stacks in which it calls the function directly.
"""

from __future__ import annotations

import marshal
from array import array
from typing import TYPE_CHECKING, Any, BinaryIO, Dict, List, Sequence, Tuple

from ._frames import Frames, Look, clean
from ._tree import Tree

if TYPE_CHECKING:
    from ..model import Profile
    from . import Options

Key = Tuple[str, int, str]


def write(profile: Profile, out: BinaryIO, options: Options) -> None:
    """Writes the dictionary. It knows neither threads nor lines, so there is nothing to merge."""
    sums = profile.stack_sums(options.thread)
    frames = Frames(profile, lines=False)
    tree = Tree(profile, frames, sums[0])
    ids: Dict[Key, int] = {}
    labels = [ids.setdefault(_key(look), len(ids)) for look in frames.looks]
    functions = array("I", (labels[number] for number in tree.frames))
    calls: Dict[Tuple[int, int], int] = {}  # (caller or -1, function) -> its number
    callers = (functions[parent] if parent >= 0 else -1 for parent in tree.parents)
    edges = array("I", (calls.setdefault(call, len(calls)) for call in zip(callers, functions)))
    totals = tree.totals(sums)
    keys = list(ids)
    stats: Dict[Key, Tuple[Any, ...]] = {
        key: (*value, {}) for key, value in zip(keys, _figures(tree, functions, totals, len(keys)))
    }
    for (caller, function), value in zip(calls, _figures(tree, edges, totals, len(calls))):
        if caller >= 0:
            stats[keys[function]][4][keys[caller]] = value
    out.write(marshal.dumps(stats))


def _figures(tree: Tree, labels: Sequence[int], totals: Sequence[Sequence[int]], n: int) -> List[Tuple[int, int, float, float]]:
    """cc, nc, tt and ct of each label."""
    own, samples, total = [0] * n, [0] * n, [0] * n
    _, own_ns, all_samples, all_ns = totals
    for label, weight in zip(labels, own_ns):
        own[label] += weight
    for node in tree.outermost(labels):
        samples[labels[node]] += all_samples[node]
        total[labels[node]] += all_ns[node]
    return [(count, count, each / 1e9, whole / 1e9) for count, each, whole in zip(samples, own, total)]


def _key(look: Look) -> Key:
    """`~` is pstats' file of what has none."""
    return clean((look.library if look.native else look.file) or "~"), look.first_line, clean(look.name)
