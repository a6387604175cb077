"""Labels: what the program was doing when a sample was taken, in its own words."""

from __future__ import annotations

import _thread
from contextvars import Context, ContextVar, copy_context
from os import urandom

from .. import _core
from . import forks
from .jsontext import json_text

TYPE_CHECKING = False  # see __init__
if TYPE_CHECKING:
    from typing import Dict, List, Optional, Tuple, Type

    from .._core import LabelSet

_current: ContextVar[LabelSet] = ContextVar("spprof.label")
_reset = _current.reset  # generators may be closed when the module's names are gone
_set_type: Optional[Type[LabelSet]] = None  # None: not tried yet, or labels do not work here
_tried = False
_lock = _thread.allocate_lock()  # nobody may leave a block without labels because another thread is trying


class label:
    """Gives the samples that are taken inside a block names and values, in this thread or asyncio task alone.

        with spprof.label(request="17", route="/pay"):
            ...

    Inner blocks add to outer ones, and win where a name is the same. What the block starts has its labels as far as `contextvars`
    hand them on: asyncio tasks and `asyncio.to_thread` do, new threads do not (but see `sys.flags.thread_inherit_context`, 3.14).
    Values are made strings. A block costs some 3 us, whether a profile is being taken or not, and less than one a sample. A block
    may be entered again, but not by two tasks or threads at a time: make one each.

    Where the core cannot find labels (a second interpreter of the process, a CPython that keeps contexts in another way) the
    first use warns, and samples have none."""

    def __init__(self, **labels: object) -> None:
        self._labels = {name: str(value) for name, value in labels.items()}
        self._tokens: List[object] = []

    def __enter__(self) -> None:
        if not _tried:
            with _lock:
                if not _tried:
                    _try()
        if _set_type is not None:
            outer = _current.get(None)
            labels = {**outer.labels, **self._labels} if outer else self._labels
            self._tokens.append(_current.set(_set_of(_set_type, labels)))

    def __exit__(self, *error: object) -> None:
        if self._tokens:
            try:
                _reset(self._tokens.pop())  # type: ignore[arg-type]
            except ValueError:  # a generator that is closed in another context, where these labels are not
                pass


class request(label):
    """A block that is a request, or a job of a worker: its samples have the labels, and the profile has when it began and how
    long it took (`Profile.requests`, `spprof report --tail p99`).

        with spprof.request(route="/pay"):
            ...

    Gives it a label `request`, an id, unless it has one. A request within another has an id of its own. One that still runs when
    the profile ends, or ran before it began, is not in it."""

    def __init__(self, **labels: object) -> None:
        super().__init__(**labels)
        self._began: List[Tuple[Dict[str, str], int]] = []

    def __enter__(self) -> None:
        own = self._labels
        self._labels = own if "request" in own else {**own, "request": new_id()}
        try:
            super().__enter__()
            self._began.append((current_labels(), _core.now_ns()))
        finally:
            self._labels = own

    def __exit__(self, *error: object) -> None:
        if self._began:
            keep_request(*self._began.pop(), _core.now_ns())
        super().__exit__(*error)


def new_id() -> str:
    """Of a request."""
    return urandom(6).hex()


def keep_request(labels: Dict[str, str], began_ns: int, ended_ns: int) -> None:
    """Notes in the profile that is being taken that a request with these labels is over."""
    if _set_type is not None and _core.active():
        _core.request(_set_of(_set_type, labels), began_ns, ended_ns)


def _set_of(set_type: Type[LabelSet], labels: Dict[str, str]) -> LabelSet:
    return set_type(labels, json_text({name: labels[name] for name in sorted(labels)}).encode("ascii"))


def current_labels() -> Dict[str, str]:
    """The labels of the current thread or task."""
    current = _current.get(None)
    return dict(current.labels) if current else {}


def _try() -> None:
    global _set_type, _tried
    try:
        set_type = _core.label_rules(_current)
        if not _proven(set_type):
            raise RuntimeError("this interpreter's contexts are kept in another way")
        _core.label_use(True)
        _set_type = set_type
    except RuntimeError as error:
        import warnings

        warnings.warn(f"spprof.label has no effect: {error}", RuntimeWarning, stacklevel=3)
    finally:
        _tried = True


def _in_child() -> None:
    global _lock
    _lock = _thread.allocate_lock()  # another thread of the parent may have held it


forks.in_child(_in_child)


def _proven(set_type: Type[LabelSet]) -> bool:
    """Learns the two kinds of nodes from contexts that must have them at the top, then looks for sets in contexts of all sizes:
    the trie has one level up to 16 variables, two up to some 500, then three."""
    a_set = set_type({}, b"{}")
    Context().run(_learn, a_set, 1)
    Context().run(_learn, a_set, 64)
    return all(Context().run(_found, set_type, n) for n in (0, 1, 15, 31, 64, 700)) and copy_context().run(
        _core.label_found, None
    )


def _fill(n: int) -> None:
    for i in range(n):
        ContextVar(f"spprof.{i}").set(None)  # type: ignore[arg-type]


def _learn(a_set: LabelSet, n: int) -> None:
    _current.set(a_set)
    _fill(n - 1)
    _core.label_node(n > 32)


def _found(set_type: Type[LabelSet], n: int) -> bool:
    _fill(n)
    if not _core.label_found(None):
        return False
    a_set = set_type({}, b"{}")
    token = _current.set(a_set)
    found = _core.label_found(a_set) and not _core.label_found(None)
    _current.reset(token)
    return found and _core.label_found(None)
