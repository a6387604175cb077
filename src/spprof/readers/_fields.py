"""Fields of JSON documents, checked: errors name what is missing or of the wrong type."""

from __future__ import annotations

from typing import Any, Dict, List, Optional


def field(record: Any, name: str, kind: type, where: str) -> Any:
    """A field that must be there. Raises ValueError."""
    if not isinstance(record, dict):
        raise ValueError(f"{where} is no object")
    if name not in record:
        raise ValueError(f"{where} has no {name!r}")
    return checked(record[name], kind, f"{name!r} of {where}")


_WORDS = {list: "a list", dict: "an object", str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def checked(value: Any, kind: type, where: str) -> Any:
    """A value of a type; `float` takes whole numbers too, `int` also 3.0. Raises ValueError."""
    if kind is float and type(value) is int:
        return value
    if kind is int and type(value) is float and value.is_integer():
        return int(value)
    if type(value) is not kind:
        raise ValueError(f"{where} is {value!r:.40}, not {_WORDS[kind]}")
    return value


def text(record: Dict[str, Any], name: str, where: str) -> str:
    """A text that may be missing or null."""
    value = record.get(name)
    return "" if value is None else str(checked(value, str, f"{name!r} of {where}"))


def whole(record: Dict[str, Any], name: str, where: str) -> Optional[int]:
    """A whole number that may be missing or null."""
    value = record.get(name)
    return None if value is None else int(checked(value, int, f"{name!r} of {where}"))


def index(value: Any, table: List[Any], where: str) -> int:
    """A number of an entry of a table. Raises ValueError."""
    if type(value) is not int or not 0 <= value < len(table):
        raise ValueError(f"{where} is {value!r:.40}, and there are {len(table)}")
    return value
