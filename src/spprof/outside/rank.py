"""The scheduler's first rank, for as long as something of another process is stopped: nobody takes the processor from us then.
It needs a right (root's; CAP_SYS_NICE). Without it, on a full machine, a stop lasts until the others' turns are over."""

from __future__ import annotations

import os


class FirstInRank:
    """A context for this thread of ours, if we may."""

    def __init__(self) -> None:
        self._before = os.sched_getscheduler(0), os.sched_getparam(0)

    def __enter__(self) -> None:
        try:
            if self._before[0] not in (os.SCHED_FIFO, os.SCHED_RR):
                os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(os.sched_get_priority_min(os.SCHED_FIFO)))
        except OSError:
            pass
        except BaseException:  # a signal's handler may raise at once
            self.__exit__()
            raise

    def __exit__(self, *error: object) -> None:
        if os.sched_getscheduler(0) != self._before[0]:
            os.sched_setscheduler(0, *self._before)
