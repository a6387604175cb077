"""Kinds of arguments that several verbs take. Each raises ArgumentTypeError with what would do."""

from __future__ import annotations

import argparse
import math
import os

TYPE_CHECKING = False  # `typing` is imported while the program starts
if TYPE_CHECKING:
    from typing import Any

# What is read of other profilers: docs/formats.md.
OTHERS = "collapsed, speedscope, pprof, austin, perf script, Chrome's events, .cpuprofile, Firefox, cProfile"


def _number(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number: give {what}")
    return value


def percentage(text: str) -> float:
    """An option that is a percentage."""
    value = _number(text, "0 to 100")
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text} is not a percentage: give 0 to 100")
    return value


def positive(text: str) -> float:
    """An option that is a number above 0."""
    value = _number(text, "one above 0")
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text} is out of range: give a number above 0 and below 1,000,000")
    return value


def seconds(text: str) -> float:
    """A time in a profile, counted from its start."""
    value = _number(text, "seconds from the profile's start")
    if value < 0:
        raise argparse.ArgumentTypeError(f"{text} is before the profile's start: give 0 or more seconds")
    return value


def count(text: str) -> int:
    """A number of rows."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows: give 0 or more")
    return int(text)


def profile_path(text: str) -> str:
    """A profile, by its path. A process id is a usual mistake: other tools take one."""
    if text.isdecimal() and not os.path.exists(text):
        import glob

        found = sorted(glob.glob(f"*.{text}.spprof"))
        there = f"here is {', '.join(found)}" if found else f"`spprof run` writes NAME.{text}.spprof"
        raise argparse.ArgumentTypeError(f"{text} is a process id, and a file is wanted: {there}")
    return text


class _FullPaths(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, options: argparse.Namespace, values: Any, word: Any = None) -> None:
        from ..report.paths import show_full_paths

        show_full_paths()


def add_full_paths(parser: argparse.ArgumentParser) -> None:
    """`--full-paths`, of the verbs that print names of files."""
    parser.add_argument("--full-paths", action=_FullPaths, nargs=0, default=argparse.SUPPRESS,
                        help="paths of source files whole, and lines as long as they are")  # fmt: skip
