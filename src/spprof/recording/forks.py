"""What is to happen at a fork. Where nothing forks (Windows), nothing."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # see __init__
if TYPE_CHECKING:
    from typing import Callable


def in_child(call: Callable[[], object]) -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=call)


def alone(before: Callable[[], object], after: Callable[[], object]) -> None:
    """`before` makes this a process of one thread for the fork, and `after` ends that, where Python counts threads at a fork."""
    if sys.version_info >= (3, 12) and hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_parent=after)
