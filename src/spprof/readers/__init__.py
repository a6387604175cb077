"""Files of other profilers: collapsed stacks, speedscope's and pprof's, also gzipped. Which it is, is told from the content.

A reader is a module with `read(data)`, which gives the columns that `Profile` works on (`Columns.result`); every view and
format then works with no special case. Only the unit may differ (`Profile.unit`): collapsed stacks count samples, and no time
is made up.
"""

from __future__ import annotations

import zlib
from importlib import import_module
from typing import Any, Dict

_GZIP = b"\x1f\x8b"
_MAX_BYTES = 1 << 29  # that a gzipped file may hold: a thousand times more fits into a small file


def read(data: bytes) -> Dict[str, Any]:
    """The columns of a file of another profiler. Raises ValueError, with words, if it is none or is damaged."""
    if data.startswith(_GZIP):
        data = _inflated(data)
    if not data.strip():
        raise ValueError("the file is empty")
    name = _format_of(data)
    try:
        columns: Dict[str, Any] = import_module("." + name, __name__).read(data)
    except ValueError as error:
        if name == "collapsed":  # what is left when it is nothing else
            raise ValueError(f"not a .spprof file, nor a speedscope or pprof file or collapsed stacks: {error}") from None
        raise ValueError(f"not a {name} file, or a damaged one: {error}") from None
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise ValueError(f"a {name} file that does not make sense: {type(error).__name__} {error}") from None
    return columns


def _format_of(data: bytes) -> str:
    if data.lstrip(b" \t\r\n\xef\xbb\xbf").startswith(b"{"):
        return "speedscope"
    # A pprof file has the empty string, so a zero byte; text has none.
    return "pprof" if b"\0" in data else "collapsed"


def _inflated(data: bytes) -> bytes:
    """What all members of a gzip file hold."""
    parts = []
    room = _MAX_BYTES
    while data:
        member = zlib.decompressobj(31)
        try:
            parts.append(member.decompress(data, room + 1))
        except zlib.error as error:
            raise ValueError(f"the gzipped file is damaged: {error}") from None
        room -= len(parts[-1])
        if room < 0:
            raise ValueError(f"the gzipped file holds more than {_MAX_BYTES >> 20} MiB")
        if not member.eof:
            raise ValueError("the gzipped file was cut short")
        data = member.unused_data.lstrip(b"\0")  # padding is allowed
    return b"".join(parts)
