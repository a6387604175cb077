"""What `python3 -m bench --plan` runs: every subject, each with as many rounds as its intervals need, in ninety minutes."""

from typing import Any, Dict, List, NamedTuple

from .pythons import matrix

_SIGNAL = {"clocks": ("signal",)}  # the clock that is taken without being asked for


# Of the programs of `shares` and `ticks` those that run on each interpreter.
_SOME = r"0\.7\+0\.3 ms$|70\+30 us, drawn$|35\+15 us, getppid|70\+30 us, sleep 50 us"


class Run(NamedTuple):
    """A subject, options that replace those given, and under which name the results are kept ("": the subject's own)."""

    subject: str
    replaced: Dict[str, Any]
    tag: str = ""
    python: str = ""


def runs() -> List[Run]:
    """Short ones first, so that an end before the end leaves the most. Of what depends on the interpreter a short run on each."""
    found = [
        Run("tables", {}), Run("wall100", {}), Run("cpu100", {}),
        Run("wrapped", {}), Run("crowd_start", {"rounds": 6}), Run("brief_threads", {}),
        Run("handler", {"rounds": 6, "seconds": 1.0}),
        Run("times", {"rounds": 6}), Run("lines", {"rounds": 6}), Run("imports", {"rounds": 7}), Run("exceptions", {"rounds": 6}),
        Run("attach", {"rounds": 6}),
        Run("cost10k", {"rounds": 7, "seconds": 4.0}),
        Run("handover", {"rounds": 7, **_SIGNAL}),
        Run("bytes", {}), Run("convert", {"rounds": 3}), Run("startup", {}),
        Run("native", {"rounds": 6, "seconds": 1.0}),
        Run("slowdown", {"rounds": 6, "seconds": 2.0, "peers": True, **_SIGNAL}),
        Run("counts", {"rounds": 6, "seconds": 0.4}),
        Run("hot", {"rounds": 6}),
        Run("cost1k", {"rounds": 7}),
        Run("impossible", {"samples": 200_000}),
        Run("ticks", {"rounds": 6, "seconds": 2.0, **_SIGNAL}),
        Run("shares", {"seconds": 2.0, "as_nobody": True, **_SIGNAL}),
        Run("work", {"rounds": 6, "seconds": 1.0, **_SIGNAL}),
    ]  # fmt: skip
    some = {"programs": _SOME, "seconds": 2.0, "rounds": 1, **_SIGNAL}
    for name, path in matrix().items():
        found.append(Run("ticks", some, name, path))
        found.append(Run("shares", some, name, path))
        found.append(Run("work", {"rounds": 1, "seconds": 0.5, "beside": (0,), **_SIGNAL}, name, path))
    return [
        *found,
        Run("peers", {"rounds": 6}), Run("peers_native", {"rounds": 3}),
        Run("native1k", {"rounds": 6}), Run("calls", {"samples": 200_000, **_SIGNAL}),
        Run("intervals", {}), Run("memory", {"minutes": 5.0}),
    ]  # fmt: skip
