"""Which task of asyncio ran when a sample was taken: the column `task` of samples (docs/tasks.md)."""

from __future__ import annotations

from typing import Dict

from .layout import Columns


def names(columns: Columns) -> Dict[int, str]:
    """Each number of the column `task` -> the name of the task; '': none ran."""
    return {each: columns["strings"][each - 1] if each else "" for each in set(columns["task"])}
