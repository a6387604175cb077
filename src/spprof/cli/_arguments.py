"""Kinds of arguments that several verbs take. Each raises ArgumentTypeError with what would do."""

from __future__ import annotations

import os

from ..errors import SpprofError

TYPE_CHECKING = False  # `typing` is imported while the program starts
if TYPE_CHECKING:
    from typing import Any, List

    from ..files.profile import Profile

# What is read of other profilers: docs/formats.md.
OTHERS = "collapsed, speedscope, pprof, austin, perf script, Chrome's events, .cpuprofile, Firefox, cProfile"


class Mistake(SpprofError):
    """Words that do not fit together, of a verb."""


def _wrong(text: str) -> Exception:
    """What the parser says in its own way."""
    from argparse import ArgumentTypeError

    return ArgumentTypeError(text)


def number(text: str, what: str, least: float, most: float = 1e300) -> float:
    """An option that is a number within these: `what` is to be given."""
    try:
        value = float(text)
    except ValueError:
        raise _wrong(f"{text!r} is no number: give {what}") from None
    if not least <= value <= most:
        raise _wrong(f"{text!r} is out of range: give {what}")
    return value


def percentage(text: str) -> float:
    """An option that is a percentage."""
    return number(text, "0 to 100", 0, 100)


def positive(text: str) -> float:
    """An option that is a number above 0."""
    return number(text, "a number above 0, at most 1,000,000", 1e-300, 1e6)


def seconds(text: str) -> float:
    """A time in a profile, counted from its start."""
    return number(text, "seconds from the profile's start, 0 or more", 0)


def count(text: str) -> int:
    """A number of rows."""
    if not text.isdecimal():
        raise _wrong(f"{text!r} is not a number of rows: give 0 or more")
    return int(text)


def profile_path(text: str) -> str:
    """A profile, by its path. A process id is a usual mistake: other tools take one."""
    if text.isdecimal() and not os.path.exists(text):
        raise _wrong(f"{text} is a process id, and a file is wanted: {_profile_of(text)}")
    return text


def _profile_of(pid: str) -> str:
    """Where the profile of a process may be, in words."""
    import glob

    found = sorted(glob.glob(f"*.{pid}.spprof"))
    return f"here is {', '.join(found)}" if found else f"`spprof run` writes NAME.{pid}.spprof"


def process_or_profile(text: str) -> Any:
    """A process id, as an int, or the path of a profile."""
    if not text.isdecimal() or os.path.exists(text):
        return text
    if os.path.isdir("/proc/self") and not os.path.isdir(f"/proc/{int(text)}"):
        raise _wrong(f"there is no process {text} that this user may see; of one that ran, {_profile_of(text)}")
    return int(text)


def process(text: str) -> Any:
    """A process id, as an int, or a word of a command line."""
    if not text.isdecimal():
        return text
    if not int(text):
        raise _wrong(f"{text!r} is no process id: `spprof ps` lists them")
    return int(text)


def newest() -> List[str]:
    """The profiles to show if none is given: the one of this folder that was written last, and those of other processes of its
    run. Says which. Raises Mistake."""
    import glob

    found = glob.glob("*.spprof")
    if not found:
        raise Mistake("no .spprof file is in this folder: give a FILE, or make one by `spprof run script.py`")
    file = max(found, key=lambda name: (os.path.getmtime(name), name))
    from ..files.writing import begun  # here: `spprof run` shares its process with the program
    from ..report.text import say

    run, files = begun(file).get("run"), [file]
    if run:
        headers = {name: begun(name) for name in found}
        of_run = [name for name in found if headers[name].get("run") == run]
        files = sorted(of_run, key=lambda name: (headers[name].get("begun") == "child", name))
    say(f"spprof: {files[0]}{f' with {len(files) - 1} more of its run' if files[1:] else ''}, the newest here")
    return files


def add_full_paths(parser: Any) -> None:
    """`--full-paths`, of the verbs that print names of files."""
    parser.add_argument("--full-paths", action="store_true", help="paths of source files whole, and lines as long as they are")


def add_mine(parser: Any) -> None:
    """`--mine`, of the verbs that print summaries."""
    parser.add_argument("--mine", metavar="PATTERN", action="append", default=[],
                        help="the tree of your own code has these files or packages, too (* and ? allowed)")  # fmt: skip


def load(file: str) -> Profile:
    """A profile. What is wrong with it, but does not keep it from being read, is said."""
    from ..files.profile import Profile

    profile = Profile.load(file)
    if profile.warning:
        from ..report.text import say  # here: `spprof run` shares its process with the program

        say(f"spprof: {file}: {profile.warning}")
    return profile


def add_sources(parser: Any) -> None:
    """`--sources`, `--no-sources`, of the verbs that make pages."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--sources", action="store_const", const=True,
                       help="html: have the text of every source file that can be read, even of others")  # fmt: skip
    group.add_argument("--no-sources", dest="sources", action="store_const", const=False,
                       help="html: leave out the text of the source files")  # fmt: skip


def say_of_sources(profile: Profile, format: Any, sources: Any) -> None:
    """Why a page has no text of source files, if nobody asked for that."""
    from ..formats._sources import has_hashes
    from ..report.text import say

    if format == "html" and sources is None and not has_hashes(profile):
        say("spprof: the page has no text of source files: the profile has no hashes to know them by (--sources has it)")
