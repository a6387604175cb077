"""`spprof why`: where the time went, in words. All time is divided among the user's functions: what each of its stacks spends in
the innermost of them, or in the library that this one calls. Nothing is said that its interval does not hold."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..model import intervals
from ..model.data import ProfileData
from ..model.intervals import Estimate
from ..model.records import OFF_CPU
from ..model.sums import Sums
from ..model.types import measured
from ..model.waits import REASONS
from .idle import busy_parts, left_out
from .imports import module_name
from .owners import IMPORTS, MINE
from .sources import lines_of
from .tables import check_units, counted, heading
from .text import amount, duration, fit, percent, place, readable
from .tick_stats import tick_stats, warnings
from .whose import owners_of
from .words import WORDS, in_words

_MOST = 5  # places
_LEAST = 0.03  # of all time: less is no answer to the question
_FEW = 100  # samples
_COLUMNS = 100
_MOST_FILES = 3  # that a command names
_MOSTLY = 0.9  # of a place's time: what is said of it then is said of all of it

_Function = Optional[Tuple[str, str, int]]  # qualified name, file, first line; None: no code of the user's


class _Spot(NamedTuple):
    """A line of a function of the user's, and the library that it calls; "" for what it does itself. `module`: one of the
    user's that is being imported meanwhile; "": none."""

    function: _Function
    library: str
    line: int
    module: str


def _is_import(library: str) -> bool:
    return library == IMPORTS or library.startswith(IMPORTS + " ")  # not `importlib`


class Why:
    """The answer of several profiles together, whose files are `files`, or of the parts of them that the options `part` choose.
    `idle`: see `summary`. Raises BadOption if they count different things."""

    def __init__(
        self, profiles: Sequence[ProfileData], files: Sequence[str], mine: Sequence[str] = (), part: str = "", idle: bool = False
    ) -> None:
        self._all = list(map(readable, profiles))
        check_units(self._all, "added up")
        self._profiles = self._all if idle else busy_parts(self._all)
        first = shlex.quote(files[0])
        named = " ".join(map(shlex.quote, files)) if len(files) <= _MOST_FILES else f"{first} ..."
        self._opened, self._files = named, named + part  # a page shows the whole, and chooses there
        self._owners = owners_of(self._profiles, mine)
        self._whole = intervals.together(profile.whole() for profile in self._profiles)
        self._unit = self._profiles[0].unit
        self._weights: Counter[_Spot] = Counter()
        self._squares: Counter[_Spot] = Counter()
        self._waiting: Counter[Tuple[_Spot, str]] = Counter()  # by what for
        for profile in self._profiles:
            spots: Dict[int, _Spot] = {}
            self._add(profile, spots, self._weights, profile.stack_sums(), 1)
            if profile.mode == "wall":
                self._add_waits(profile, spots)
            if profile.has_big_samples():
                self._add(profile, spots, self._squares, profile.stack_squares(None), 0)

    def _add(self, profile: ProfileData, spots: Dict[int, _Spot], to: Counter[_Spot], sums: Sums, which: int) -> None:
        for stack, value in sums[which].items():
            if stack not in spots:
                spots[stack] = self._spot(profile, stack)
            to[spots[stack]] += value

    def _add_waits(self, profile: ProfileData, spots: Dict[int, _Spot]) -> None:
        columns = (profile.column(name) for name in ("flags", "weight", "reason"))
        for stack, flags, weight, reason in zip(profile.stack_keys(), *columns):
            if flags & OFF_CPU:
                self._waiting[spots[stack], profile.reasons[reason]] += weight

    def _spot(self, profile: ProfileData, stack: int) -> _Spot:
        function: _Function = None
        library, line, module = "", 0, ""
        for id in profile.stack_frames(stack):
            frame = profile.frame(id)
            if profile.is_placeholder(id):
                continue
            owner = self._owners.of(frame.file, frame.native)
            if owner == MINE or (owner is None and frame.file and not frame.native and not library):
                if library == IMPORTS and frame.qualname == "<module>":
                    module = module_name(frame.file)
                function, line, library = (frame.qualname, frame.file, profile.first_line(id)), frame.line, ""
            elif owner == IMPORTS:
                library = library or IMPORTS
            elif library == IMPORTS and frame.qualname == "<module>":
                library = f"import {module_name(frame.file).split('.')[0]}"
            elif owner is not None:
                library = library or owner
        return _Spot(function, library, line, module)

    def text(self) -> str:
        """At most forty lines."""
        lines = [*warnings(self._all), heading(self._profiles, None, self._whole), *left_out(self._all, self._profiles)]
        lines += [*self._caveats(), ""]
        if self._whole.ticks:
            lines += [*self._answer(), *self._collections(), *in_words(self._all, _COLUMNS)]
        lines += [*tick_stats(self._all), f"All of it: spprof report {self._files}; spprof open {self._opened}"]
        return "\n".join(lines) + "\n"

    def _caveats(self) -> Iterator[str]:
        if self._whole.ticks < _FEW:
            yield f"That is few samples: a longer run, or `spprof run --rate 10000`, says more than {self._whole.ticks:,} can."

    def _answer(self) -> Iterator[str]:
        places: Dict[Tuple[_Function, str], List[_Spot]] = {}
        for spot in self._weights:
            places.setdefault(spot[:2], []).append(spot)
        shares = {place: self._share(spots) for place, spots in places.items()}
        order = sorted(places, key=lambda place: (-shares[place].value, str(place)))
        worth = [each for each in order if shares[each].value >= _LEAST and self._holds(shares[each])]
        if not worth:
            yield f"The samples do not say which place has {_LEAST:.0%} of it or more."
            yield ""
            return
        all_of = measured(self._profiles[0].header)
        code = self._owners.title[:1].lower() + self._owners.title[1:]
        yield f"The places in {code} that use most, in shares of all {all_of} (± is the 95 % interval):"
        yield ""
        for number, each in enumerate(worth[:_MOST], 1):
            yield from self._place(number, each, places[each], shares[each])
        first = shares[worth[0]]
        if len(order) > 1 and self._whole.is_known and first.low > max(shares[each].high for each in order[1:]):
            yield "The first is the largest of all: no other's interval reaches its own."
            yield ""

    def _share(self, spots: Sequence[_Spot]) -> Estimate:
        weight = sum(self._weights[spot] for spot in spots)
        return self._whole.share(weight, squares=sum(self._squares[spot] for spot in spots))

    def _holds(self, share: Estimate) -> bool:
        return share.is_more_than_nothing or not self._whole.is_known

    def _figures(self, spots: Sequence[_Spot], share: Estimate) -> str:
        weight = sum(self._weights[spot] for spot in spots)
        return f"{percent(share, self._whole.is_known).strip()}, {amount(weight, self._unit)}{self._waits(spots, weight)}"

    def _waits(self, spots: Sequence[_Spot], weight: int) -> str:
        """What it waited for most, and for how long."""
        if not self._waiting:
            return ""
        times = {reason: sum(self._waiting[spot, reason] for spot in spots) for reason in REASONS}
        first = max(times, key=lambda reason: times[reason])
        what = WORDS[first] if times[first] >= _MOSTLY * sum(times.values()) > 0 and first != "unknown" else "waiting"
        return f", {amount(sum(times.values()), self._unit)} of it {what}"

    def _place(self, number: int, at: Tuple[_Function, str], spots: List[_Spot], share: Estimate) -> Iterator[str]:
        function, library = at
        if function is None:
            name = library or "[no Python code]"
            yield fit(f"{number}. {name}, which no code of yours has called: {self._figures(spots, share)}", _COLUMNS)
            if library:
                yield f"     spprof why {self._files} --mine {shlex.quote(library)}"
            return
        where, figures = place(*function), self._figures(spots, share) + self._calls(function)
        what = f"{library}, called by {where}" if library else f"{where} itself"
        if _is_import(library):
            what = f"{library} in {where}"
        yield f"{number}. {fit(what, max(24, _COLUMNS - len(figures) - 5))}: {figures}"
        hot = max(spots, key=lambda spot: (self._weights[spot], -spot.line))
        line = self._share([hot])
        if hot.line and self._holds(line):
            text = lines_of(self._profiles, [(function[1], hot.line)]).get((function[1], hot.line), "")
            said = f"line {hot.line} has {percent(line, self._whole.is_known).strip()}"
            yield "     " + fit(f"{said}: {text}" if text else said, _COLUMNS - 5)
        yield from self._imported(spots)
        name = shlex.quote(function[0])
        more = "--imports" if _is_import(library) else f"--callees {name}" if library else f"--callers {name}"
        yield f"     spprof report {self._files} {more}"

    def _imported(self, spots: Sequence[_Spot]) -> Iterator[str]:
        """That it is the time of an import, if it is."""
        times: Counter[str] = Counter()
        for spot in spots:
            times[spot.module] += self._weights[spot]
        ((module, weight),) = times.most_common(1)
        if module and weight >= _MOSTLY * sum(times.values()):
            yield f"     while {module} is imported"

    def _calls(self, function: Tuple[str, str, int]) -> str:
        calls = counted(self._profiles)
        if calls is None:
            return ""
        number = sum(call.calls for call in calls.rows if call.function[1:4] == function)
        return f"; {number:,} calls (exact)"

    def _collections(self) -> Iterator[str]:
        """The garbage collector's runs are timed, not sampled."""
        ns = sum(marker.duration_ns for profile in self._profiles for marker in profile.markers if marker.name == "gc")
        wall = max(int(profile.stats.get("wall_ns", 0)) for profile in self._profiles)
        if wall and ns >= _LEAST * wall and not any(profile.header.get("part") for profile in self._profiles):
            yield f"Garbage collections took {duration(ns)} of {duration(wall)} (exact): `spprof run --event time --event gc`."
