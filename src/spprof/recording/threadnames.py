"""Tells the core the names that `threading` gives to threads.

The only thing of Python that a running profile changes: `threading.Thread._set_native_id`, which every new thread
calls once it knows its system id and before it runs anything of the program.
"""

from __future__ import annotations

import threading

from .. import _core

TYPE_CHECKING = False  # see __init__
if TYPE_CHECKING:
    from typing import Any, Callable, Tuple

_HOOK = "_set_native_id"
_AT_ONCE = 100


class ThreadNames:
    """What to put in for that method while a profile is taken: `patch`, for the core."""

    def __init__(self) -> None:
        original: Callable[[Any], None] = getattr(threading.Thread, _HOOK)

        def _set_native_id(thread: Any) -> None:
            original(thread)
            _core.name_threads([(thread._native_id, thread._name)])  # nothing, if somebody keeps this after the profile

        self.patch: Tuple[type, str, Any, Any] = (threading.Thread, _HOOK, _set_native_id, original)

    @staticmethod
    def name_all() -> None:
        """Names the threads there are (at the end once more: a program may rename them)."""
        # In a forked child `threading` keeps the parent's id of the thread that forked (up to 3.13.0).
        here, now = threading.get_ident(), threading.get_native_id()
        threads = [(now if thread.ident == here else thread.native_id, thread.name) for thread in threading.enumerate()]
        names = [(id, name) for id, name in threads if id]
        for begin in range(0, len(names), _AT_ONCE):  # threads of the program run between
            _core.name_threads(names[begin : begin + _AT_ONCE])
