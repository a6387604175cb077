"""`spprof run`: profiles a program from its first line to its last thread and exit handler."""

from __future__ import annotations

import _thread
import argparse
import atexit
import os
import signal
import sys
import threading
import time
from typing import Any, Optional, Tuple

from .. import formats
from ..errors import SpprofError
from ..files.profile import Profile
from ..launching import children, target
from ..recording import api, forks, session
from ..recording.options import DEEPEST, FASTEST_HZ, FASTEST_MS, MODES, SLOWEST_HZ, SLOWEST_MS, Options
from ..report.summary import summary
from ..report.text import put, width_of_table
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
    parser.add_argument("--clock", default="auto", metavar="NAME", help="perf, perf-user, signal or timer (default: the best)")
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
    parser.add_argument("--limit", type=count, default=15, metavar="N", help="functions in the summary (default 15)")
    said = parser.add_mutually_exclusive_group()
    said.add_argument("-q", "--quiet", action="store_true", help="print no summary")
    said.add_argument("-v", "--verbose", action="store_true", help="say what became of each tick, even if none was lost")
    # REMAINDER: from here on nothing is ours.
    what = parser.add_argument_group("the program", "[-m MODULE | -c CODE | SCRIPT] ARGS...")
    what.add_argument("-m", dest="module", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    what.add_argument("-c", dest="code", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    what.add_argument("script", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


class Ending:
    """What happens when profiling ends: at the end of the program, after --duration, or on SIGTERM; whichever comes first. And
    when it begins, if that is not at once (--delay)."""

    def __init__(self, options: argparse.Namespace, name: str) -> None:
        self.options = options
        self.pid = os.getpid()
        self.done = False
        self.lock = threading.RLock()  # a signal may come while the main thread is finishing
        self.interrupted = self.waits = False
        self.format, self.output, self.stream = _files(options, name, self.pid)
        self.conversion = formats.Options(merge_threads=options.merge_threads, thread=options.thread)
        if self.format != "spprof":
            formats.check(self.format, self.conversion)  # now, and not when the program is done
        self.stem = children.stem_of(options.output, name) if options.subprocesses else None

    def finish(self) -> None:
        """Stops, converts, prints the summary."""
        if os.getpid() != self.pid:
            return
        with self.lock:
            if not self.done:
                self.done = True
                self._finish()

    def discard(self) -> None:
        """There was no program: leaves no file."""
        self.done = True
        api.stop()
        os.unlink(self.stream)

    def _finish(self) -> None:
        try:
            profile = api.stop() if api.is_active() else Profile.load(self.stream)  # the program may have stopped it
            if self.format != "spprof":
                formats.save(profile, self.output, self.format, self.conversion)
            if not self.options.quiet:
                self._print(profile)
            if self.format != "spprof":
                os.unlink(self.stream)
        except (SpprofError, OSError) as error:
            _say(f"spprof: {error}\nspprof: the profile is in {self.stream}\n")

    def at_exit(self) -> None:
        """Registered before the program's own exit handlers, so it runs after them: they are profiled too."""
        self.finish()
        if self.interrupted and os.getpid() == self.pid:
            # As python does after an uncaught KeyboardInterrupt, so that a shell sees what happened.
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except (AttributeError, OSError, ValueError):
                    pass
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(self.pid, signal.SIGINT)

    def on_sigterm(self, number: int, frame: Any) -> None:
        """Dies of the signal, as without us, but with the profile complete."""
        self.finish()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def delay(self) -> None:
        """Takes no samples until `window` says so."""
        self.waits = True
        api.pause()

    def window(self) -> None:
        """Body of the thread of --delay and --duration."""
        if self.waits:
            time.sleep(self.options.delay)
            with self.lock:
                if self.done or not api.is_active():
                    return
                self.waits = False
                api.resume()
        if self.options.duration is not None:
            time.sleep(self.options.duration)
            self.finish()

    def _print(self, profile: Profile) -> None:
        text = "\n" + summary(
            [profile], self.options.limit, self.options.thread, width=width_of_table(sys.stderr), verbose=self.options.verbose
        )
        name = os.path.relpath(self.output)
        text += f"Written: {name} ({os.path.getsize(self.output):,} bytes, {formats.FORMATS[self.format].title}).\n"
        if self.format == "spprof":
            text += f"  spprof report {name}\n  spprof convert {name} -f speedscope -o {name[:-7]}.speedscope.json\n"
        if self.waits:
            text += f"The program ended before --delay {self.options.delay:g} was over: no samples were to be taken.\n"
        others = children.found(self.stem) if self.stem else []
        if others:
            stem = os.path.relpath(str(self.stem))
            own = "" if self.format != "spprof" or self.output.startswith(f"{self.stem}.{self.pid}") else name + " "
            text += f"Child processes: {len(others)} files.\n  spprof report {own}{stem}.*.spprof\n"
        _say(text)


def _files(options: argparse.Namespace, name: str, pid: int) -> Tuple[str, str, str]:
    """The format, the file that is asked for, and the one that is written while the program runs."""
    given: Optional[str] = options.output
    format = options.format or (formats.format_for(given) if given and not _is_special(given) else "spprof")
    output = os.path.abspath(given or f"{name}.{pid}{formats.FORMATS[format].extension}")  # the program may change the directory
    return format, output, output if format == "spprof" else f"{output}.{pid}.spprof"


def _is_special(path: str) -> bool:
    """A FIFO or a device: its name says nothing."""
    return os.path.exists(path) and not os.path.isfile(path)


def _say(text: str) -> None:
    """To stderr, which the program may have closed, replaced or left as None."""
    try:
        put(sys.stderr, text)
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):
        pass


def _be_called_python() -> None:
    """On Linux a process is called after the file that was executed, `spprof`, and threads inherit that name, as a library's do
    that give themselves none. The program is to see what it sees under `python`."""
    try:
        with open("/proc/self/comm", "r+") as name:
            if name.read() == "spprof\n":
                name.write(os.path.basename(sys.executable))
    except OSError:
        pass


def main(options: argparse.Namespace) -> int:
    """Runs the program; its SystemExit passes through."""
    kinds = {"module": target.find_module, "code": target.find_code, "script": target.find_script}
    kind, command = next(((kind, given) for kind in kinds for given in [getattr(options, kind)] if given), ("", []))
    if command[:1] == ["--"]:
        command = command[1:]
    if not command:
        raise argparse.ArgumentTypeError("what shall run? Give a SCRIPT, -m MODULE, -c CODE, or - for a program from stdin")
    if options.output == "-":
        raise argparse.ArgumentTypeError("stdout belongs to the program: give a file, then `spprof convert FILE -o -`")
    names = {"module": command[0], "code": "command"}
    name = "stdin" if command == ["-"] else names.get(kind) or os.path.splitext(os.path.basename(os.path.abspath(command[0])))[0]
    if options.live:
        if os.name == "nt":
            raise SpprofError(
                "--live needs a pseudo-terminal, which Windows has not; run the program, then `spprof live FILE` beside it"
            )
        from ..live.program import run  # here, and below: another process than the program's

        given = list(options.argv)
        given.remove("--live")  # the first one is ours: what is the program's comes last
        return run(given, lambda pid: _files(options, name, pid)[2])
    sys.argv = command
    _be_called_python()
    ending = Ending(options, name)
    recording = _recording(options)
    api.begin(recording, ending.stream)
    _arrange(ending)
    if ending.stem:
        children.follow(ending.stem, recording)
    try:
        target.run_program(kinds[kind], command[0])
    except SystemExit:
        raise
    except target.NoProgram as error:
        ending.discard()
        _say(f"spprof: {error}\n")
        return 1 if kind == "module" else 2  # as python
    except KeyboardInterrupt as error:
        ending.interrupted = True
        target.report_exception(error)
        return 130
    except BaseException as error:
        target.report_exception(error)
        return 1
    return 0


def _recording(options: argparse.Namespace) -> Options:
    rate = options.rate if options.interval is None else None
    chosen = {"clock": options.clock, "max_depth": options.max_depth, "native": options.native}
    return Options(options.interval, options.mode, rate=rate, **chosen)


def _arrange(ending: Ending) -> None:
    atexit.register(ending.at_exit)
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, ending.on_sigterm)
        session.back_sigterm(
            f"spprof: the program does not come back from C code: no summary\nspprof: the profile is in {ending.stream}\n"
        )
        forks.in_child(lambda: _default_sigterm(ending))
    if ending.options.delay is not None:
        ending.delay()
    if ending.waits or ending.options.duration is not None:
        # Not a thread of `threading`: the program does not see it there.
        _thread.start_new_thread(ending.window, ())


def _default_sigterm(ending: Ending) -> None:
    if signal.getsignal(signal.SIGTERM) == ending.on_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
