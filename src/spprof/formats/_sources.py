"""The text of source files, for pages. A profile may name any file, so by default there is only text that its maker could read:
of files whose SHA-256 is what the profile says that it was when the program ran."""

from __future__ import annotations

import hashlib
import io
import linecache
import os
import tokenize
from typing import TYPE_CHECKING, Dict, Iterable, Optional, Tuple

from ..readers.spprof import hashes

if TYPE_CHECKING:
    from ..model.data import ProfileData

CAP = 1 << 20  # characters of text; they take about a third of it in the page
_FILE_MOST = 4 << 20  # bytes, as in csrc/core/file/hashes.c

UNKNOWN = "the profile does not say what it was when the program ran (--sources takes what it is now)"
CHANGED = "it has changed since the program ran (--sources takes what it is now)"
_NONE = "it is no file"
_GONE = "it could not be read when the page was written"
_LONG = "the page holds 1 MB of text"


class Texts:
    """Of these files, in this order until the cap. `files`: whether each is of native code; `asked`: whether all that can be read
    is wanted (True), or none (False)."""

    def __init__(self, profile: ProfileData, files: Iterable[Tuple[str, bool]], asked: Optional[bool]) -> None:
        self.texts: Dict[str, str] = {}
        self.changed: Dict[str, bool] = {}  # those of them that are not as they were
        self.without: Dict[str, str] = {}  # file -> why it has no text here
        if asked is False:
            return
        known, left = _hashes(profile), CAP
        began = int(profile.header.get("start_unix_ns") or 0)
        for file, native in files:
            digits = known.get(file)
            if not asked and digits is None:
                self.without[file] = _NONE if file.startswith("<") else UNKNOWN
                continue
            data = _bytes(file)
            changed = bool(data) and (_is_newer(file, began) if digits is None else hashlib.sha256(data).hexdigest() != digits)
            text = "" if changed and not asked else _decoded(data, native)
            if not text:
                self.without[file] = CHANGED if changed and not asked else _GONE
            elif len(text) > left:
                self.without[file] = _LONG
            else:
                left -= len(text)
                self.texts[file] = text
                if changed:
                    self.changed[file] = True


def has_hashes(profile: ProfileData) -> bool:
    """Whether the profile says of any file what it was."""
    return bool(_hashes(profile))


def _hashes(profile: ProfileData) -> Dict[str, str]:
    """Of several processes: a file that changed between them is one that has changed."""
    known: Dict[str, str] = {}
    for raw in profile.raws():
        for file, digits in hashes(raw).items():
            known[file] = digits if known.get(file, digits) == digits else ""
    return known


def _is_newer(file: str, began: int) -> bool:
    return bool(began) and os.path.isfile(file) and os.stat(file).st_mtime_ns > began


def _bytes(file: str) -> bytes:
    """What is in the file, or was in the cell of IPython's; b"" if that cannot be read."""
    try:
        if os.path.isfile(file):
            with open(file, "rb") as stream:
                data = stream.read(_FILE_MOST + 1)
            return data if len(data) <= _FILE_MOST else b""
        return "".join(linecache.getlines(file)).encode("utf-8", "replace") if file.startswith("<") else b""
    except (OSError, ValueError):  # gone; a name with a zero byte
        return b""


def _decoded(data: bytes, native: bool) -> str:
    if native:
        return data.decode("utf-8", "replace").replace("\r\n", "\n")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return io.TextIOWrapper(io.BytesIO(data), encoding).read()
    except (SyntaxError, ValueError):  # not Python, not the encoding that it says
        return ""
