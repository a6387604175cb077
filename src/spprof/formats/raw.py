"""spprof's own format: a copy of the file, with everything in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from ..errors import BadOption

if TYPE_CHECKING:
    from ..model.data import ProfileData
    from .options import Options


def write(profile: ProfileData, out: BinaryIO, options: Options) -> None:
    """Writes the .spprof file itself; no option applies. Raises BadOption for a part of a profile, which is no file."""
    if profile.part_of is not None:
        raise BadOption("a part of a profile cannot be saved as .spprof: keep the whole file, or choose another format")
    out.write(profile.raw())
