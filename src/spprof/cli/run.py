"""`spprof run`: profiles a program from its first line to its last thread and exit handler. The program is a process of its own,
in which there is only the recorder; this one waits for it, and then reads, converts and prints."""

from __future__ import annotations

import argparse
import os
import signal
import sys

from .. import formats
from ..errors import BadOption, SpprofError
from ..recording.options import DEEPEST, FASTEST_HZ, FASTEST_MS, MODES, SLOWEST_HZ, SLOWEST_MS, Options
from ._arguments import count, positive

HELP = "run a program and profile it"
EXAMPLES = """\
examples:
  spprof run script.py --its-own-option
  spprof run -m pytest tests/              as python -m
  spprof run -c "import this"              as python -c
  spprof run - < script.py                 as python -
  spprof run --mode wall server.py         where does it wait?
  spprof run --rate 10000 script.py        10,000 samples a second
  spprof run --native script.py            C, C++ and Rust functions too
  spprof run -o p.speedscope.json x.py     for https://speedscope.app
  spprof run --duration 30 server.py       only the first 30 seconds
  spprof run --delay 10 --duration 30 server.py      not the first 10 seconds, but the next 30
  spprof run --live script.py              watch it; what it prints is shown by `o` and afterwards
  spprof run --subprocesses server.py      child processes too, each into NAME.PID.spprof
"""


def _rate(text: str) -> float:
    return _within(text, SLOWEST_HZ, FASTEST_HZ, "samples a second")


def _interval(text: str) -> float:
    return _within(text, FASTEST_MS, SLOWEST_MS, "milliseconds")


def _depth(text: str) -> int:
    return int(_within(text, 1, DEEPEST, "frames"))


def _within(text: str, least: float, most: float, unit: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not least <= value <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is out of range: give {least:g} to {most:,g} {unit}")
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `run`. All that follows SCRIPT, MODULE or CODE is the program's."""
    parser.add_argument("--mode", choices=MODES, default="cpu", help="time on the processor (default) or all time")
    pace = parser.add_mutually_exclusive_group()
    pace.add_argument("--rate", type=_rate, default=1000, metavar="HZ", help="samples a second of a thread (default 1000)")
    pace.add_argument("--interval", type=_interval, metavar="MS", help="the same, as milliseconds between two samples")
    parser.add_argument(
        "--clock", default="auto", metavar="NAME", help="signal, perf, perf-user, perf-trap or timer (default: the best)"
    )
    parser.add_argument("--delay", type=positive, metavar="S", help="take no samples in the first S seconds")
    parser.add_argument("--duration", type=positive, metavar="S", help="stop profiling after S seconds; the program goes on")
    parser.add_argument("--subprocesses", action="store_true", help="profile child processes too, into files of their own")
    parser.add_argument("--live", action="store_true", help="show the profile while the program runs (pip install 'spprof[tui]')")
    parser.add_argument("--thread", metavar="PATTERN", help="summarise and convert only threads of this name (* and ? allowed)")
    parser.add_argument("--merge-threads", action="store_true", help="convert all threads as one")
    parser.add_argument("--max-depth", type=_depth, default=512, metavar="N", help="frames kept of a stack (default 512)")
    parser.add_argument("--native", action="store_true", help="native frames too, between and below the Python frames")
    for kind, text in (("leaf", "only those below the last Python frame"), ("full", "CPython's own functions too")):
        parser.add_argument(f"--native={kind}", dest="native", action="store_const", const=kind, help=text)
    parser.add_argument("-o", "--output", metavar="FILE", help="file to write (default NAME.PID.spprof)")
    parser.add_argument("-f", "--format", choices=tuple(formats.FORMATS), help="default: what FILE ends with, else spprof")
    parser.add_argument("--force", action="store_true", help="replace FILE even if it is no profile")
    parser.add_argument("--limit", type=count, default=15, metavar="N", help="functions in the summary (default 15)")
    said = parser.add_mutually_exclusive_group()
    said.add_argument("-q", "--quiet", action="store_true", help="print no summary")
    said.add_argument("-v", "--verbose", action="store_true", help="say what became of each tick, even if none was lost")
    # REMAINDER: from here on nothing is ours.
    what = parser.add_argument_group("the program", "[-m MODULE | -c CODE | SCRIPT] ARGS...")
    what.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    what.add_argument("-c", dest="code", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    what.add_argument("script", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


TYPE_CHECKING = False  # `typing` is imported while the program starts
if TYPE_CHECKING:
    from typing import Iterable, List, Optional, Tuple

    from ..files.profile import Profile


class _Run:
    """A program that is profiled, and what becomes of its profile."""

    def __init__(self, options: argparse.Namespace, kind: str, command: List[str]) -> None:
        from ..launching import outputs, recorder
        from ..recording import api

        self.options = options
        names = {"module": command[0], "code": "command"}
        stem = os.path.splitext(os.path.basename(os.path.abspath(command[0])))[0]
        name = "stdin" if command == ["-"] else names.get(kind) or stem
        recording = _recording(options)
        native, clock = api.require_supported(recording)
        self.conversion = formats.Options(merge_threads=options.merge_threads, thread=options.thread)
        self.outputs = outputs.Outputs(options.output, options.format, name, options.subprocesses, options.force)
        if self.outputs.format != "spprof":
            formats.check(self.outputs.format, self.conversion)  # now, and not when the program is done
        if kind == "script":
            check_script(command)
        try:
            self.outputs.check()
        except SpprofError:
            if kind == "module" and not _is_there(command[0]):  # which is what should be said
                raise NoModule(f"{sys.executable}: No module named {command[0]}") from None
            raise
        flags = {"module": ["-m"], "code": ["-c"], "script": []}[kind]
        self.command = [*recorder.interpreter(), *flags, *command]
        missing = kind == "module" or os.path.isdir(command[0])  # which only the program's process finds out
        self.environment = recorder.environment(
            recording, native, clock, self.outputs.stream, self.outputs.stem, options.delay, options.duration, missing
        )
        self.told = False

    def run(self) -> int:
        """As the program ended."""
        from ..launching import supervisor

        program = supervisor.Program(self.command, self.environment)
        self.outputs.started(program.pid)
        if self.options.duration is not None:
            self._tell_at_the_end_of_recording()
        else:
            _prepare(self.options)
        code = program.wait()
        try:
            program.over()
            self.finish(code)
            program.told()
        except (supervisor.Interrupted, KeyboardInterrupt) as error:
            self._say_where("interrupted")
            code = -getattr(error, "number", signal.SIGINT)
        return supervisor.end(code)

    def watch(self) -> int:
        """The same, with the live view."""
        from ..launching import supervisor
        from ..live.program import run

        def stream_of(pid: int) -> str:
            self.outputs.started(pid)
            return self.outputs.stream

        code = run(self.command, self.environment, stream_of)
        self.finish(code)
        return supervisor.end(code)

    def _tell_at_the_end_of_recording(self) -> None:
        """The program goes on; a thread sees its file end. (What the program ends by itself, ends with it.)"""
        import threading
        import time

        def look() -> None:
            time.sleep(self.options.duration + (self.options.delay or 0))
            while not self.outputs.is_over():
                time.sleep(0.02)
            self.finish(None)

        self.lock = threading.Lock()
        threading.Thread(target=look, daemon=True).start()

    def finish(self, code: Optional[int]) -> None:
        """Puts the profile where it was asked for, and tells of it, once. `code`: how the program ended; None: it has not yet."""
        if self.options.duration is not None:
            self.lock.acquire()
        if self.told:
            return
        self.told = True
        if code is not None:
            self.outputs.finish(_way_out(code))
        try:
            self._finish(code)
            if code == 0:
                self._say_what_goes_on()
        except (SpprofError, OSError) as error:
            _say(f"spprof: {error}\n")
            self._say_where("")
        finally:
            if self.options.duration is not None:
                self.lock.release()

    def _finish(self, code: Optional[int]) -> None:
        streams = self.outputs.streams()
        if not streams:
            if code is not None and _why_not():
                _say(f"spprof: nothing was recorded{_why_not()}\n")
            return
        if self.outputs.is_without_program():
            self.outputs.discard()
            return
        profiles: List[Profile] = []
        text = ""
        if not self.options.quiet:
            from ..files.profile import Profile

            profiles = [Profile.load(path) for path in streams]
            text = self._summary(profiles)
        places = [self.outputs.place(n, path, self.conversion) for n, path in enumerate(streams, 1)]
        if profiles:
            _say(text + self._places(places, profiles))

    def _summary(self, profiles: List[Profile]) -> str:
        from ..report.summary import summary
        from ..report.text import width_of_table

        options, width = self.options, width_of_table(sys.stderr)
        return "\n" + summary(profiles, options.limit, options.thread, width=width, verbose=options.verbose)

    def _places(self, places: List[str], profiles: List[Profile]) -> str:
        from ..files.names import beside
        from ..report.text import printable

        format, text = self.outputs.format, ""
        for n, path in enumerate(places):
            title = formats.FORMATS[format].title
            if format == "spprof" and profiles[n].unfinished:
                title = title.replace("complete", "incomplete")
            name = _relative(path)
            size = f"{os.path.getsize(path):,} bytes, " if os.path.isfile(path) else ""
            text += f"Written: {printable(name)} ({size}{title}).\n"
        own = _words(map(_relative, places))
        if format == "spprof":
            text += f"  spprof report {own}\n"
            first = _relative(places[0])
            text += f"  spprof convert {_words([first])} -f speedscope -o {_words([beside(first[:-7], '.speedscope.json')])}\n"
        wall = (profiles[0].stats.get("wall_ns") or 0) / 1e9
        if self.options.delay is not None and wall < self.options.delay and not any(map(len, profiles)):
            text += f"The program ended before --delay {self.options.delay:g} was over: no samples were to be taken.\n"
        return text + self._children(places if format == "spprof" else [])

    def _children(self, own: List[str]) -> str:
        from ..files.writing import is_being_written

        others = self.outputs.children()
        if not others:
            return ""
        stem = _relative(self.outputs.stem)
        more = [_relative(path) for path in own if not os.path.basename(path).startswith(f"{os.path.basename(stem)}.")]
        more += [_relative(path) for path in own if path == f"{self.outputs.stem}.spprof" and _relative(path) not in more]
        text = f"Child processes: {len(others)} files.\n  spprof report {_words([*more, stem])}.*.spprof\n"
        growing = [_relative(path) for path in others if is_being_written(path)]
        if growing:
            text += f"Still running, and their files grow: {_words(growing)}\n"
        return text

    def _say_what_goes_on(self) -> None:
        from ..launching import recorder, supervisor

        pids = supervisor.forks(f"{recorder.VARIABLE}={self.environment[recorder.VARIABLE]}")
        if not pids:
            return
        which = f"process {pids[0]} goes on" if len(pids) == 1 else f"processes {', '.join(map(str, pids))} go on"
        own = [_relative(path) for path in self.outputs.children() if os.path.basename(path).split(".")[-2] in map(str, pids)]
        grows = f"the profile grows in {_words(own)}" if own else "only --subprocesses profiles that"
        _say(f"spprof: the program went into the background: {which}, and {grows}\n")

    def _say_where(self, why: str) -> None:
        left = [_relative(path) for path in self.outputs.streams()]
        if left:
            _say(f"spprof: {why and why + ': '}the profile is in {_words(left)}\n")


def _prepare(options: argparse.Namespace) -> None:
    """Imports what will be needed, while the program begins."""
    if not options.quiet or (options.output and not options.output.endswith(".spprof")):
        from ..files import profile  # noqa: F401
    if not options.quiet:
        from ..report import summary  # noqa: F401


def _way_out(code: int) -> str:
    if code >= 0:
        return "exit"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _why_not() -> str:
    from ..launching import recorder

    flags = sys.flags
    if not recorder.is_closed() or recorder.can_preload():
        return ""
    for name, option in (("isolated", "-I"), ("no_site", "-S"), ("ignore_environment", "-E")):
        if getattr(flags, name):
            return f": with {option} the interpreter does not let the recorder in"
    return ""


def _relative(path: str) -> str:
    """For people. The working folder may be gone."""
    try:
        return os.path.relpath(path)
    except (OSError, ValueError):
        return path


def _words(paths: Iterable[str]) -> str:
    """Paths as a command line has them."""
    from shlex import quote

    return " ".join(path if os.name == "nt" else quote(path) for path in paths)


def _say(text: str) -> None:
    from ..report.text import put

    try:
        put(sys.stderr, text)
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):
        pass


def check_script(command: List[str]) -> None:
    """Raises BadOption if there is no such script, and says what whoever named it probably wants. What is no regular file (a
    folder, /dev/stdin, a FIFO that can be read once) is the interpreter's to open."""
    path = command[0]
    if path == "-" or (os.path.exists(path) and not os.path.isfile(path)):
        return
    try:
        with open(path, "rb") as file:
            beginning = file.read(4096)
    except OSError as error:
        raise BadOption(f"cannot open {path!r}: {error.strerror or error}{_instead(command)}") from None
    if b"\0" in beginning and not path.endswith(".pyc") and b"PK\3\4" not in beginning:
        raise BadOption(f"{path!r} is not Python source, but a binary file{_instead(command)}")


class NoModule(SpprofError):
    """Python's own words."""


def _is_there(module: str) -> bool:
    """Whether there may be such a module: its package is not imported here."""
    from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder

    top = module.partition(".")[0]
    path = [os.getcwd(), *sys.path]
    return any((BuiltinImporter.find_spec(top), FrozenImporter.find_spec(top), PathFinder.find_spec(top, path)))


def _instead(command: List[str]) -> str:
    import re
    from importlib.util import find_spec
    from shutil import which

    path = command[0]
    name = os.path.basename(path)
    if re.match(r"(python|pypy)[0-9.]*[dt]?(\.exe)?$", name):
        rest = " ".join(command[1:]) or "SCRIPT"
        own = path == name or os.path.abspath(path) == sys.executable
        return f"; give what it is to run: {'spprof' if own else f'{path} -m spprof'} run {rest}"
    if os.path.exists(path):
        return ""
    try:
        module = name.isidentifier() and find_spec(path) is not None
    except (ImportError, ValueError):
        module = False
    if module:
        return f"; a module of this name is installed: spprof run -m {path}"
    found = which(path)
    return f"; a command of this name is installed: spprof run {found}" if found and _is_python(found) else ""


def _is_python(path: str) -> bool:
    """Whether a command is a Python script."""
    try:
        with open(path, "rb") as file:
            first = file.readline(200)
    except OSError:
        return False
    return first.startswith(b"#!") and b"python" in first


def main(options: argparse.Namespace) -> int:
    """Runs the program, and ends as it does."""
    kind, command = _given(options)
    if options.output == "-":
        raise argparse.ArgumentTypeError("stdout belongs to the program: give a file, then `spprof convert FILE -o -`")
    if options.live and os.name == "nt":
        raise SpprofError(
            "--live needs a pseudo-terminal, which Windows has not; run the program, then `spprof live FILE` beside it"
        )
    try:
        run = _Run(options, kind, command)
    except NoModule as error:
        _say(f"{error}\n")
        return 1
    return run.watch() if options.live else run.run()


def _given(options: argparse.Namespace) -> Tuple[str, List[str]]:
    """Which kind of program, and its words."""
    for kind in ("module", "code", "script"):
        command: List[str] = getattr(options, kind) or []
        if command[:1] == ["--"]:
            command = command[1:]
        if command:
            return kind, command
    raise argparse.ArgumentTypeError("what shall run? Give a SCRIPT, -m MODULE, -c CODE, or - for a program from stdin")


def _recording(options: argparse.Namespace) -> Options:
    rate = options.rate if options.interval is None else None
    return Options(
        options.interval, options.mode, rate=rate, clock=options.clock, max_depth=options.max_depth, native=options.native
    )
