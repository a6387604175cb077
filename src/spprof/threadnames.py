"""Tells the core the names that `threading` gives to threads.

The only thing of Python that a running profile changes: `threading.Thread._set_native_id`, which every new thread
calls once it knows its system id and before it runs anything of the program.
"""

from __future__ import annotations

import threading

from . import _core

TYPE_CHECKING = False  # see __init__
if TYPE_CHECKING:
    from typing import Any, Callable

_HOOK = "_set_native_id"


class ThreadNames:
    """Follows thread names between `follow` and `leave`."""

    def __init__(self) -> None:
        self._following = False
        self._original: Callable[[Any], None] = getattr(threading.Thread, _HOOK)
        original = self._original

        def _set_native_id(thread: Any) -> None:
            original(thread)
            if self._following:  # False if somebody wrapped this wrapper and so kept it alive
                _core.name_threads([(thread._native_id, thread._name)])

        self._wrapper = _set_native_id

    def follow(self) -> None:
        """Names the threads there are, and from now on every new one."""
        self._following = True
        setattr(threading.Thread, _HOOK, self._wrapper)
        self._name_all()

    def leave(self, in_child: bool = False) -> None:
        """Names the threads there are once more (a program may rename them) and lets go of `threading`."""
        self._following = False
        if threading.Thread.__dict__.get(_HOOK) is self._wrapper:
            setattr(threading.Thread, _HOOK, self._original)
        if not in_child:
            self._name_all()

    @staticmethod
    def _name_all() -> None:
        _core.name_threads([(thread.native_id, thread.name) for thread in threading.enumerate() if thread.native_id])
