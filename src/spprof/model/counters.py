"""What the tick stats count of samples: csrc/base/counters.h for Python, which also reads where there is no C core."""

from __future__ import annotations

from typing import Dict

# Key -> what a summary says of a number above 0, of a run of this `max_depth`; "": nothing.
COUNTERS: Dict[str, str] = {
    "truncated": "Truncated: {number:,} stacks deeper than {max_depth} (--max-depth).",
    "native_unpaired": "Native: {number:,} stacks without native frames, which did not fit the Python frames.",
    "native_gaps": "",
    "tasks_unknown": "Tasks: this asyncio is built otherwise than those that spprof knows, so no sample has a task.",
    "calls_interrupted": "System calls without the C library that a tick may have ended: {number:,}.",
    "signals_not_ignored": "Signals that the program ignores, but that may have ended a system call: {number:,}.",
    "confined": "System calls of ours that a filter (seccomp) refuses: samples near calls are less exact.",
}
