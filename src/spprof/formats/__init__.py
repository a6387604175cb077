"""Formats for other programs: one module each, listed in `FORMATS`.

A format is a module with `write(profile, out, options)`, where `out` is a binary stream and `options` an `Options`.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, BinaryIO, Dict, NamedTuple, Optional

from ..errors import BadOption, CannotWrite

if TYPE_CHECKING:
    from ..model import Profile


class Format(NamedTuple):
    """`extension` is how file names of this format end; `title` says what opens it."""

    module: str
    extension: str
    title: str


FORMATS: Dict[str, Format] = {
    "spprof": Format("raw", ".spprof", "spprof's own file, complete"),
    "html": Format("html", ".html", "one page to look at in a browser, offline"),
    "speedscope": Format("speedscope", ".speedscope.json", "for https://speedscope.app"),
    "collapsed": Format("collapsed", ".collapsed", "stacks on one line each, for flamegraph.pl, inferno and others"),
}


class Options(NamedTuple):
    """What can be asked of a format; each takes what makes sense for it.

    weight: 'samples' or 'ns', the number of a collapsed stack; lines: tell the lines of a function apart;
    merge_threads: all threads as one; thread: only threads that match this pattern; sources: the text of source files too."""

    weight: str = "samples"
    lines: bool = True
    merge_threads: bool = False
    thread: Optional[str] = None
    sources: bool = True


def format_of(path: str) -> Optional[str]:
    """The format whose extension the file's name has, or None."""
    return next((name for name, format in FORMATS.items() if path.endswith(format.extension)), None)


def write(profile: Profile, out: BinaryIO, format: str, options: Options) -> None:
    """Writes the profile to a binary stream. Raises BadOption."""
    if format not in FORMATS:
        raise BadOption(f"format {format!r} does not exist: choose one of {', '.join(FORMATS)}")
    if options.weight not in ("samples", "ns"):
        raise BadOption(f"weight {options.weight!r} does not exist: choose 'samples' or 'ns'")
    import_module("." + FORMATS[format].module, __name__).write(profile, out, options)


def save(profile: Profile, path: str, format: Optional[str], options: Options) -> None:
    """Writes the profile to a file; without a format, the one that its name tells. Raises BadOption, CannotWrite."""
    if format is None:
        format = format_of(path)
        if format is None:
            endings = ", ".join(known.extension for known in FORMATS.values())
            raise BadOption(f"{path}: no format was given and the name ends with none of {endings}")
    len(profile)  # read before the output is opened: it may be the same file, and a bad input must not empty it
    if format == "spprof" and profile.path and os.path.exists(path) and os.path.samefile(profile.path, path):
        return
    try:
        with open(path, "wb") as out:
            write(profile, out, format, options)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CannotWrite(f"cannot write {path}: {error.strerror or error}") from error
