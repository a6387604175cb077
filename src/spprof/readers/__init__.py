"""Files of other profilers, also gzipped: collapsed stacks, speedscope's and pprof's files, the text of austin and `perf script`,
Chrome's trace events, profiles of V8 and Firefox, cProfile's files. The content shows which it is.

A reader is a module with `read(content)`, which gives the columns that `Profile` works on (`Columns.result`); every view and
format then works with no special case. Only the unit may differ (`Profile.unit`): collapsed stacks count samples, and no time
is made up. What a reader gives is what the file says; what it cannot give it refuses, with the line or field.
"""

from __future__ import annotations

import io
import zlib
from array import array
from importlib import import_module
from itertools import islice
from typing import Any, Dict

_GZIP = b"\x1f\x8b"
_LONGEST = 400  # characters of a message
_LIMIT_FIRST, _LIMIT_PER_BYTE = 1 << 22, 64  # bytes that a gzipped file may hold: a thousand times more fits into a small file
# Frames that all distinct stacks of a file may have together. A file that writes them out has more bytes than that; one that
# nests calls can make a stack of each depth, and writing those out would take quadratic time and space.
_FRAMES_FIRST, _FRAMES_PER_BYTE = 1 << 22, 4


def read(data: bytes) -> Dict[str, Any]:
    """The columns of a file of another profiler. Raises ValueError, with words, if it is none or is damaged."""
    from ._kinds import READ, kind_of  # here: a .spprof file does not need them

    if data.startswith(_GZIP):
        data = _inflated(data)
    if not data.strip():
        raise ValueError("the file is empty")
    kind = kind_of(data)
    try:
        columns: Dict[str, Any] = import_module("." + kind.module, __name__).read(kind.content)
        _check_depth(columns, _FRAMES_FIRST + _FRAMES_PER_BYTE * len(data))
    except ValueError as error:
        if kind.certain:
            raise ValueError(f"not a sound {kind.module} file: {_short(error)}") from None
        raise ValueError(
            f"not a .spprof file, nor another that spprof reads ({READ}); as {kind.module}: {_short(error)}"
        ) from None
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise ValueError(f"a {kind.module} file that does not make sense: {type(error).__name__} {_short(error)}") from None
    columns["warning"] = columns["warning"] or kind.warning
    return columns


def _check_depth(columns: Dict[str, Any], most: int) -> None:
    depths = array("Q", [0])
    for parent in islice(columns["node_parent"], 1, None):
        depths.append(depths[parent] + 1)
    stacks = set(columns["stack"])
    frames = sum(map(depths.__getitem__, stacks))
    if frames > most:
        raise ValueError(
            f"its {len(stacks):,} different stacks have {frames:,} frames together, up to {max(depths):,} each; of a file of "
            f"this size {most:,} are read"
        )


def _short(error: Exception) -> str:
    """What is wrong, of which a damaged file may have made a text without end."""
    text = str(error)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"


def _inflated(data: bytes) -> bytes:
    """What all members of a gzip file hold."""
    import gzip

    limit = _LIMIT_FIRST + _LIMIT_PER_BYTE * len(data)
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            content = file.read(limit + 1)
    except EOFError:
        raise ValueError("the gzipped file was cut short") from None
    except (OSError, zlib.error) as error:
        raise ValueError(f"the gzipped file is damaged: {error}") from None
    if len(content) > limit:
        raise ValueError(
            f"the gzipped file holds more than {limit >> 20} MiB, {_LIMIT_PER_BYTE} times its size: if that is right, unpack it "
            "with `gunzip` and give what was in it"
        )
    return content
