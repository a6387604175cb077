"""Which task of asyncio ran when a sample was taken: the column `task` of samples (docs/tasks.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Dict, List, Sequence, Set, Tuple

if TYPE_CHECKING:
    from .data import ProfileData

LABEL = "task"  # what reports call it: as if it were a label. A label of the program's own that is called so comes first


def names(profile: ProfileData) -> Dict[int, str]:
    """Each number of the column `task` -> the name of the task; '': none ran."""
    columns = profile._columns()
    return {each: columns["strings"][each - 1] if each else "" for each in set(columns["task"])}


def has_tasks(profile: ProfileData) -> bool:
    """Whether samples have tasks, or labels that are called so."""
    return bool(values(profile, LABEL))


def values(profile: ProfileData, key: str) -> Set[str]:
    """All values of a label, or the names of all tasks."""
    found = {each[key] for each in profile.label_sets if key in each}
    return found | {name for name in names(profile).values() if name} if key == LABEL else found


def label_sets(profile: ProfileData) -> Tuple[Sequence[int], List[Dict[str, str]]]:
    """As the column `label` and `Profile.label_sets`, but with the task among the labels."""
    known, names_of, sets = profile.label_sets, names(profile), []
    index: Dict[Tuple[int, int], int] = {}
    numbers = []
    for label, task in zip(profile.column("label"), profile.column("task")):
        number = index.setdefault((label, task), len(sets))
        if number == len(sets):
            sets.append({LABEL: names_of[task], **known[label]} if task else known[label])
        numbers.append(number)
    return numbers, sets
