"""`spprof why`: where the time went, in words. All time is divided among the user's functions: what each of its stacks spends in
the innermost of them, or in the library that this one calls. Nothing is said that its interval does not hold, and a figure is
that of what it is said of: `report` with the same part of the profile shows the same."""

from __future__ import annotations

import shlex
import textwrap
from collections import Counter, defaultdict
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..model import intervals
from ..model.blame import NO_OWNER
from ..model.data import ProfileData
from ..model.intervals import Estimate
from ..model.sums import Sums
from ..model.types import measured
from ..model.waits import GIL, LOCK, REASONS
from .blame import NO_OWNER_WORDS, named
from .idle import busy_parts, left_out
from .import_times import in_a_sentence
from .imports import module_name
from .owners import IMPORTS, MINE
from .paths import full_paths
from .sources import lines_of
from .tables import check_units, counted, heading
from .text import amount, duration, fit, percent, place, readable
from .tick_stats import elapsed, on_cpu, runs_little, tick_stats, used_by_others, warnings
from .whose import owners_of
from .words import WORDS, in_words

_MOST = 5  # places
_LEAST = 0.03  # of all time: less is no answer to the question
_FEW = 100  # samples
_COLUMNS = 100
_LINES = 40
_MOST_FILES = 3  # that a command names
_PART = 0.1  # of a place's time: a reason of less is not said
_LEADS = 0.5  # of a place's time: what has as much is what to look at
_VIEWS = {"gil": "--blame", "lock": "--blame", **dict.fromkeys(("loop", "task", "job", "future"), "--tasks")}  # of a reason

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
        self._reasons: Counter[Tuple[_Spot, str]] = Counter()  # what it waited for, or that it ran; in wall mode
        self._reason_squares: Dict[Tuple[_Spot, str], float] = defaultdict(float)
        self._holders: Counter[Tuple[_Spot, str, str]] = Counter()  # waits for the GIL or a lock, by holder
        self._holder_squares: Dict[Tuple[_Spot, str, str], float] = defaultdict(float)
        big = any(profile.has_big_samples() for profile in self._profiles)
        for profile in self._profiles:
            spots: Dict[int, _Spot] = {}
            self._add(profile, spots, self._weights, profile.stack_sums(), 1)
            if profile.mode == "wall":
                self._add_waits(profile, spots)
            if big:
                self._add(profile, spots, self._squares, profile.stack_squares(None), 0)

    def _add(self, profile: ProfileData, spots: Dict[int, _Spot], to: Counter[_Spot], sums: Sums, which: int) -> None:
        for stack, value in sums[which].items():
            if stack not in spots:
                spots[stack] = self._spot(profile, stack)
            to[spots[stack]] += value

    def _add_waits(self, profile: ProfileData, spots: Dict[int, _Spot]) -> None:
        columns = (profile.column(name) for name in ("weight", "count", "reason"))
        for stack, weight, count, reason in zip(profile.stack_keys(), *columns):
            key = spots[stack], profile.reasons[reason]
            self._reasons[key] += weight
            self._reason_squares[key] += weight * weight / (count or 1)
        stacks, weights, counts = profile.stack_keys(), profile.column("weight"), profile.column("count")
        names: Dict[int, str] = {}
        for reason in (GIL, LOCK):
            for i, charge, ns in profile.charges(None, reason):
                if charge.stack not in names:
                    names[charge.stack] = named(profile.stack(charge.stack)) if charge.stack >= 0 else ""
                name = NO_OWNER_WORDS if charge.holder == NO_OWNER else names[charge.stack]
                held = spots[stacks[i]], REASONS[reason], name
                self._holders[held] += ns
                self._holder_squares[held] += ns * weights[i] / (counts[i] or 1)

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
        head = [*warnings(self._all), heading(self._profiles, None, self._whole), *left_out(self._all, self._profiles)]
        head += [*self._caveats(), ""]
        end = [*tick_stats(self._all), f"All of it: spprof report {self._files}; spprof open {self._opened}"]
        if not self._whole.ticks:
            return "\n".join([*head, *end]) + "\n"
        sentences = [*in_a_sentence(self._all), *in_words(self._all, _COLUMNS)]
        end = [*self._collections(), *(line for line in sentences if line), *end]
        lines = [*head, *end]
        for most in range(_MOST, 0, -1):
            lines = [*head, *self._answer(most), *end]
            if len(lines) <= _LINES:
                break
        return "\n".join(lines) + "\n"

    def _caveats(self) -> Iterator[str]:
        if runs_little(self._all):
            share = f"{duration(on_cpu(self._all))} of {duration(elapsed(self._all))} elapsed"
            yield f"For most of the time it did not run: {share} was on CPU, which alone is shown below."
            yield "`spprof run --mode wall` says what it waited for."
        yield from used_by_others(self._all)
        if self._whole.ticks < _FEW:
            yield f"That is few samples: a longer run, or `spprof run --rate 10000`, says more than {self._whole.ticks:,} can."

    def _answer(self, most: int) -> Iterator[str]:
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
        for number, each in enumerate(worth[:most], 1):
            yield from self._place(number, each, places[each], shares[each])
        others = [shares[each].high for each in order[1:]]
        is_known = self._whole.is_known and not runs_little(self._all)
        if others and is_known and shares[worth[0]].low > max(others):
            yield "The first is the largest of all: no other's interval reaches its own."
        yield ""

    def _share(self, spots: Sequence[_Spot]) -> Estimate:
        weight = sum(self._weights[spot] for spot in spots)
        return self._whole.share(weight, squares=sum(self._squares[spot] for spot in spots))

    def _holds(self, share: Estimate) -> bool:
        return share.is_more_than_nothing or not self._whole.is_known

    def _figures(self, spots: Sequence[_Spot], share: Estimate) -> str:
        weight = sum(self._weights[spot] for spot in spots)
        return f"{self._percent(share)}, {amount(weight, self._unit)}"

    def _percent(self, share: Estimate) -> str:
        return percent(share, self._whole.is_known).strip()

    def _by_reason(self, spots: Sequence[_Spot]) -> List[Tuple[str, int, Estimate]]:
        """What became of a place's time: each reason with its own, the largest first."""
        found = []
        for reason in WORDS:
            weight = sum(self._reasons[spot, reason] for spot in spots)
            squares = sum(self._reason_squares[spot, reason] for spot in spots)
            found.append((reason, weight, self._whole.share(weight, squares=squares)))
        return sorted(found, key=lambda each: -each[1])

    def _waits(self, spots: Sequence[_Spot]) -> Iterator[str]:
        """What it waited for, and for how long: as many reasons as there are columns for. Nothing of what ran only."""
        least = _PART * sum(self._weights[spot] for spot in spots)
        found = [each for each in self._by_reason(spots) if each[1] >= least and self._holds(each[2])]
        if not any(reason != "running" for reason, *_ in found):
            return
        text = ""
        for reason, weight, share in found:
            more = f"{amount(weight, self._unit)} ({self._percent(share)}) {WORDS[reason]}"
            if text and len(text) + 2 + len(more) > _COLUMNS:
                break
            text = f"{text}, {more}" if text else f"     of it {more}"
        yield text

    def _held(self, spots: Sequence[_Spot]) -> Iterator[str]:
        """Where the GIL or a lock was held, if most of the time of a place was waiting for it."""
        reason, own = self._leading(spots), set(spots)
        of_place: Counter[str] = Counter()
        for (spot, why, name), ns in self._holders.items():
            if spot in own and why == reason and name:
                of_place[name] += ns
        for name, ns in of_place.most_common(1):
            share = self._whole.share(ns, squares=sum(self._holder_squares[spot, reason, name] for spot in spots))
            if ns >= _PART * sum(self._weights[spot] for spot in spots) and self._holds(share):
                figures = f"{amount(ns, self._unit)} ({self._percent(share)})"
                held = f"the {'GIL' if reason == 'gil' else 'lock'} was held meanwhile by {name}"
                text = name if name == NO_OWNER_WORDS else f"{held}: {figures}"
                yield from _wrapped(text, "     ", "       ")

    def _leading(self, spots: Sequence[_Spot]) -> str:
        """The reason that most of its time has; "": none."""
        reason, weight, share = self._by_reason(spots)[0]
        all_of = sum(self._weights[spot] for spot in spots)
        return reason if weight > 0 and weight >= _LEADS * all_of and self._holds(share) else ""

    def _place(self, number: int, at: Tuple[_Function, str], spots: List[_Spot], share: Estimate) -> Iterator[str]:
        function, library = at
        if function is None:
            name = library or "[no Python code]"
            yield from _wrapped(f"{number}. {name}, which no code of yours has called: {self._figures(spots, share)}")
            yield from self._waits(spots)
            if library:
                yield f"     spprof why {self._files} --mine {shlex.quote(library)}"
            return
        where, figures = place(*function), self._figures(spots, share) + self._calls(function)
        what = f"{library}, called by {where}" if library else f"{where} itself"
        if _is_import(library):
            what = f"{library} in {where}"
        yield from _wrapped(f"{number}. {what}: {figures}")
        yield from self._waits(spots)
        yield from self._held(spots)
        yield from self._line(function[1], spots)
        yield from self._imported(spots)
        name = shlex.quote(function[0])
        more = "--imports" if _is_import(library) else f"--callees {name}" if library else f"--callers {name}"
        yield f"     spprof report {self._files} {_VIEWS.get(self._leading(spots), more)}"

    def _line(self, file: str, spots: Sequence[_Spot]) -> Iterator[str]:
        """The line that has most of it."""
        of_line: Dict[int, List[_Spot]] = {}
        for spot in spots:
            of_line.setdefault(spot.line, []).append(spot)
        line, its = max(of_line.items(), key=lambda each: (sum(self._weights[spot] for spot in each[1]), -each[0]))
        share = self._share(its)
        if line and self._holds(share):
            text = lines_of(self._profiles, [(file, line)]).get((file, line), "")
            said = f"     of it {self._percent(share)} at line {line}"
            if text and len(said) + 2 + len(text) > _columns():
                yield f"{said}:"
                yield "       " + fit(text, _columns() - 7)
            else:
                yield f"{said}: {text}" if text else said

    def _imported(self, spots: Sequence[_Spot]) -> Iterator[str]:
        """How much of it is the time of an import, if most is."""
        of_module: Dict[str, List[_Spot]] = {}
        for spot in spots:
            of_module.setdefault(spot.module, []).append(spot)
        module, its = max(of_module.items(), key=lambda each: (sum(self._weights[spot] for spot in each[1]), each[0]))
        share = self._share(its)
        if module and self._holds(share) and 2 * share.value > self._share(spots).value:
            yield f"     while {module} is imported: {self._figures(its, share)}"

    def _calls(self, function: Tuple[str, str, int]) -> str:
        calls = counted(self._profiles)
        if calls is None:
            return ""
        number = sum(call.calls for call in calls.rows if call.function[1:4] == function)
        return f"; {number:,} calls (exact)"

    def _collections(self) -> Iterator[str]:
        """The garbage collector's runs are timed, not sampled."""
        ns = sum(marker.duration_ns for profile in self._profiles for marker in profile.markers if marker.name == "gc")
        took = sum(int(profile.stats.get("wall_ns", 0)) for profile in self._profiles)
        if took and ns >= _LEAST * took and not any(profile.header.get("part") for profile in self._profiles):
            of = f"{duration(took)} elapsed" if len(self._profiles) == 1 else f"{duration(took)}, all processes' times added up"
            yield f"Garbage collections took {duration(ns)} of {of} (exact): `spprof run --event time --event gc`."


def _columns() -> int:
    return _COLUMNS if not full_paths() else 1 << 30


def _wrapped(text: str, first: str = "", more: str = "   ") -> List[str]:
    """A place and its figures; names are not cut, and are on the next line where they are long."""
    made = textwrap.TextWrapper(_COLUMNS, first, more, break_long_words=False, break_on_hyphens=False)
    return made.wrap(text)
