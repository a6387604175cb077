"""Text that is valid Unicode. A path, an argument or a name may hold bytes that are none; Python has them as lone surrogates,
which not every reader takes: DuckDB refuses a file for one."""

from __future__ import annotations

import re
from html import escape
from typing import Any

_NOT_XML = re.compile("[\x00-\x1f\x7f-\x9f\ufffe\uffff]")


def clean(text: str) -> str:
    """Text with its lone surrogates spelled out, as `\\udcff`."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def cleaned(value: Any) -> Any:
    """The same of all texts of what becomes JSON."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {cleaned(key): cleaned(each) for key, each in value.items()}
    return list(map(cleaned, value)) if isinstance(value, (list, tuple)) else value


def markup(text: str) -> str:
    """Text as an element or attribute of XML or HTML can hold it: of others, it goes into no page or picture otherwise."""
    return escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", clean(text)))
