"""Two programs, or one before and after a change, compared function by function: what `spprof diff` shows.

A side is one run or several. What may be believed of a change is said in intervals.py.
"""

from __future__ import annotations

from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..errors import BadOption
from ..model import intervals
from ..model.data import ProfileData
from ..model.intervals import LEVEL, Estimate, Whole
from ..model.patterns import is_like
from .alignment import Aligner, Function
from .tables import check_units
from .text import weight_word

MEASURES = ("share", "time")
MIN_SHARE = 0.005  # of A and B together: below it a change is not looked for, since each comparison makes all others less sure

Runs = Tuple[List[float], List[float]]  # a figure of each run of A, and of each of B


class Change(NamedTuple):
    """A figure before and after, and its difference, with 95 % intervals: of the whole (`share`) or seconds a run (`time`;
    what the files count, if that is not time).

    `significant`: the difference is none of chance, also when all that was compared with it is counted. None where that cannot be
    known: seconds of one run each, whose clocks are exact and say nothing of how much runs vary."""

    a: Estimate
    b: Estimate
    difference: Estimate
    significant: Optional[bool]


class Row(NamedTuple):
    """A function (or line) with the nanoseconds of each run of A and of B, itself and with what it calls."""

    function: Function
    file: str
    line: int
    own: Runs
    total: Runs
    own_squares: Runs  # of each run what `Whole.samples_of` needs of it
    total_squares: Runs

    def figures(self, kind: str) -> Tuple[Runs, Runs]:
        """The nanoseconds `kind` ('own' or 'total'), and their squares."""
        return getattr(self, kind), getattr(self, kind + "_squares")


class Comparison:
    """The runs `a` beside the runs `b`, of the threads that match a pattern. `notes`: what a reader has to know. `min_share`: the
    share of A and B together from which on functions are compared.

    Raises BadOption if they cannot be compared: CPU time beside wall time, different units, no samples, one run
    beside several."""

    def __init__(
        self,
        a: Sequence[ProfileData],
        b: Sequence[ProfileData],
        by: str = "function",
        thread: Optional[str] = None,
        python_only: bool = False,
        min_share: float = MIN_SHARE,
    ) -> None:
        self.by, self.thread, self.min_share = by, thread, min_share
        self.sides = (list(a), list(b))
        self._check()
        self.unit = self.sides[0][0].unit
        self.scale = 1e9 if self.unit == "nanoseconds" else 1.0
        native = {bool(profile.header.get("native")) for profile in self._all()}
        self.notes = _notes(self.sides)
        if len(native) > 1 and not python_only:
            python_only = True
            self.notes.append("not all have native frames: their time is given to the Python functions that called them")
        self.only = "python" if python_only else None
        self.wholes: Tuple[List[Whole], List[Whole]] = tuple([one.whole(thread) for one in side] for side in self.sides)  # type: ignore[assignment]
        for side, wholes in zip(self.sides, self.wholes):
            for profile, whole in zip(side, wholes):
                if not whole.weight:
                    raise BadOption(f"{profile.path or 'a profile'}: no samples were taken, so there is nothing to compare")
        self.notes += _unknown(self.wholes, self.weight_word)
        self.aligner = Aligner([*b, *a], by)
        self.rows = self._align()
        self.notes += self.aligner.notes
        self.calls = self._count_calls()

    @property
    def repeated(self) -> bool:
        """Whether each side has several runs."""
        return len(self.sides[0]) > 1

    @property
    def known(self) -> Tuple[bool, bool]:
        """Of A and of B: whether intervals say something (see `Whole.is_known`)."""
        a, b = (intervals.together(side).is_known for side in self.wholes)
        return a, b

    def _all(self) -> List[ProfileData]:
        return [*self.sides[0], *self.sides[1]]

    @property
    def weight_word(self) -> str:
        """What the measure 'time' is of, in a word: 'time', or what the files count."""
        return weight_word(self.unit)

    def _check(self) -> None:
        check_units(self._all(), "compared")
        if (len(self.sides[0]) > 1) != (len(self.sides[1]) > 1):
            raise BadOption(
                "one run beside several cannot be compared: how much runs vary must be known of both sides. "
                "Give one run each, or at least two each: A1 A2 A3 -- B1 B2 B3"
            )
        if self.thread is not None:
            for profile in self._all():
                if not profile.match_threads(self.thread):
                    names = ", ".join(sorted({each.name for each in profile.threads})) or "none at all"
                    raise BadOption(f"{profile.path}: no thread matches {self.thread!r}; it has: {names}")

    def _align(self) -> List[Row]:
        counts = [len(side) for side in self.sides]
        sums: Dict[Function, Tuple[Runs, Runs, Runs, Runs]] = {}
        for which in (1, 0):  # B first: its files and lines are shown
            for run, profile in enumerate(self.sides[which]):
                for function, figure in self.aligner.figures(profile, self.thread, self.only).items():
                    if function not in sums:
                        sums[function] = tuple(tuple([0.0] * n for n in counts) for _ in range(4))  # type: ignore[assignment]
                    for kind in range(2):
                        sums[function][kind][which][run] = figure[1 + 2 * kind]
                for function, squares in self.aligner.squares(profile, self.thread, self.only).items():
                    for kind in range(2):
                        sums[function][2 + kind][which][run] = squares[kind]
        shown = self.aligner.shown
        return [Row(function, *shown.get(function, ("", 0)), *kinds) for function, kinds in sums.items()]

    def _count_calls(self) -> Optional[Dict[Function, Runs]]:
        """How often each run called each function; None: not all of them know."""
        counted = [[profile.calls for profile in side] for side in self.sides]
        by_side = [next((calls.missing for calls in side if calls is not None and calls.missing), None) for side in counted]
        self.notes += [f"not all calls of {name} were counted: {missing}" for name, missing in zip("AB", by_side) if missing]
        known = [None not in side for side in counted]
        if known[0] != known[1]:
            self.notes.append(f"only {'A' if known[0] else 'B'} counted its calls, which takes time, too")
        if not all(known) or self.thread is not None or self.by != "function":
            return None
        result: Dict[Function, Runs] = {}
        for which, side in enumerate(self.sides):
            for run, profile in enumerate(side):
                for function, calls in self.aligner.calls(profile).items():
                    runs = result.setdefault(function, ([0.0] * len(self.sides[0]), [0.0] * len(self.sides[1])))
                    runs[which][run] = calls
        return result

    def total(self, factor: float = 1.0) -> Change:
        """Seconds (or counts) of a run; of B less `factor` times A. One run's clock has no error."""
        a, b = ([more * one.weight / self.scale for one in side] for more, side in zip((factor, 1.0), self.wholes))
        if not self.repeated:
            before, after, between = (Estimate(value, value, value) for value in (a[0], b[0], b[0] - a[0]))
            return Change(before, after, between, None)
        difference = intervals.welch(a, b)
        return Change(intervals.mean(a), intervals.mean(b), difference, not difference.low <= 0 <= difference.high)

    def changes(self, kind: str = "own", measure: str = "share") -> List[Tuple[Row, Change]]:
        """The rows whose figure `kind` ('own' or 'total') is large enough to be compared, the largest change first."""
        rows = [row for row in self.rows if self.compared(getattr(row, kind))]
        found = [(row, self.change(row.figures(kind), measure, len(rows))) for row in rows]
        return sorted(found, key=lambda each: (-abs(each[1].difference.value), each[0].function))

    def compared(self, runs: Runs) -> bool:
        """Whether the share is at least `min_share`, on average of A and B (which says nothing about their difference)."""
        shares = [[part / whole.weight for part, whole in zip(*side)] for side in zip(runs, self.wholes)]
        share = sum(sum(side) / len(side) for side in shares) / 2
        return share > 0 and share >= self.min_share

    def change(self, figures: Tuple[Runs, Optional[Runs]], measure: str = "share", compared: int = 1) -> Change:
        """The change of nanoseconds with their squares, if these are known, one of `compared` that are looked at together."""
        a, b, difference = self.estimates(figures, measure, 1.0, LEVEL)
        sure = self.estimates(figures, measure, 1.0, intervals.at_once(LEVEL, compared))[2]
        known = self.repeated or measure == "share"
        return Change(a, b, difference, not sure.low <= 0 <= sure.high if known else None)

    def estimates(
        self, figures: Tuple[Runs, Optional[Runs]], measure: str, factor: float, level: float, calls: Optional[Runs] = None
    ) -> Tuple[Estimate, Estimate, Estimate]:
        """`factor` times A, B, and B less that. `calls`: each run's figure is divided by its number there."""
        runs, squares = figures
        samples: Runs = tuple(  # type: ignore[assignment]
            [whole.samples_of(part, squares[side][run] if squares else 0.0) for run, (part, whole) in enumerate(zip(*each))]
            for side, each in enumerate(zip(runs, self.wholes))
        )
        divided = calls or tuple([1.0] * len(side) for side in runs)

        def sampled(runs: Runs) -> Tuple[Estimate, Estimate, Estimate]:
            return self._sampled(runs, samples, divided, measure, factor, level)  # type: ignore[arg-type]

        seen = sampled(runs)
        if not any(whole.unknown_weight for side in self.wholes for whole in side):
            return seen
        # What was sampled at no random instant may be all of it or none, in A and in B: two worst cases.
        less: Runs = tuple([part - one.unknown_weight for part, one in zip(*side)] for side in zip(runs, self.wholes))  # type: ignore[assignment]
        more: Runs = tuple([part + one.unknown_weight for part, one in zip(*side)] for side in zip(runs, self.wholes))  # type: ignore[assignment]
        fell = sampled((more[0], less[1]))
        rose = sampled((less[0], more[1]))
        return (
            Estimate(seen[0].value, rose[0].low, fell[0].high),
            Estimate(seen[1].value, fell[1].low, rose[1].high),
            Estimate(seen[2].value, fell[2].low, rose[2].high),
        )

    def _sampled(
        self, runs: Runs, samples: Runs, divided: Runs, measure: str, factor: float, level: float
    ) -> Tuple[Estimate, Estimate, Estimate]:
        """As if all samples had been taken at random instants."""
        factors, sampled = (factor, 1.0), []  # of each side the runs as sampling alone knows them
        for parts, numbers, by, wholes, more in zip(runs, samples, divided, self.wholes, factors):
            unit = [more * (whole.weight / self.scale if measure == "time" else 1.0) / n for whole, n in zip(wholes, by)]
            at = LEVEL if self.repeated else level
            each = zip(parts, numbers, wholes, unit)
            sampled.append([whole.of_samples(part, number, at).times(one) for part, number, whole, one in each])
        if not self.repeated:
            return sampled[0][0], sampled[1][0], intervals.difference(sampled[0][0], sampled[1][0])
        values = [[estimate.value for estimate in side] for side in sampled]
        least = [sum(((one.high - one.low) / 2 / intervals.z_of(LEVEL)) ** 2 for one in side) / len(side) for side in sampled]
        means = [intervals.mean(side, level, variance) for side, variance in zip(values, least)]
        most = 1.0 if measure == "share" else float("inf")
        means = [Estimate(one.value, max(one.low, 0.0), min(one.high, most * more)) for one, more in zip(means, factors)]
        return means[0], means[1], intervals.welch(values[0], values[1], level, (least[0], least[1]))

    def grown(self, pattern: Optional[str], percent: float) -> List[str]:
        """What surely grew by more than `percent`, in words: the time of a run, or (with a pattern) that of each function
        of such a name with what it calls. Surely: the interval of B - A x (1 + percent / 100) lies above 0. Of one run each only
        the error of sampling is known, and how much runs vary is not.

        Raises BadOption if no function has such a name."""
        factor = 1 + percent / 100
        if pattern is None:
            change = self.total(factor)
            grew = change.difference.low > 0
            return (
                [f"the {self.weight_word} of a run grew by {_growth(change.a, change.b, factor)}, more than {percent:g} %"]
                if grew
                else []
            )
        rows = [row for row in self.rows if is_like(row.function.qualname, pattern)]
        if not rows:
            raise BadOption(f"no function is called {pattern!r} in either; names are as in the table, * and ? may be used")
        found = []
        for row in rows:
            level = intervals.at_once(LEVEL, len(rows))
            before, after, difference = self.estimates(row.figures("total"), "time", factor, level)
            if difference.low > 0:
                found.append(f"{row.function.qualname} grew by {_growth(before, after, factor)}, more than {percent:g} %")
        return found


def _growth(scaled: Estimate, after: Estimate, factor: float) -> str:
    before = scaled.value / factor
    return f"{after.value / before - 1:+.1%}" if before else "all of its time (it was not there)"


def _notes(sides: Sequence[Sequence[ProfileData]]) -> List[str]:
    differences: List[Tuple[str, str, Callable[[ProfileData], str]]] = [
        ("Python", "the interpreter is part of the change", lambda p: str(p.header.get("python", "?")).rpartition(".")[0]),
        ("rates", "shares are of time, so they compare", lambda p: f"{1e9 / p.interval_ns:,.0f} Hz" if p.interval_ns else "?"),
        ("clocks", "they differ in what they see of the kernel's time", lambda p: p.clock or "?"),
    ]
    notes = []
    for what, meaning, of in differences:
        by_side = [", ".join(sorted({of(profile) for profile in side})) for side in sides]
        if by_side[0] != by_side[1]:
            notes.append(f"different {what}: A {by_side[0]}, B {by_side[1]}; {meaning}")
    return notes


def _unknown(sides: Sequence[Sequence[Whole]], what: str) -> List[str]:
    by_side = [intervals.together(side).unknown_share for side in sides]
    if not any(by_side):
        return []
    return [
        f"{what} sampled at the kernel's own tick, which the program may be in step with: A {by_side[0]:.1%}, "
        f"B {by_side[1]:.1%}; a change is marked only if it holds wherever that went"
    ]
