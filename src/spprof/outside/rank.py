"""The scheduler's first rank, for as long as something of another process is stopped: nobody takes the processor from us then.
It needs a right (root's; CAP_SYS_NICE). Without it, on a full machine, a stop lasts until the others' turns are over."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import Iterator


@contextmanager
def first_in_rank() -> Iterator[None]:
    """This thread of ours, if we may."""
    before = os.sched_getscheduler(0), os.sched_getparam(0)
    try:  # from before the change on: a signal's handler may raise at once
        if before[0] not in (os.SCHED_FIFO, os.SCHED_RR):
            with suppress(OSError):
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(os.sched_get_priority_min(os.SCHED_FIFO)))
        yield
    finally:
        if os.sched_getscheduler(0) != before[0]:
            os.sched_setscheduler(0, *before)
