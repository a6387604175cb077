"""Following a profile while it is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Type

from ..errors import BadOption

if TYPE_CHECKING:
    from .view import LiveView


def view_class() -> Type[LiveView]:
    """The view. Raises BadOption without Textual."""
    try:
        from .view import LiveView
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("textual", "rich"):
            raise
        raise BadOption(f"the live view needs the package textual ({error}): pip install 'spprof[tui]'") from None
    return LiveView
