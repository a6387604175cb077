"""A run: the program, and what becomes of its profile when it has ended."""

from __future__ import annotations

import os
import sys

from .. import formats
from ..errors import TAKEN, BadOption, SpprofError
from ..files.writing import is_being_written
from . import commands, outputs, program, recorder, stalls, supervisor

TYPE_CHECKING = False  # `typing` is imported while the program starts
if TYPE_CHECKING:
    import argparse
    from typing import Callable, Dict, Iterable, List, Optional, Sequence

    from ..files.profile import Profile
    from ..recording.options import Options

_MOST_FILES = 8  # that a command names


class Run:
    """A program that is profiled. `kind`: module, code or script (or a command); `command`: its words; `options`: those of
    `spprof run`. Raises SpprofError; `program.NoModule` with Python's words."""

    failed = False  # of the program

    def __init__(self, kind: str, command: List[str], recording: Options, options: argparse.Namespace) -> None:
        from ..recording import api  # not of `attach`, which takes no profile by itself

        self.options = options
        clock = api.require_supported(recording)
        self.conversion = formats.Options(merge_threads=options.merge_threads, thread=options.thread, sources=True)
        self.program = commands.Command(kind, command, options.python or "")
        self.command = self.program.words
        self.outputs = outputs.Outputs(options.output, options.format, self.program.name, options.subprocesses, options.force)
        if self.outputs.format != "spprof":
            formats.check(self.outputs.format, self.conversion)  # now, and not when the program is done
        if self.program.script:
            program.check_script(self.program.script)
        if options.live and not self.program.is_python:
            name = os.path.basename(self.command[0])
            raise BadOption(f"--live shows the process that starts, and {name} is no Python: spprof run --live python ...")
        self.module = self.program.module  # whether it is there only its own process finds out
        self.pid, self.lost = 0, False  # lost: the profile is not where it was asked for
        self._ends = supervisor.link() if hasattr(os, "fork") and not options.live else (-1, -1)
        if self._ends[1] >= 0:
            self._started(os.getpid())  # it takes the place of this one; a command may start Python in another process
        window = (options.delay, options.duration)
        self.environment = recorder.environment(
            recording, clock, window, bool(self.module), self.program.closed, self.outputs, self._ends[1]
        )

    def run(self) -> int:
        """The program takes this process's place. Windows: as it ended."""
        if not hasattr(os, "fork"):
            return self.supervise(supervisor.Child(self.command, self.environment))
        return supervisor.in_place(self.command, self.environment, self._ends, self.supervise, self.outputs.is_special)

    def supervise(self, program: supervisor.Program) -> int:
        """To its end."""
        self._started(program.pid)
        _prepare(self.options)
        limit = self.options.on_stall
        wait: Callable[..., Optional[str]] = stalls.Waiting(program, limit, self.outputs).wait if limit else program.wait
        try:
            way_out = wait() if self.options.duration is None else self._end_of_recording(wait)
            self._finish(way_out, program.failed)
            if way_out is None:
                wait()
            return program.let_go(TAKEN if self.lost else 0)
        except supervisor.Interrupted:
            self._say_where("interrupted")
            return 0

    def _started(self, pid: int) -> str:
        if self.pid != pid:
            self.pid = pid
            self.outputs.started(pid)
        return self.outputs.stream

    def _end_of_recording(self, wait: Callable[[float], Optional[str]]) -> Optional[str]:
        """Waits for that; or how the program ended first. (What it ends by itself, ends with it.)"""
        way_out = wait(self.options.duration + (self.options.delay or 0))
        while way_out is None and not self.outputs.is_over():
            way_out = wait(0.02)
        return way_out

    def watch(self, show: Callable[[List[str], Dict[str, str], Callable[[int], str]], int]) -> int:
        """The same as a child of this process, with the live view. As the program ended: minus its signal, perhaps."""
        code = show(self.command, self.environment, self._started)
        self._finish(supervisor.way_out(code), code != 0)
        return code or (TAKEN if self.lost else 0)

    def _finish(self, way_out: Optional[str], failed: bool) -> None:
        """Puts the profile where it was asked for, and says so. `way_out`: how the program ended; None: it has not yet."""
        self.failed = failed
        if way_out is not None:
            self.outputs.finish(way_out)
        try:
            self._put(way_out is not None)
            if failed:
                self._say_which_environment()
            if way_out == "exit":
                self._say_what_goes_on()
        except (SpprofError, OSError) as error:
            self.lost = True
            say(f"spprof: {error}\n")
            self._say_where("")

    def _put(self, ended: bool) -> None:
        streams = self.outputs.streams()
        if not streams:
            why = self._why_not()
            if ended and why:
                say(f"spprof: nothing was recorded: {why}\n")
            elif ended:
                self.lost = True
                why = "unless a line above says why, it was removed, moved or overwritten while the program ran"
                say(f"spprof: {_words([self.outputs.stream])} is not there: {why}\n")
            return
        if self.outputs.are_without("program") or (self.outputs.are_without("module") and not program.is_there(self.module)):
            self.outputs.discard()
            return
        self._put_all(streams, self.outputs.children())

    def _put_all(self, streams: List[str], children: List[str]) -> None:
        """The files of the program, and of its child processes."""
        profiles: List[Profile] = []
        lacks: List[str] = []
        text = ""
        growing = list(filter(is_being_written, children))  # before they are read: what ends later may have written more
        if not self.options.quiet or (children and self.outputs.format != "spprof"):
            from ..files.profile import Profile

            profiles = [Profile.load(path) for path in streams]
            of_children = _readable(children)
            children = list(of_children)
            profiles += of_children.values()
        as_one = bool(children) and self.outputs.format != "spprof"
        if not self.options.quiet:
            text = "\nNo samples were taken.\n" if self._never_began(profiles) else self._summary(profiles)
        if as_one:
            place, lacks = self.outputs.place_as_one([*streams, *children], profiles, growing, self.conversion)
            places = [place]
        else:
            places = [self.outputs.place(n, path, self.conversion) for n, path in enumerate(streams, 1)]
        if not self.options.quiet:
            say(text + self._places(places, children, profiles, growing))
        if lacks:
            stay = self._files([*streams, *children])
            say(f"spprof: {_relative(place)} does not have the {', '.join(lacks)}: the processes' own files stay: {stay}\n")

    def _never_began(self, profiles: List[Profile]) -> bool:
        """Whether the program failed (a mistake of syntax) before anything was recorded that a summary could show."""
        return self.failed and not any(map(_has_something, profiles))

    def _summary(self, profiles: List[Profile]) -> str:
        from ..report.owners import patterns
        from ..report.summary import summary
        from ..report.text import width_of_table

        options, width, mine = self.options, width_of_table(sys.stderr), patterns(self.options.mine)
        text = summary(profiles, options.limit, options.thread, width=width, verbose=options.verbose, mine=mine)
        return "\n" + text

    def _places(self, places: List[str], children: List[str], profiles: List[Profile], growing: Sequence[str] = ()) -> str:
        from ..report.text import printable

        format, text = self.outputs.format, ""
        for n, path in enumerate(places):
            title = formats.FORMATS[format].title
            if format == "spprof" and profiles[n].unfinished:
                title = title.replace("complete", "incomplete")
            size = f"{os.path.getsize(path):,} bytes, " if os.path.isfile(path) else ""
            text += f"Written: {printable(_relative(path))} ({size}{title}).\n"
        wall = (profiles[0].stats.get("wall_ns") or 0) / 1e9
        if self.options.delay is not None and wall < self.options.delay and not any(map(len, profiles)):
            text += f"The program ended before --delay {self.options.delay:g} was over: no samples were to be taken.\n"
        text += self._children(children, growing)
        if format == "spprof" and not self.outputs.is_special and not self._never_began(profiles):
            files = self._files([*places, *children])
            text += f"  spprof report {files}\n  spprof open {files}\n"
        elif format == "html" and not self.outputs.is_special:
            text += f"  spprof open {_words(places[:1])}\n"
        return text

    def _children(self, children: List[str], growing: Sequence[str]) -> str:
        if not children:
            return ""
        what = (
            f"{len(children)} file{'s' if len(children) != 1 else ''}"
            if self.outputs.format == "spprof"
            else f"{len(children)}, in the same file"
        )
        grows = [path for path in growing if path in children]
        more = f"Still running, and their files grow: {_words(grows)}\n" if grows else ""
        return f"Child processes: {what}.\n{more}"

    def _files(self, paths: List[str]) -> str:
        """As a command line has them. Of many a pattern, which may find another run's, too."""
        from fnmatch import fnmatch
        from glob import escape

        if len(paths) <= _MOST_FILES or not self.outputs.stem:
            return _words(paths)
        others = [path for path in paths if not fnmatch(path, f"{escape(self.outputs.stem)}.*.spprof")]
        return _words([*others, self.outputs.stem]) + ".*.spprof"

    def _say_what_goes_on(self) -> None:
        if not self.program.is_python:  # what started it has the same environment
            return
        pids = supervisor.forks(f"{recorder.VARIABLE}={self.environment[recorder.VARIABLE]}", self.pid)
        if not pids:
            return
        which = f"process {pids[0]} goes on" if len(pids) == 1 else f"processes {', '.join(map(str, pids))} go on"
        own = self.outputs.children(set(pids))
        grows = f"the profile grows in {_words(own)}" if own else "only --subprocesses profiles that"
        say(f"spprof: the program went into the background: {which}, and {grows}\n")

    def _why_not(self) -> str:
        """What explains that there is no file; '' if the recorder should have made one."""
        if self.program.closed and not recorder.can_preload():
            return "with -I, -E or -S the interpreter does not let the recorder in"
        if self.program.is_python:
            return ""
        name = os.path.basename(self.command[0])
        return f"{name} started no Python, or not with the environment that it was given; try `spprof run python ...`"

    def _say_which_environment(self) -> None:
        """Why a program may have failed that works alone: this spprof is installed elsewhere (pipx, uv tool)."""
        active = os.environ.get("VIRTUAL_ENV")
        if self.program.is_ours and active and os.path.isdir(active) and not os.path.samefile(active, sys.prefix):
            say(
                f"spprof: the program ran in {sys.prefix}, where this spprof is installed, and not in the active environment "
                f"{active}: spprof run --python {os.path.join(active, 'bin', 'python')} ...\n"
            )

    def _say_where(self, why: str) -> None:
        left = [*self.outputs.streams(), *self.outputs.children()]
        if left:
            say(f"spprof: {why and why + ': '}the profile is in {self._files(left)}\n")


def _prepare(options: argparse.Namespace) -> None:
    """Imports what will be needed, while the program begins."""
    if not options.quiet or (options.output and not options.output.endswith(".spprof")):
        from ..files import profile  # noqa: F401
    if not options.quiet:
        from ..report import summary  # noqa: F401


def _readable(paths: List[str]) -> Dict[str, Profile]:
    """The profiles of those that can be read. It says which cannot: one child's file is not worth all the others."""
    from ..files.profile import Profile

    found = {}
    for path in paths:
        try:
            found[path] = Profile.load(path)
        except (SpprofError, OSError) as error:
            say(f"spprof: the result is without {_words([path])}, which stays: {error}\n")
    return found


def _has_something(profile: Profile) -> bool:
    """Whether a summary would say something: of samples, of what was counted, or of what is missing from the file."""
    header = profile.header
    exact = any(header.get(key) for key in ("calls", "times", "exceptions"))
    return exact or bool(profile.unfinished or profile.dropped_count) or any(map(len, profile.each_type()))


def _relative(path: str) -> str:
    """For people. The working folder may be gone."""
    try:
        return min(os.path.relpath(path), path, key=len)
    except (OSError, ValueError):
        return path


def _words(paths: Iterable[str]) -> str:
    """Paths as a command line has them."""
    from shlex import quote

    return " ".join(path if os.name == "nt" else quote(path) for path in map(_relative, paths))


def say(text: str) -> None:
    """Lines for people."""
    from ..report.text import put_err

    put_err(text)
