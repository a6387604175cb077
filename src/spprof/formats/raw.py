"""spprof's own format: a copy of the file, with everything in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from ..model.data import ProfileData
    from .options import Options


def write(profile: ProfileData, out: BinaryIO, options: Options) -> None:
    """Writes the .spprof file itself; no option applies."""
    out.write(profile.raw())
