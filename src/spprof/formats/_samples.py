"""Samples as formats need them: summed by stack, or as tracks in order of time."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import TYPE_CHECKING, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ..model.spans import ids as ids_of_spans
from ..model.sums import Sums, merged, sums_by_thread
from ..model.unicode import clean

if TYPE_CHECKING:
    from ..model.data import ProfileData
    from .options import Options

CHUNK = 1 << 16  # samples rendered at a time: bounds the memory, not the speed
_NO_TID = 1 << 22  # Linux gives no thread a greater id (PID_MAX_LIMIT in include/linux/threads.h); macOS does


class Group(NamedTuple):
    """The stacks of one thread (None: of all) under one set of labels (see `marks`)."""

    thread: Optional[int]
    labels: Mapping[str, str]
    sums: Sums


class Track(NamedTuple):
    """The samples of one thread (None: of all that were asked for) in order of time; `order` are their places in the columns of
    the profile, None if it is all of them."""

    thread: Optional[int]
    name: str
    order: Optional[Sequence[int]]

    def pick(self, column: Sequence[int]) -> Sequence[int]:
        """The track's part of a column of samples."""
        if self.order is None:
            return column
        # q holds every column's numbers, in an eighth of a list's memory
        return array("q", map(column.__getitem__, self.order))


def whys(profile: ProfileData) -> Tuple[Sequence[int], List[Dict[str, str]]]:
    """Why the threads of samples were off the CPU (docs/waits.md): of each sample a number, and what it means: `reason`, and
    `waits_on` and `held_by` (a thread's name) where these are known. Nothing for a profile that does not say it."""
    columns = profile._columns()
    names = ("reason", "waits_on", "held_by")
    if profile.unit != "nanoseconds" or profile.mode != "wall" or not any(profile.column("reason")):
        return array("B", bytes(len(profile))), [{}]
    found: Dict[Tuple[int, int, int], int] = {}
    numbers = array("I", (found.setdefault(why, len(found)) for why in zip(*map(profile.column, names))))
    strings, origin = columns["strings"], profile.origin
    meant = []
    for reason, on, by in found:
        values = (profile.reasons[reason], strings[on - 1] if on else "", origin.thread_name(by - 1) if by else "")
        meant.append({name: clean(value) for name, value in zip(names, values) if value})
    return numbers, meant


def marks(profile: ProfileData, spans: bool = True) -> Tuple[Sequence[int], List[Dict[str, str]]]:
    """The labels of samples, why their threads were off the CPU, and the ids of OpenTelemetry's spans, for formats that have one
    place for these: of each sample a number, and what it means. A label of such a name gives way. `spans`: False for a format
    that has a place of its own for them."""
    (numbers, meant), labels, sets = whys(profile), profile.column("label"), profile.label_sets
    span, ids = profile.column("span"), ids_of_spans(profile._columns()) if spans else {}
    if not any(ids.values()):
        span, ids = bytes(len(profile)), {0: {}}
        if meant == [{}]:
            return labels, sets
    found: Dict[Tuple[int, int, int], int] = {}
    all_of = array("I", (found.setdefault(each, len(found)) for each in zip(labels, numbers, span)))
    return all_of, [{**sets[label], **meant[why], **ids[of]} for label, why, of in found]


def groups(profile: ProfileData, options: Options) -> List[Group]:
    """Sums by thread and labels, in this order; by labels alone if threads are merged."""
    matching, (column, meant) = profile.match_threads(options.thread), marks(profile)
    sets = len(meant)
    if sets == 1:
        each = {(thread, 0): profile.sums_of(thread) for thread in matching}
    else:
        pairs_of = [thread * sets + label for thread, label in zip(profile.column("thread"), column)]
        columns = (profile.stack_keys(), profile.column("count"), profile.column("weight"))
        wanted = set(matching)
        parts = sums_by_thread(pairs_of, *columns)
        each = {divmod(id, sets): parts[id] for id in sorted(parts) if id // sets in wanted}
    if not options.merge_threads:
        return [Group(thread, meant[label], sums) for (thread, label), sums in each.items() if sums[0]]
    labels = sorted({label for _, label in each})
    by_label = {label: merged(sums for (_, each_label), sums in each.items() if each_label == label) for label in labels}
    return [Group(None, meant[label], sums) for label, sums in by_label.items() if sums[0]]


def tracks(profile: ProfileData, options: Options) -> List[Track]:
    """A track for each thread that has samples or markers, by id; one of all with `merge_threads`."""
    threads, matching = profile.column("thread"), profile.match_threads(options.thread)
    present = set(threads)
    if options.merge_threads:
        times, wanted = profile.column("time_ns"), set(matching)
        order = sorted((i for i, thread in enumerate(threads) if thread in wanted), key=times.__getitem__)
        return [Track(None, "all threads" if options.thread is None else options.thread, array("I", order))]
    orders: Dict[int, array[int]] = {thread: array("I") for thread in {*present, *(mark.thread for mark in profile.markers)}}
    if len(present) > 1:  # one pass for all: programs may have hundreds of threads
        appends = {thread: order.append for thread, order in orders.items()}
        for i, thread in enumerate(threads):
            appends[thread](i)
    return [Track(id, profile.thread_name(id), None if present == {id} else orders[id]) for id in matching if id in orders]


def period_of(profile: ProfileData) -> int:
    """How many units were to lie between two samples; 0: unknown."""
    return profile.interval_ns if "source" in profile.header else profile.sample_types[0].period


def distinct_keys(profile: ProfileData, chosen: Sequence[Track]) -> List[int]:
    """The keys of the tracks' stacks, each once."""
    return sorted(set().union(*(track.pick(profile.stack_keys()) for track in chosen)))


def distinct_tids(profile: ProfileData) -> Dict[int, int]:
    """Of each thread the system's id, or, where that is unknown or was another thread's before, a number that no thread has."""
    tids: Dict[int, int] = {}
    taken = {0}
    threads = profile.match_threads(None)
    free = max([_NO_TID, *(profile.thread_tid(thread) + 1 for thread in threads)])
    for thread in threads:
        tid = profile.thread_tid(thread)
        tids[thread] = free + thread if tid in taken else tid
        taken.add(tid)
    return tids


def distinct_names(profile: ProfileData) -> Dict[int, str]:
    """Of each thread its name, with a number where several have the same: for formats that know threads by names."""
    threads = profile.match_threads(None)
    names = {thread: profile.thread_name(thread) for thread in threads}
    often = {name for name, number in Counter(names.values()).items() if number > 1}
    tids = distinct_tids(profile) if often else {}
    return {thread: f"{name} ({tids[thread]})" if name in often else name for thread, name in names.items()}


def written_tids(profile: ProfileData) -> Dict[int, int]:
    """Of each thread the system's id, 0 if unknown; where that is another's of the same name too, a number that no thread has:
    for formats that know threads by name and id."""
    threads = profile.match_threads(None)
    pairs = {thread: (profile.thread_name(thread), profile.thread_tid(thread)) for thread in threads}
    often = {pair for pair, number in Counter(pairs.values()).items() if number > 1}
    distinct = distinct_tids(profile) if often else {}
    return {thread: distinct[thread] if pair in often else pair[1] for thread, pair in pairs.items()}
