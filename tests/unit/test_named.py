"""Tuples with names without `typing` are those of `typing`."""

from __future__ import annotations

import typing

import pytest

from spprof.outside import named


class Theirs(typing.NamedTuple):
    """Some."""

    first: int
    second: str = "b"

    @property
    def both(self) -> str:
        return f"{self.first}{self.second}"


class Ours(named.NamedTuple):
    """Some."""

    first: int
    second: str = "b"

    @property
    def both(self) -> str:
        return f"{self.first}{self.second}"


@pytest.mark.parametrize(
    "values, names", [((1, "a"), {}), ((1,), {}), ((), {"second": "a", "first": 1}), ((1,), {"second": "c"})]
)
def test_a_tuple_with_names(values, names):
    ours, theirs = Ours(*values, **names), Theirs(*values, **names)
    assert ours == theirs and tuple(ours) == theirs and hash(ours) == hash(theirs)
    assert (ours.first, ours.second, ours.both) == (theirs.first, theirs.second, theirs.both)
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
    assert ours._replace(first=7) == theirs._replace(first=7) and type(ours._replace(first=7)) is Ours
    assert Ours.__doc__ == Theirs.__doc__ and not hasattr(ours, "__dict__")


@pytest.mark.parametrize("values, names", [((), {}), ((1, 2, 3), {}), ((1,), {"first": 1}), ((1,), {"third": 1})])
def test_what_is_wrong_is_refused(values, names):
    for kind in (Ours, Theirs):
        with pytest.raises(TypeError):
            kind(*values, **names)


def test_a_field_cannot_be_set():
    with pytest.raises(AttributeError):
        Ours(1).first = 2
