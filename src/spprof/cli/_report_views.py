"""The views of `spprof report` that are not its table: a text and a JSON object each."""

from __future__ import annotations

import argparse
import sys
from typing import Callable, Dict, NamedTuple, Optional, Sequence

from ..errors import BadOption
from ..model.data import ProfileData
from ..report.text import width_of_table

ROWS = 15  # of a text, unless --limit says


def view(profiles: Sequence[ProfileData], options: argparse.Namespace) -> Optional[str]:
    """What a view prints; None: the table is asked for. Raises BadOption for options that the view does not take."""
    name = "tail" if options.tail is not None else options.shown
    if options.sources and name != "lines":
        raise BadOption("--sources goes with --lines")
    if name not in VIEWS:
        return None
    of = VIEWS[name]
    given = {"--by": options.by != "function", "--thread": options.thread is not None}
    wrong = [option for option in given if given[option] and option not in of.takes]
    if wrong or options.format not in ("flat", "json", *of.formats):
        raise BadOption(f"--{name} is a table of its own: use it without {_words(of)}")
    return of.print(profiles, options)


def _words(of: _View) -> str:
    """What a view does not take."""
    words = [option for option in ("--by", "--thread") if option not in of.takes] + ["other formats than json"]
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


def _json(options: argparse.Namespace) -> bool:
    return bool(options.format == "json")


def _rows(options: argparse.Namespace) -> int:
    return ROWS if options.limit is None else int(options.limit)


def _width() -> int:
    return width_of_table(sys.stdout)


def _native_calls(profiles: Sequence[ProfileData], options: argparse.Namespace) -> str:
    from ..report import native_calls, summary

    if _json(options):
        return native_calls.as_json(profiles, options.limit, options.thread, options.mine)
    return summary.summary(
        profiles, _rows(options), options.thread, shown="calls", width=_width(), verbose=options.verbose, mine=options.mine
    )


def _calls(profiles: Sequence[ProfileData], options: argparse.Namespace) -> str:
    from ..report import called

    return called.as_json(profiles, options.limit) if _json(options) else called.called(profiles, _rows(options), _width())


def _slowest(profiles: Sequence[ProfileData], options: argparse.Namespace) -> str:
    from ..report import timed

    if _json(options):
        return timed.slowest_as_json(profiles, options.limit)
    return timed.slowest(profiles, _rows(options), _width())


def _lines(profiles: Sequence[ProfileData], options: argparse.Namespace) -> str:
    from ..report import line_counts

    if _json(options):
        return line_counts.as_json(profiles, options.limit)
    return line_counts.line_counts(profiles, _rows(options), _width(), options.sources)


def _exceptions(profiles: Sequence[ProfileData], options: argparse.Namespace) -> str:
    from ..report import exceptions

    if _json(options):
        return exceptions.as_json(profiles, options.limit)
    return exceptions.exceptions(profiles, _rows(options), _width())


def _specialization(profiles: Sequence[ProfileData], options: argparse.Namespace) -> str:
    from ..report import specialization

    if _json(options):
        return specialization.as_json(profiles, options.limit)
    return specialization.text(profiles, _rows(options), _width())


def _gc(profiles: Sequence[ProfileData], options: argparse.Namespace) -> str:
    from ..report import collections

    if _json(options):
        return collections.as_json(profiles, options.limit)
    return collections.collections(profiles, _rows(options), _width())


def _imports(profiles: Sequence[ProfileData], options: argparse.Namespace) -> str:
    if all(profile.imports is not None for profile in profiles):
        from ..report import import_times

        if options.thread is not None:
            raise BadOption("imports that were timed are shown of all threads: use --imports without --thread")
        if _json(options):
            return import_times.as_json(profiles)
        return import_times.import_times(profiles, sys.stdout, options.min_share)
    from ..report import imports

    if _json(options):
        return imports.as_json(profiles, options.thread)
    return imports.imports(profiles, sys.stdout, options.thread, options.min_share, options.verbose)


def _waits(profiles: Sequence[ProfileData], options: argparse.Namespace) -> str:
    from ..report import waits

    by = "thread" if options.by == "function" else options.by
    if _json(options):
        return waits.as_json(profiles, options.limit, options.thread, by)
    return waits.text(profiles, _rows(options), options.thread, _width(), by)


def _blame(profiles: Sequence[ProfileData], options: argparse.Namespace) -> str:
    from ..report import blame

    if _json(options):
        return blame.as_json(profiles, options.limit, options.thread)
    return blame.text(profiles, options.limit, options.thread, _width())


def _tail(profiles: Sequence[ProfileData], options: argparse.Namespace) -> str:
    from ..report import tail

    if _json(options):
        return tail.as_json(profiles, options.tail, options.limit, options.thread)
    return tail.text(profiles, options.tail, _rows(options), options.thread, _width())


def _tasks(profiles: Sequence[ProfileData], options: argparse.Namespace) -> str:
    from ..report import tasks

    return tasks.as_json(profiles, options.limit) if _json(options) else tasks.text(profiles, _rows(options), _width())


class _View(NamedTuple):
    """How a view is printed, which of --by and --thread it takes, and which formats beside flat and json."""

    print: Callable[[Sequence[ProfileData], argparse.Namespace], str]
    takes: Sequence[str] = ()
    formats: Sequence[str] = ()


VIEWS: Dict[str, _View] = {  # by their options
    "native-calls": _View(_native_calls, ["--thread"]),
    "calls": _View(_calls),
    "slowest": _View(_slowest),
    "lines": _View(_lines),
    "exceptions": _View(_exceptions),
    "specialization": _View(_specialization),
    "gc": _View(_gc),
    "imports": _View(_imports, ["--thread"], ["tree"]),
    "waits": _View(_waits, ["--by", "--thread"]),
    "blame": _View(_blame, ["--thread"]),
    "tail": _View(_tail, ["--thread"]),
    "tasks": _View(_tasks),
}
