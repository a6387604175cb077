"""What threads and tasks waited for, in the page: a stack in which some of it was waited is one for each thing that was."""

from __future__ import annotations

import os
from array import array
from typing import Dict, List, Optional, Sequence, Tuple

from ..model.blame import NO_OWNER, NOBODY, Charge
from ..model.data import ProfileData
from ..model.records import native_name
from ..model.waits import GIL, LOCK, REASONS, TITLES, things

Holder = Tuple[str, int]  # `worker (71) in parse (app.py:10)`, and its stack: a node of the tree, 0: not known
Wait = Tuple[str, str, str, int]  # the reason, what it is (`socket 10.0.0.3:5432`), its holder; '' and 0
_NO_HOLDER: Holder = ("", 0)


class Waits:
    """Of profiles whose stacks are in one tree. A key is a stack and what was waited for in it: of a stack that ran it is the
    stack's own number."""

    def __init__(self, profiles: Sequence[ProfileData]) -> None:
        self.listed: List[Wait] = []
        self._known: Dict[Wait, int] = {}
        self._nodes = len(profiles[0].tree.parents)
        self._keys = [self._keys_of(profile) for profile in profiles]

    def keys(self, place: int) -> Sequence[int]:
        """Of each sample of the profile at this place."""
        return self._keys[place]

    def split(self, key: int) -> Tuple[int, int]:
        """A key's stack, and the number of its wait in `listed`, + 1 (0: it ran)."""
        wait, stack = divmod(key, self._nodes)
        return stack, wait

    def samples(self, place: int, profile: ProfileData, thread: Optional[str]) -> Dict[int, int]:
        """How many samples each key has, in the threads that match a pattern."""
        keys = self._keys[place]
        if keys is profile.stack_keys():
            return profile.stack_sums(thread)[0]
        wanted = set(profile.match_threads(thread))
        found: Dict[int, int] = {}
        for key, id, count in zip(keys, profile.column("thread"), profile.column("count")):
            if id in wanted:
                found[key] = found.get(key, 0) + count
        return found

    def _keys_of(self, profile: ProfileData) -> Sequence[int]:
        stacks = profile.stack_keys()
        if profile.mode != "wall" or profile._columns().get("explained"):  # explained: the reasons are frames
            return stacks
        columns, holders = profile._columns(), _holders(profile)
        on = things(columns)
        numbers: Dict[Tuple[int, int, Holder], int] = {}
        keys = array("Q", stacks)
        rows = zip(profile.column("reason"), columns["waits_on"], holders)
        for i, why in enumerate(rows):
            if why[0]:  # not `running`
                if why not in numbers:
                    wait = (TITLES[REASONS[why[0]]], on[why[1]], *why[2])
                    if wait not in self._known:
                        self.listed.append(wait)
                        self._known[wait] = len(self.listed)
                    numbers[why] = self._known[wait] * self._nodes
                keys[i] += numbers[why]
        return keys


def _holders(profile: ProfileData) -> List[Holder]:
    """Of each sample the holder of the GIL or the lock that it waits for. Of several stacks the one with most of its time."""
    reasons = profile.column("reason")
    holders = [_NO_HOLDER] * len(reasons)
    most: Dict[int, int] = {}
    known: Dict[Charge, Holder] = {}
    for reason in {GIL, LOCK}.intersection(reasons):
        for i, charge, ns in profile.charges(None, reason):
            if charge.holder not in (NOBODY, NO_OWNER) and ns > most.get(i, -1):
                if charge not in known:
                    known[charge] = (_title(profile, charge), max(charge.stack, 0))
                most[i], holders[i] = ns, known[charge]
    return holders


def _title(profile: ProfileData, charge: Charge) -> str:
    origin = profile.origin
    thread = f"{origin.thread_name(charge.holder)} ({origin.thread_tid(charge.holder) or '?'})"
    frames = [] if charge.stack == NOBODY else profile.stack_frames(charge.stack)
    if not frames:
        return thread
    leaf = next((id for id in reversed(frames) if not profile.frame(id).native), frames[-1])
    frame, line = profile.frame(leaf), profile.first_line(leaf)
    if frame.native or not line:
        return f"{thread} in {native_name(frame.qualname, frame.file)}"
    return f"{thread} in {frame.qualname} ({os.path.basename(frame.file)}:{line})"
