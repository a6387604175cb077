"""Protocol buffers by hand: what the formats that are made of them need of the wire format
(https://protobuf.dev/programming-guides/encoding/)."""

from __future__ import annotations

from functools import lru_cache
from typing import Iterable

_VARINT, _BYTES = 0, 2  # wire types


@lru_cache(1 << 16)  # a profile has the same numbers again and again
def varint(value: int) -> bytes:
    """A number from -2**63 to 2**64 - 1; negative ones as their two's complement of 64 bits."""
    if 0 <= value < 0x80:
        return b"%c" % value
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """A field of type int32, int64, uint64, bool or enum. 0, the default, takes no bytes."""
    return varint(field << 3 | _VARINT) + varint(value) if value else b""


def data(field: int, value: bytes) -> bytes:
    """A field of type bytes, string or message, also if it is empty: it may be one of many."""
    return varint(field << 3 | _BYTES) + varint(len(value)) + value


def text(field: int, value: str) -> bytes:
    """A string field; a lone surrogate, which no string may hold, as `\\udcff`."""
    return data(field, value.encode("utf-8", "backslashreplace"))


def packed(field: int, values: Iterable[int]) -> bytes:
    """A repeated field of numbers; nothing if there are none."""
    whole = b"".join(map(varint, values))
    return data(field, whole) if whole else b""
