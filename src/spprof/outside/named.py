"""Tuples whose fields have names, as `typing.NamedTuple` has them, without `typing`: that takes 6 ms to be imported, with what it
imports itself, and the user of `spprof attach` waits for the first sample."""

from __future__ import annotations

TYPE_CHECKING = False  # see above
if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    from operator import itemgetter

    class _Kind(type):
        def __new__(cls, name, bases, space):
            if not bases:
                return super().__new__(cls, name, (tuple,), space)
            fields = tuple(space.get("__annotations__", ()))
            if not fields:
                return super().__new__(cls, name, bases, space)
            words = ", ".join(fields)
            new = eval(f"lambda _cls, {words}: _new(_cls, ({words},))", {"_new": tuple.__new__})  # as namedtuple does: 0.3 us
            new.__defaults__ = tuple(space.pop(field) for field in fields if field in space)
            space.update({field: property(itemgetter(i)) for i, field in enumerate(fields)})
            return super().__new__(cls, name, bases, {"__slots__": (), **space, "_fields": fields, "__new__": new})

    class NamedTuple(metaclass=_Kind):
        """As that."""

        __slots__ = ()

        def _replace(self, **named):
            return type(self)(**{**dict(zip(self._fields, self)), **named})

        def __getnewargs__(self):
            return tuple(self)

        def __repr__(self):
            return f"{type(self).__name__}({', '.join(f'{field}={value!r}' for field, value in zip(self._fields, self))})"
