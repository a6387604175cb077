"""What is to happen in a forked child. Where nothing forks (Windows), nothing."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # see __init__
if TYPE_CHECKING:
    from typing import Callable


def in_child(call: Callable[[], object]) -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=call)
