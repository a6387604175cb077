"""How a profile is to be taken: one record, checked here, for the API, the command line, pytest, Jupyter and the web."""

from __future__ import annotations

from ..errors import BadOption

TYPE_CHECKING = False  # see __init__
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Sequence, Tuple, Union


class Number:
    """An option that is a number: what it is by default, and its range. The API, the command line and the checks read it here;
    the core has its own range (`_core.LIMITS`, and a test compares the two)."""

    __slots__ = ("default", "least", "most")
    default: Any
    least: Any
    most: Any

    def __init__(self, default: float, least: float, most: float) -> None:
        self.default, self.least, self.most = default, least, most


RATE_HZ = Number(1000, 1, 20_000)
INTERVAL_MS = Number(1.0, 0.05, 1000.0)  # the same
MAX_DEPTH = Number(512, 1, 4096)
MODES = ("cpu", "wall")
# What the core takes, each as a word, in its order (`_core.WORDS`, and a test compares the two).
WORDS = (
    "clock",
    "mode",
    "interval_ns",
    "max_depth",
    "native",
    "events",
    "calls",
    "times",
    "lines",
    "exceptions",
    "imports",
    "specialization",
)


def usual_mode(events: Sequence[str]) -> str:
    """Where waiting matters, as in tests and requests: all time, unless time is not sampled at all."""
    return "wall" if "time" in events else "cpu"


class Options:
    """A checked, immutable record. Raises BadOption for what does not exist or is out of range.

    The pace is given as `interval_ms` or as `rate` (samples a second of a thread), not as both; by default it is 1 ms. What the
    system can do is not checked here: `api.begin` asks the core for the clock and for native frames."""

    __slots__ = WORDS
    calls: str
    clock: str
    events: Tuple[str, ...]
    exceptions: bool
    imports: bool
    interval_ns: int
    lines: str
    max_depth: int
    mode: str
    native: Union[bool, str]
    specialization: bool
    times: str

    def __init__(
        self,
        interval_ms: Optional[float] = None,
        mode: str = "cpu",
        *,
        rate: Optional[float] = None,
        clock: str = "auto",
        max_depth: int = MAX_DEPTH.default,
        native: Union[bool, str] = False,
        events: Sequence[str] = ("time",),
        calls: Union[bool, str] = False,
        time: Union[str, Sequence[str]] = (),
        time_cpu: bool = False,
        lines: Union[str, Sequence[str]] = (),
        exceptions: bool = False,
        imports: bool = False,
        specialization: bool = False,
    ) -> None:
        if mode not in MODES:
            raise BadOption(f"mode={mode!r} does not exist: choose 'cpu' or 'wall'")
        interval_ns = _interval_ns(interval_ms, rate)
        if not (isinstance(max_depth, int) and MAX_DEPTH.least <= max_depth <= MAX_DEPTH.most):
            raise BadOption(f"max_depth={max_depth!r} is out of range: {MAX_DEPTH.least} to {MAX_DEPTH.most}")
        if native not in (False, True, "full", "leaf"):
            raise BadOption(f"native={native!r}: give False, True, 'leaf' or 'full'")
        chosen = _events(events, mode)
        if calls not in ("", False, True, "python", "c", "hot"):
            raise BadOption(
                f"calls={calls!r}: give False, True, 'c' to count functions in C, too, or 'hot' to count the hottest ones only"
            )
        if calls == "hot" and "time" not in chosen:
            raise BadOption("calls='hot': samples of time say which functions are the hottest; give the event time, too")
        if exceptions not in (False, True):
            raise BadOption(f"exceptions={exceptions!r}: give False or True")
        if imports not in (False, True):
            raise BadOption(f"imports={imports!r}: give False or True")
        if specialization not in (False, True):
            raise BadOption(f"specialization={specialization!r}: give False or True")
        values = {
            "calls": "python" if calls is True else calls or "",
            "clock": clock,
            "interval_ns": interval_ns,
            "max_depth": max_depth,
            "mode": mode,
            "native": native,
            "events": chosen,
            "exceptions": bool(exceptions),
            "times": _times(time, time_cpu),
            "lines": ",".join(_patterns("lines", lines)),
            "imports": bool(imports),
            "specialization": bool(specialization),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"Options are immutable: {name} cannot be set")

    def __repr__(self) -> str:
        return f"Options({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"

    def words(self, clock: str) -> Tuple[str, ...]:
        """What `_core.start` takes, with the clock that was chosen."""
        return tuple(clock if name == "clock" else _word(getattr(self, name)) for name in WORDS)

    def to_text(self) -> str:
        """The record as a line of text, for another process."""
        return "\t".join(self.words(self.clock))

    @classmethod
    def of_text(cls, text: str) -> Options:
        """The reverse. Raises ValueError (also as BadOption)."""
        words = text.split("\t")
        if len(words) != len(WORDS):
            raise ValueError(f"{len(words)} words, not {len(WORDS)}")
        of = dict(zip(WORDS, words))
        times = [each for each in of["times"].split(",") if each]
        kinds: Dict[str, Union[bool, str]] = {"yes": True, "": False}
        return cls(
            int(of["interval_ns"]) / 1e6,
            of["mode"],
            clock=of["clock"],
            max_depth=int(of["max_depth"]),
            native=kinds.get(of["native"], of["native"]),
            events=of["events"].split(","),
            calls=of["calls"],
            time=[each for each in times if each != "cpu"],
            time_cpu="cpu" in times,
            lines=[each for each in of["lines"].split(",") if each],
            exceptions=of["exceptions"] == "yes",
            imports=of["imports"] == "yes",
            specialization=of["specialization"] == "yes",
        )


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _events(events: Sequence[str], mode: str) -> Tuple[str, ...]:
    """What is sampled, each by its name; `api.begin` asks the core whether it can."""
    chosen = (events,) if isinstance(events, str) else tuple(events)
    if not chosen or not all(isinstance(event, str) for event in chosen):
        raise BadOption(f"events={events!r}: give a list of names, such as ['time', 'page-faults']")
    for event in chosen:
        if not _is_word(event):
            raise BadOption(f"{event!r} is no name of an event: `spprof run --event list` names all")
    if mode == "wall" and "time" not in chosen:
        raise BadOption("mode='wall' is about time: give the event time, too")
    if mode != "wall" and any(event.partition("=")[0] == "tasks" for event in chosen):
        raise BadOption("the event 'tasks' is of tasks that do not run: it needs mode='wall' and the event time")
    return chosen


def _times(time: Union[str, Sequence[str]], cpu: bool) -> str:
    """Which functions' calls are timed, as the core takes it."""
    patterns = _patterns("time", time)
    if cpu and not patterns:
        raise BadOption("time_cpu=True: of which functions? Give them, such as time='shop.price:*'")
    return ",".join((*(["cpu"] if cpu else []), *patterns))


def _patterns(option: str, given: Union[str, Sequence[str]]) -> Tuple[str, ...]:
    """Which functions are meant."""
    patterns = (given,) if isinstance(given, str) else tuple(given)
    for pattern in patterns:
        parts = pattern.split(":") if isinstance(pattern, str) else []
        if len(parts) != 2 or not all(parts) or set(pattern) & set(", \t\n\0\x1d\x1e\x1f"):
            raise BadOption(f"{option}={pattern!r}: give MODULE:QUALNAME, such as 'shop.price:*' or '__main__:main'")
    return patterns


def _is_word(event: str) -> bool:
    return event != "" and not set(event) & set(",\t") and (":" not in event or event.startswith("tracepoint:"))


def _interval_ns(interval_ms: Optional[float], rate: Optional[float]) -> int:
    if rate is None:
        given = INTERVAL_MS.default if interval_ms is None else interval_ms
        if not (isinstance(given, (int, float)) and INTERVAL_MS.least <= given <= INTERVAL_MS.most):
            raise BadOption(
                f"interval_ms={given!r} is out of range: {INTERVAL_MS.least} (20 kHz) to {INTERVAL_MS.most:.0f} (1 Hz)"
            )
        return round(given * 1e6)
    if interval_ms is not None:
        raise BadOption(f"both interval_ms={interval_ms!r} and rate={rate!r} are given: they say the same thing, so give one")
    if not (isinstance(rate, (int, float)) and RATE_HZ.least <= rate <= RATE_HZ.most):
        raise BadOption(f"rate={rate!r} is out of range: {RATE_HZ.least} to {RATE_HZ.most} samples a second")
    return round(1e9 / rate)
