"""`spprof report --tail p99`: what the slowest requests do that the others do not (docs/requests.md)."""

from __future__ import annotations

from bisect import bisect_right
from typing import Any, Callable, Dict, Hashable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..errors import BadOption
from ..model import intervals
from ..model.data import ProfileData
from ..model.intervals import Estimate
from ..model.requests import LABEL, Request
from ..model.waits import TITLES, things
from .blame import UNKNOWN
from .blame import named as place_of
from .document import document
from .tables import check
from .text import amount, duration, fit, readable, shown
from .waits import check_wall

_LEAST = 24  # columns for a name, whatever the terminal
ELSEWHERE = "elsewhere"  # a reason of its own: the time of a request in which no thread worked for it


class Part(NamedTuple):
    """A part of a request's time, on average: of the slow ones, of the others, and how much more that is in the slow ones (None:
    too few requests to say how sure that is). `what` says for machines what it is, `text` for people."""

    what: Dict[str, str]
    text: str
    slow_ns: float
    others_ns: float
    more: Optional[Estimate]

    @property
    def more_ns(self) -> float:
        return self.slow_ns - self.others_ns


class Tail(NamedTuple):
    """The slow requests and the others: how many, the least time of a slow one, the mean times; and the parts, those that the
    slow ones have more of first. The reasons of each side add up to its mean, unless threads worked for a request at once."""

    slow: int
    others: int
    least_ns: int
    slow_ns: float
    others_ns: float
    reasons: List[Part]
    places: List[Part]


Key = Tuple[str, str]


def tail(profiles: Sequence[ProfileData], quantile: float, thread: Optional[str] = None) -> Tail:
    """The requests beyond a quantile against the others. Raises BadOption if a profile is not of wall time, or has too few
    requests."""
    check(profiles, thread, False)
    check_wall(profiles)
    took: List[int] = []
    reasons: Dict[Key, Dict[int, int]] = {}
    places: Dict[Key, Dict[int, int]] = {}
    for profile in profiles:
        base = len(took)
        took += [request.duration_ns for request in profile.requests]
        worked = [0] * len(profile.requests)
        names, words = things(profile._columns()), profile.reasons
        for at, reason, on, stack, ns in _parts(profile, thread):
            worked[at] += ns
            for sums, key in ((reasons, (words[reason], names[on])), (places, (stack, ""))):
                of_key = sums.setdefault(key, {})
                of_key[base + at] = of_key.get(base + at, 0) + ns
        for at, ns in enumerate(worked):
            reasons.setdefault((ELSEWHERE, ""), {})[base + at] = max(0, took[base + at] - ns)
    if len(took) < 2:
        raise BadOption(f"the profile has {len(took)} requests: see `spprof.request` and the web middlewares (docs/requests.md)")
    is_part = thread is not None or any(profile.header.get("part") for profile in profiles)
    order = sorted(range(len(took)), key=took.__getitem__)
    count = min(len(took) - 1, max(1, int(len(took) * (1 - quantile) + 1e-9)))
    slow, others = order[-count:], order[:-count]

    def mean(of: Sequence[int]) -> float:
        return sum(map(took.__getitem__, of)) / len(of)

    return Tail(
        len(slow),
        len(others),
        took[slow[0]],
        mean(slow),
        mean(others),
        _compared(reasons, slow, others, lambda key: ({"reason": key[0], "on": key[1]}, _title(*key, is_part))),
        _compared(places, slow, others, lambda key: ({"place": key[0]}, shown(key[0]))),
    )


def _title(reason: str, on: str, is_part: bool) -> str:
    if reason == ELSEWHERE and is_part:
        return "without a thread, or with none of the samples that were asked for"
    if reason == ELSEWHERE:
        return "without a thread: it awaited something, or no sample fell into it"
    return TITLES[reason] + (f": {shown(on)}" if on else "")


def _compared(
    sums: Dict[Key, Dict[int, int]],
    slow: Sequence[int],
    others: Sequence[int],
    name: Callable[[Key], Tuple[Dict[str, str], str]],
) -> List[Part]:
    """Of sums by request, the means and their difference, whose intervals hold all at once."""
    level = intervals.at_once(intervals.LEVEL, len(sums))
    found = []
    for key, of_key in sums.items():
        a, b = ([float(of_key.get(at, 0)) for at in of] for of in (others, slow))
        more = intervals.welch(a, b, level) if min(len(a), len(b)) > 1 else None
        found.append(Part(*name(key), sum(b) / len(b), sum(a) / len(a), more))
    return sorted(found, key=lambda part: (-part.more_ns, part.text))


def _parts(profile: ProfileData, thread: Optional[str]) -> Iterator[Tuple[int, int, int, str, int]]:
    """The samples of requests: which one, reason, what it waits for, where, and how much of its time lies within the request."""
    windows, threads = _Windows(profile.requests), set(profile.match_threads(thread))
    ids = [labels.get(LABEL, "") for labels in profile.label_sets]
    stacks: Dict[Hashable, str] = {}
    columns: List[Any] = [profile.column(name) for name in ("thread", "label", "time_ns", "weight", "reason", "waits_on")]
    for id, label, time, weight, reason, on, stack in zip(*columns, profile.stack_keys()):
        if id not in threads or not ids[label]:
            continue
        for at, ns in windows.within(ids[label], time - weight, time):
            if stack not in stacks:
                stacks[stack] = place_of(profile.stack(stack)) or UNKNOWN
            yield at, reason, on, stacks[stack], ns


class _Windows:
    """When the requests of each id ran: an id may come again."""

    def __init__(self, requests: Sequence[Request]) -> None:
        self.begins: Dict[str, List[int]] = {}
        self.numbers: Dict[str, List[int]] = {}
        self.requests = requests
        for number, request in enumerate(requests):  # by when they began
            self.begins.setdefault(request.id, []).append(request.time_ns)
            self.numbers.setdefault(request.id, []).append(number)

    def within(self, id: str, begin: int, end: int) -> Iterator[Tuple[int, int]]:
        """The request that the last of a time lies in, and how much of the time does."""
        at = bisect_right(self.begins.get(id, ()), end) - 1
        if at >= 0:
            number = self.numbers[id][at]
            request = self.requests[number]
            ns = min(end, request.time_ns + request.duration_ns) - max(begin, request.time_ns)
            if ns > 0:
                yield number, ns


def text(
    profiles: Sequence[ProfileData], quantile: float, limit: int = 15, thread: Optional[str] = None, width: int = 160
) -> str:
    """The tables: by reason, and by line."""
    found = tail(list(map(readable, profiles)), quantile, thread)
    lines = [
        f"{found.slow + found.others:,} requests. The slowest {found.slow:,} took {duration(found.least_ns)} and longer, "
        f"{duration(found.slow_ns)} on average; the others {duration(found.others_ns)}.",
    ]
    for title, parts in (("what its threads waited for", found.reasons), ("line", found.places)):
        lines += ["", f"A request's time by {title}, on average:", "", "      slow     others       more"]
        for part in parts[:limit]:
            sign = "+" if part.more_ns >= 0 else "-"
            more = f"{sign}{duration(abs(part.more_ns))} ±{duration(part.more.reach) if part.more else '?'}"
            figures = f"{amount(part.slow_ns, 'nanoseconds'):>10} {amount(part.others_ns, 'nanoseconds'):>10}   {more:<23}"
            lines.append(f"{figures}  {fit(part.text, max(_LEAST, width - len(figures) - 2))}")
        if len(parts) > limit:
            lines.append(f"{'':>45}  {len(parts) - limit} more (--limit)")
    return "\n".join(lines) + "\n"


def as_json(profiles: Sequence[ProfileData], quantile: float, limit: Optional[int], thread: Optional[str] = None) -> str:
    """The same for programs."""
    found = tail(profiles, quantile, thread)

    def rows(parts: Sequence[Part]) -> List[Dict[str, Any]]:
        return [
            {
                **part.what,
                "slow_ns": part.slow_ns,
                "others_ns": part.others_ns,
                "more_ns": part.more_ns,
                "more_interval": [part.more.low, part.more.high] if part.more else None,
            }
            for part in parts[:limit]
        ]

    fields = {
        "slow": found.slow,
        "others": found.others,
        "least_ns": found.least_ns,
        "slow_ns": found.slow_ns,
        "others_ns": found.others_ns,
        "rows": rows(found.reasons),
        "more": len(found.reasons) - len(found.reasons[:limit]),
        "places": rows(found.places),
        "more_places": len(found.places) - len(found.places[:limit]),
    }
    return document("tail", fields)
