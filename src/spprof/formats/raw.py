"""spprof's own format: a copy of the file, with everything in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

from ..errors import BadOption

if TYPE_CHECKING:
    from ..model import Profile
    from . import Options


def write(profile: Profile, out: BinaryIO, options: Options) -> None:
    """Writes the .spprof file itself; no option applies. Raises BadOption if the profile is another profiler's file."""
    if "source" in profile.header:
        raise BadOption(f"a {profile.header['source']} file cannot become a .spprof file: choose another format")
    out.write(profile.raw())
