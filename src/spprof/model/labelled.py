"""Labels of samples, and what reports and parts take for labels too: the asyncio task that ran, and the ids of OpenTelemetry's
trace and span. A label of the program's own of such a name comes first."""

from __future__ import annotations

from typing import Collection, Dict, List, Sequence, Set, Tuple

from . import spans, tasks
from .layout import Columns

TASK = "task"
KEYS = (TASK, spans.TRACE, spans.SPAN)


def _named(columns: Columns) -> Tuple[Dict[int, Dict[str, str]], Dict[int, Dict[str, str]]]:
    """What numbers of the columns `task` and `span` mean, as labels."""
    of_tasks = {number: {TASK: name} if name else {} for number, name in tasks.names(columns).items()}
    return of_tasks, spans.ids(columns)


def values(columns: Columns, key: str) -> Set[str]:
    """All values of a label."""
    found = {each[key] for each in columns["label_sets"] if key in each}
    if key in KEYS:
        found |= {pairs[key] for of in _named(columns) for pairs in of.values() if key in pairs}
    return found


def label_sets(columns: Columns, keys: Collection[str]) -> Tuple[Sequence[int], List[Dict[str, str]]]:
    """The set of labels of each sample, as an index into the list of sets, for somebody who asks for these labels: of `KEYS`
    those are among the others that are asked for."""
    known, wanted = columns["label_sets"], {key for key in KEYS if key in keys}
    if not wanted:
        return columns["label"], known
    of_tasks, of_spans = (
        {number: {key: value for key, value in pairs.items() if key in wanted} for number, pairs in of.items()}
        for of in _named(columns)
    )
    sets: List[Dict[str, str]] = []
    index: Dict[Tuple[int, int, int], int] = {}
    numbers = []
    for label, task, span in zip(columns["label"], columns["task"], columns["span"]):
        number = index.setdefault((label, task, span), len(sets))
        if number == len(sets):
            sets.append({**of_tasks[task], **of_spans[span], **known[label]})
        numbers.append(number)
    return numbers, sets
