"""spprof's own format: a copy of the file, with everything in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from ..model import Profile
    from . import Options


def write(profile: Profile, out: BinaryIO, options: Options) -> None:
    """Writes the .spprof file itself; no option applies."""
    out.write(profile.raw())
