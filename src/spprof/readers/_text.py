"""Text as systems write it: its encoding, what a crash left at its end."""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple, Optional

_MARKS = (  # UTF-32's little endian mark begins as UTF-16's
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NOT_TEXT = re.compile(rb"[\x01-\x08\x0e-\x1a]")
_NAMES = re.compile(r"[;\n\r\t ]")
_NAMES_IN_BYTES = re.compile(rb"[;\n\r\t ]")


class Text(NamedTuple):
    """A file's text. `warning`: what is odd about the file, for the reader of the profile."""

    text: str
    warning: Optional[str] = None


def text_of(data: bytes) -> Optional[Text]:
    """The text of a file, None if it is none. Raises ValueError for text that is damaged."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _wide(data, encoding)
    body = data.rstrip(b"\0")
    if b"\0" in body:
        return _without_mark(data)
    if not body:
        raise ValueError("the file holds nothing but zero bytes")
    if len(body) == len(data):
        return Text(_narrow(data))
    if _NOT_TEXT.search(body):
        return None
    padding = f"{len(data) - len(body):,} zero bytes at its end"
    if not body.endswith((b"\n", b"\r")):
        raise ValueError(f"the file has {padding}, and what is before them does not end with a line: it was cut by a crash")
    return Text(_narrow(body), f"the file has {padding}, as after a crash: lines may be missing")


def _wide(data: bytes, encoding: str) -> Text:
    """Text with a mark, as PowerShell's `>` writes it."""
    try:
        return Text(data.decode(encoding))
    except UnicodeDecodeError as error:
        raise ValueError(f"{encoding.upper()} text that is damaged or was cut short, at byte {error.start:,}") from None


def _without_mark(data: bytes) -> Optional[Text]:
    """The same without a mark, where nearly every second byte is zero."""
    for odd, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        if len(data) > 8 and data[odd::2].count(0) > 0.9 * (len(data) // 2) and data[1 - odd :: 2].count(0) == 0:
            return _wide(data, encoding)
    if _NOT_TEXT.search(data):
        return None
    raise ValueError(f"text with zero bytes in it, the first at byte {data.index(0):,}: it is damaged, perhaps by a crash")


def _narrow(data: bytes) -> str:
    """UTF-8, or what looks like it. What is none is replaced; if that made two names one, it is spelled out."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("utf-8-sig", "replace")
        if len(set(_NAMES.split(text))) < len(set(_NAMES_IN_BYTES.split(data))):
            return data.decode("utf-8-sig", "backslashreplace")
        return text
