"""What a summary is of: the time in which threads have something to do. A server's threads wait for work nearly always."""

from __future__ import annotations

from typing import Iterator, List, Optional, Sequence

from ..model.data import ProfileData
from ..model.filtering import without_idle
from .text import duration


def busy_parts(profiles: Sequence[ProfileData], thread: Optional[str] = None) -> List[ProfileData]:
    """The profiles without idle time; as they are if the threads that match a pattern have no other."""
    busy = list(map(without_idle, profiles))
    return busy if any(profile.whole(thread).ticks for profile in busy) else list(profiles)


def left_out(profiles: Sequence[ProfileData], busy: Sequence[ProfileData], thread: Optional[str] = None) -> Iterator[str]:
    """That `busy` lacks the idle time of `profiles`, and how much that is."""
    all_of, rest = (sum(profile.whole(thread).weight for profile in each) for each in (profiles, busy))
    if rest < all_of:
        yield f"Idle threads are left out: {duration(all_of - rest)} more (--waiting idle shows them)."
