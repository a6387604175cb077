"""Marks functions in the source whose calls are to be timed in every run."""

from __future__ import annotations

import sys

from .. import _core
from ..errors import BadOption

TYPE_CHECKING = False  # see __init__
if TYPE_CHECKING:
    from types import CodeType
    from typing import Any, Optional, TypeVar

    Function = TypeVar("Function")

_warned = False


def timed(function: Function) -> Function:
    """Decorator: each call of a function, method, generator or coroutine is timed exactly in every profile, as if `time` of
    `spprof.start` named it (docs/times.md).

        @spprof.timed
        async def pay(order): ...

    Returns the function itself, so it costs nothing without a profile. What is timed is the function's own body, not what other
    decorators put around it. Before Python 3.12 nothing is timed, and a profile warns once. Raises BadOption for what has no code
    in Python."""
    code = _code_of(function)
    if code is None:
        raise BadOption(f"timed: {function!r} is no function in Python")
    try:
        _core.time_calls(code)
    except RuntimeError as error:
        _warn(str(error))
    if _core.active():
        warn_if_old()
    return function


def _code_of(function: Any) -> Optional[CodeType]:
    """That of the innermost function: a wrapper's is the same for all that it wraps."""
    for _ in range(100):  # there are circles
        inner = next(filter(None, (getattr(function, name, None) for name in ("__wrapped__", "__func__", "fget"))), None)
        if inner is None:
            break
        function = inner
    return getattr(function, "__code__", None)


def warn_if_old() -> None:
    """With a profile, once: functions are marked in vain before Python 3.12."""
    if sys.version_info < (3, 12):
        _warn("before Python 3.12, which has sys.monitoring, calls cannot be timed exactly")


def _warn(why: str) -> None:
    global _warned
    import warnings

    if not _warned:
        _warned = True
        warnings.warn(f"what is marked by spprof.timed is not timed: {why}", RuntimeWarning, stacklevel=3)
