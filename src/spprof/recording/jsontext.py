"""JSON without `import json`, which takes 8 ms: most of what `spprof.start` may take."""

from __future__ import annotations

TYPE_CHECKING = False  # see __init__
if TYPE_CHECKING:
    from typing import Any


def json_text(value: Any) -> str:
    """A dict, list, str or int as JSON, in ASCII."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json_text(key)}: {json_text(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(json_text, value)) + "]"
    if isinstance(value, str) and value.isascii() and value.isprintable() and '"' not in value and "\\" not in value:
        return f'"{value}"'
    return str(value) if isinstance(value, int) else '"' + "".join(map(_character, value)) + '"'


def _character(character: str) -> str:
    if " " <= character <= "~" and character not in '"\\':
        return character
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join("\\u" + units[i : i + 4] for i in range(0, len(units), 4))
