"""Names of functions written in C: which native function is `zlib.compress`, which is `numpy.ndarray.sum`.

Python objects tell: each built-in function, method descriptor and slot wrapper holds the address of its C function, and a profile
with native frames knows the address at which each sampled native function begins. Where the two meet there is a name, for
stripped libraries too.
"""

from __future__ import annotations

import sys
import types

from .. import _core
from .jsontext import json_text

TYPE_CHECKING = False  # see __init__
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Optional, Set

_METHODS = (types.MethodDescriptorType, types.ClassMethodDescriptorType, types.WrapperDescriptorType)
_NAMED = (*_METHODS, types.BuiltinFunctionType)


def named() -> bytes:
    """A block N (docs/file-format.md): the native functions sampled so far that have one name in Python; b'' if none has.

    An address with several names, such as that of `list.__lt__` and `list.__gt__`, has none. With the GIL; about 10 ms in a
    process with numpy."""
    wanted: Dict[int, int] = _core.native_functions()
    names: Dict[int, Set[str]] = {}
    for value in _functions() if wanted else ():
        address = _core.function_address(value)
        if address in wanted:
            name = _name(value)
            if name:
                names.setdefault(address, set()).add(name)
    codes = {str(wanted[address]): one for address, (one, *others) in names.items() if not others}
    return json_text({"names": codes}).encode("ascii") if codes else b""


def _functions() -> Iterator[Any]:
    """What modules and types hold, found without running anything of theirs."""
    for module in list(sys.modules.values()):
        if type(module) is types.ModuleType:
            for value in list(vars(module).values()):
                if type(value) is types.BuiltinFunctionType and type(value.__self__) in (types.ModuleType, type(None)):
                    yield value  # not the bound method of some object, as `random.random` is
    todo: List[Any] = [object]
    seen = {id(object)}
    while todo:
        cls = todo.pop()
        for value in list(type.__dict__["__dict__"].__get__(cls).values()):
            if type(value) in (staticmethod, classmethod):
                value = value.__func__
            if type(value) in _NAMED:
                yield value
        fresh = [one for one in type.__subclasses__(cls) if id(one) not in seen]
        seen.update(map(id, fresh))
        todo += fresh


def _name(value: Any) -> Optional[str]:
    """As the program would write it, with its module if that is not `builtins`."""
    owner = value.__objclass__ if type(value) in _METHODS else value
    module, name = owner.__module__, value.__qualname__
    if not (isinstance(module, (str, type(None))) and isinstance(name, str)):
        return None
    return name if module in (None, "builtins") else f"{module}.{name}"
