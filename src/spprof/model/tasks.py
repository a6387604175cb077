"""Which task of asyncio ran when a sample was taken: the column `task` of samples (docs/tasks.md)."""

from __future__ import annotations

from typing import Dict, List, Sequence, Set, Tuple

from .layout import Columns

LABEL = "task"  # what reports call it: as if it were a label. A label of the program's own that is called so comes first


def names(columns: Columns) -> Dict[int, str]:
    """Each number of the column `task` -> the name of the task; '': none ran."""
    return {each: columns["strings"][each - 1] if each else "" for each in set(columns["task"])}


def values(columns: Columns, key: str) -> Set[str]:
    """All values of a label, or the names of all tasks."""
    found = {each[key] for each in columns["label_sets"] if key in each}
    return found | {name for name in names(columns).values() if name} if key == LABEL else found


def label_sets(columns: Columns, key: str) -> Tuple[Sequence[int], List[Dict[str, str]]]:
    """The set of labels of each sample, as an index into the list of sets, for somebody who asks for this label: the task is
    among the others if that is asked for."""
    if key != LABEL:
        return columns["label"], columns["label_sets"]
    known, names_of = columns["label_sets"], names(columns)
    sets: List[Dict[str, str]] = []
    index: Dict[Tuple[int, int], int] = {}
    numbers = []
    for label, task in zip(columns["label"], columns["task"]):
        number = index.setdefault((label, task), len(sets))
        if number == len(sets):
            sets.append({LABEL: names_of[task], **known[label]} if task else known[label])
        numbers.append(number)
    return numbers, sets
