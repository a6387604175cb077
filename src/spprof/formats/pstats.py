"""cProfile's file, for `pstats` (https://docs.python.org/3/library/profile.html): a marshalled dictionary
`(file, line, function): (cc, nc, tt, ct, callers)`.

Samples are no calls. Where calls were counted (`spprof run --calls`), `cc` and `nc` are exact, with resumes of generators as
cProfile has them, and all functions that were called are there; else what pstats calls calls are samples that have the
function on the stack. `tt` and `ct` are the seconds of its self and total weight. A caller's entry has the same of the stacks
in which it calls the function directly. Calls back into a function that is already running are not counted separately: `cc` is
`nc`.
"""

from __future__ import annotations

import marshal
from array import array
from typing import TYPE_CHECKING, Any, BinaryIO, Dict, List, Sequence, Tuple

from ..model.sums import moved
from ..model.tree import Totals
from ..model.unicode import clean
from ._frames import Frames, Look
from ._tree import Part

if TYPE_CHECKING:
    from ..model.calls import Calls, Function
    from ..model.data import ProfileData
    from .options import Options

Key = Tuple[str, int, str]


def write(profile: ProfileData, out: BinaryIO, options: Options) -> None:
    """Writes the dictionary. It knows neither threads nor lines, so there is nothing to merge."""
    sums = profile.stack_sums(options.thread)
    frames = Frames(profile, lines=False)
    part = Part(profile, frames, sums[0])
    ids: Dict[Key, int] = {}
    labels = [ids.setdefault(_key(look), len(ids)) for look in frames.looks]
    functions = array("I", [0])
    functions.extend(labels[look] for look in part.looks[1:])
    calls: Dict[Tuple[int, int], int] = {}  # (caller or -1, function) -> its number
    callers = (functions[parent] if parent else -1 for parent in part.tree.parents[1:])
    edges = array("I", [0])
    edges.extend(calls.setdefault(call, len(calls)) for call in zip(callers, functions[1:]))
    totals = part.tree.totals(moved(sums, part.nodes))
    keys = list(ids)
    stats: Dict[Key, Tuple[Any, ...]] = {key: (*value, {}) for key, value in zip(keys, _figures(totals, functions, len(keys)))}
    for (caller, function), value in zip(calls, _figures(totals, edges, len(calls))):
        if caller >= 0:
            stats[keys[function]][4][keys[caller]] = value
    if profile.calls is not None and options.thread is None:
        stats = _counted(stats, profile.calls)
    out.write(marshal.dumps(stats))


def _counted(stats: Dict[Key, Tuple[Any, ...]], calls: Calls) -> Dict[Key, Tuple[Any, ...]]:
    """The same with exact numbers of calls, which samples have none of."""
    of_function: Dict[Key, int] = {}
    of_caller: Dict[Tuple[Key, Key], int] = {}
    for call in calls.rows:
        key, number = _function_key(call.function), call.calls + call.resumes
        of_function[key] = of_function.get(key, 0) + number
        if call.caller is not None:
            pair = key, _function_key(call.caller)
            of_caller[pair] = of_caller.get(pair, 0) + number
    for key in {*of_function, *(caller for _, caller in of_caller)} - stats.keys():
        stats[key] = (0, 0, 0.0, 0.0, {})
    made = {key: (of_function.get(key, 0),) * 2 + value[2:4] for key, value in stats.items()}
    result: Dict[Key, Tuple[Any, ...]] = {}
    for key, value in stats.items():
        callers = {caller: (0, 0, *times[2:]) for caller, times in value[4].items()}
        result[key] = (*made[key], callers)
    for (key, caller), number in of_caller.items():
        times = result[key][4].get(caller, (0, 0, 0.0, 0.0))
        result[key][4][caller] = (number, number, *times[2:])
    return result


def _function_key(function: Function) -> Key:
    return clean(function.file or "~"), function.line, clean(function.qualname)


def _figures(totals: Totals, labels: Sequence[int], n: int) -> List[Tuple[int, int, float, float]]:
    """cc, nc, tt and ct of each label."""
    found = totals.figures(labels)
    figures = [found.get(label, (0, 0, 0, 0)) for label in range(n)]
    return [(samples, samples, own_ns / 1e9, total_ns / 1e9) for _, own_ns, samples, total_ns in figures]


def _key(look: Look) -> Key:
    """`~` is pstats' file of what has none."""
    return clean((look.library if look.native else look.file) or "~"), look.first_line, clean(look.name)
