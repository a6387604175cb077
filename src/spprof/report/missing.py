"""Why profiles have no exact numbers."""

from __future__ import annotations

from typing import Sequence

from ..model.data import ProfileData


def why(profiles: Sequence[ProfileData], asked: str, what: str, option: str, since: str = "") -> str:
    """`asked`: the key of a header whose run was to have them; `option`: that of `spprof run`, `since` a version."""
    if any(profile.header.get("part") for profile in profiles):
        return f"{what} have no time and no labels, so a part of a profile has none"
    if any(profile.header.get(asked) for profile in profiles):
        return f"the {what} are not in the file"
    return f"there are no {what}; take a profile with `spprof run {option}`" + (f" ({since} and later)" if since else "")
