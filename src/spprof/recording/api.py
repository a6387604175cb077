"""Starting and stopping. One profile can be taken at a time, of all threads of the process."""

from __future__ import annotations

import errno
import os
import sys

from .. import _core, _module
from ..errors import AlreadyActive, BadOption, CannotWrite, NotActive, Unsupported
from . import forks
from .options import MAX_DEPTH, Options

TYPE_CHECKING = False  # see __init__
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional, Sequence, Tuple, Union

    from ..files.profile import Profile

    Taken = Tuple[_core.Output, Optional[str]]  # a profile that is being taken: its file and the path of that

_hooked = False  # atexit and fork handlers are registered, once a process


def start(
    interval_ms: Optional[float] = None,
    mode: str = "cpu",
    output_path: Optional[Union[str, os.PathLike[str]]] = None,
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
    on_stall: Optional[float] = None,
) -> None:
    """Starts profiling every thread of the process.

    interval_ms: milliseconds between two samples of a thread, 0.05 (20 kHz) to 1000 (1 Hz); fractions are allowed. Default 1.
    mode: 'cpu' samples threads while they use the processor, 'wall' all the time.
    output_path: file that the profile is written to while the program runs; it survives whatever ends the program.
        Without it the profile goes to an unnamed temporary file.
    rate: samples a second of a thread, 1 to 20000, instead of interval_ms.
    clock: what makes the ticks; 'auto' takes the best one that works here and can do the program no harm ('signal', else
        'perf' or 'timer'; Windows and macOS: 'suspend'). docs/clocks.md has others, which are taken by name.
    max_depth: frames kept of a stack, 1 to 4096, those nearest to the leaf; deeper stacks are flagged truncated.
    native: True shows native frames between and below the Python frames, in the order of calls, without CPython's own; 'full'
        shows those too, 'leaf' only what lies below the last Python frame.
    events: what is sampled: 'time', 'gc' (garbage collections), 'tasks' (those of asyncio that wait; wall mode), on
        Linux also 'page-faults' and others of docs/events.md, or several; 'page-faults=100' takes a sample for each 100 of a
        thread instead of 31 or more. Each is a type of samples of its own: see `Profile.sample_types` and `Profile.of`.
    calls: True counts each call of a Python function exactly, by the line that calls; 'c' also functions in C that Python code
        calls. See `Profile.calls`; every call takes some 50 ns longer then. 'hot' counts those functions only that samples show
        hottest, in a part of the run (Python 3.12 and later): see `Profile.hot`.
    time: functions whose calls are timed, each by itself: 'module:qualname', with * and ?, or a list of these (Python 3.12 and
        later). See `Profile.times`.
    time_cpu: the CPU time of each of these calls too, which takes two system calls.
    lines: functions of which each line's executions are counted, and each branch's ways; as `time` (Python 3.12 and later). See
        `Profile.line_counts`.
    exceptions: True counts each exception exactly, by its type, the line that raised it and the line that caught it (Python 3.12
        and later). See `Profile.exceptions`.
    imports: True times each import exactly, as -X importtime does. See `Profile.imports`.
    specialization: True reads at the stop which instructions CPython could not specialize (3.11 and later, no free-threaded
        build). See `Profile.unspecialized`.
    on_stall: seconds without progress after which a process beside this one writes what each thread does, and what it waits for,
        beside output_path (Linux; docs/hangs.md).

    Raises AlreadyActive, BadOption (a value out of range, or both interval_ms and rate), CannotWrite (the output; or another
    process writes a profile there), Unsupported (interpreter or clock). After an error nothing has changed, and what was in the
    file is still there. An exception from a signal handler, such as Ctrl-C's, may arrive after the profile has begun:
    `is_active` says whether it has."""
    _require_idle()
    chosen = Options(
        interval_ms,
        mode,
        rate=rate,
        clock=clock,
        max_depth=max_depth,
        native=native,
        events=events,
        calls=calls,
        time=time,
        time_cpu=time_cpu,
        lines=lines,
        exceptions=exceptions,
        imports=imports,
        specialization=specialization,
    )
    if on_stall is None:
        begin(chosen, output_path)
        return
    from .beside import Beside

    beside = Beside(on_stall, _absolute(output_path))
    try:
        begin(chosen, output_path)
        beside.go()
    finally:
        beside.leave()


def begin(options: Options, output_path: Optional[Union[str, os.PathLike[str]]] = None) -> None:
    """`start` with options that were checked already."""
    path = _absolute(output_path)
    _begin(options, lambda: _open_output(path), path)


def _absolute(path: Optional[Union[str, os.PathLike[str]]]) -> Optional[str]:
    return None if path is None else os.path.abspath(os.fspath(path))


def begin_into(options: Options, descriptor: int) -> Taken:
    """The same, into an open file. What it returns is for `end`."""
    return _begin(options, lambda: _core.copy_output(descriptor), None)


def _begin(options: Options, opened: Callable[[], _core.Output], path: Optional[str]) -> Taken:
    _require_idle()
    clock = require_supported(options)
    _hook_once()
    _forget()  # if this process was forked by C code, unseen by Python
    timing = sys.modules.get("spprof.recording.timing")
    if timing is not None:
        timing.warn_if_old()  # before the profile: its calls are none of the program's, and a filter may raise it
    output = opened()
    taken = output, path
    try:
        # All that a profile changes in the process changes within this call, or nothing does: no exception comes between.
        if not _core.start(taken, output, options.words(clock)):
            raise AlreadyActive("a profile is already being taken, or just begun or ended by what this call interrupted")
    except BaseException as error:
        _core.stop(taken)  # nothing, if it has not begun
        output.close()  # and gone, if it was made for this
        if isinstance(error, OSError):  # its "filename" says what went wrong
            kind = CannotWrite if isinstance(error, _core.WriteError) else Unsupported
            raise kind(f"{error.filename or 'cannot start'}: {_unwritten(error)}") from error
        if type(error) is RuntimeError:
            raise Unsupported(str(error)) from error
        raise
    output.keep()
    return taken


def end(taken: Taken) -> None:
    """Stops a profile of `begin_into`. Raises NotActive if it has ended, CannotWrite."""
    try:
        _core.name_all()
    finally:  # whatever the program's types may raise
        stopped = _core.stop(taken)
    if not stopped:
        raise NotActive("the profile has ended")
    if stopped[0]:
        taken[0].leave()
        raise CannotWrite("the output takes nothing")
    taken[0].close()


def stop() -> Profile:
    """Stops profiling and returns the profile. Raises NotActive if none is being taken, CannotWrite if the program closed the
    descriptor of a profile that has no path, or the output took nothing for a second.

    In a signal handler, or in a `__del__`, it may come within another `start` or `stop` of the same thread. Before that one has
    done its work it does its own, and the other one finds no profile; else it finds none itself, and raises NotActive."""
    taken = _core.session()
    if taken is None:
        raise NotActive("no profile is being taken: call spprof.start() first")
    output, path = taken
    output.keep()
    try:
        _core.name_all()
    finally:  # whatever the program's types may raise
        stopped = _core.stop(taken)
    if not stopped:
        raise NotActive("no profile is being taken: it was stopped meanwhile")
    stuck, unwritten = stopped
    if stuck:
        output.leave()
        raise CannotWrite("the output takes nothing: what is left of the profile is written when it does, if this process lives")
    _module("files.profile")
    from ..files.profile import Profile

    if path is not None and output.is_at(path):
        output.close()
        return Profile._just_written(path, unwritten)
    if output.is_open():
        return Profile._just_written(output, unwritten)  # unnamed, or removed or replaced meanwhile
    raise CannotWrite("the program closed the profile's descriptor, and there is no path to it: give an output_path")


def pause() -> None:
    """Takes no samples until `resume`. Raises NotActive if no profile is being taken."""
    _require_active()
    _core.pause()


def resume() -> None:
    """Goes on after `pause`. Raises NotActive if no profile is being taken."""
    _require_active()
    _core.resume()


def control(what: str, path: Optional[str]) -> None:
    """What another process asks for: 'pause', 'resume' or 'stop', of the profile that is written to `path` (None: whichever is
    being taken). Raises NotActive; BadOption if another profile is being taken, or one that is the program's own to stop."""
    taken = _core.session()
    if taken is None or not _core.active():
        raise NotActive("no profile is being taken there")
    if path is not None and not taken[0].is_at(path):
        raise BadOption(f"the profile that is being taken there is {taken[1] or 'another one'}")
    if what == "stop":
        _require_stoppable(taken)
        end(taken)
    else:
        {"pause": pause, "resume": resume}[what]()


def _require_stoppable(taken: Taken) -> None:
    """That it is one of `spprof run`, which nobody waits for."""
    from ..files.writing import begun

    if taken[1] is None or begun(taken[1]).get("begun") not in ("run", "child"):
        raise BadOption("the profile is stopped by what began it: `spprof attach`, or the program itself")


def _unwritten(error: OSError) -> str:
    timed_out = isinstance(error, _core.WriteError) and error.errno == errno.ETIMEDOUT
    return "the output took nothing for a second" if timed_out else error.strerror or str(error)


def flush() -> None:
    """Waits until everything that was sampled before the call is in the file, where others can read it. Other threads run
    meanwhile, some milliseconds. Without it a file is behind by 0.1 s.

    Raises NotActive if no profile is being taken, CannotWrite if one of its samples could not be written."""
    _require_active()
    try:
        _core.flush()
    except _core.WriteError as error:
        raise CannotWrite(f"the profile cannot be written: {_unwritten(error)}") from error


def is_active() -> bool:
    """Whether a profile is being taken (also while paused). False in a forked child, which is not profiled."""
    return _core.active()


def stats() -> Dict[str, Any]:
    """The tick stats so far, or of the last profile; {} before the first.

    expected = taken + repeated + the sum of losses. Keys: clock, expected, taken, repeated, losses (reason -> ticks),
    captured (= taken), dropped (= all losses), validation_drops, overruns, truncated, threads, cpu_ns (the
    process's, without that of the profiler's own threads), wall_ns, paused_cpu_ns and paused_ns (what of
    these two was while sampling was paused), first_thread_ready_ns (how long the main thread was ready and had no processor;
    Linux), children_cpu_ns (of the child processes that the program has waited for, as read for
    the file last), write_error; calls_interrupted: ticks that
    interrupted a system call that the program makes without the C library, and may have ended it (docs/troubleshooting.md);
    signals_not_ignored: signals that the program ignores, but that may have ended a system call because ticks came by the same;
    confined: 1 if a filter of the program's (seccomp) refuses calls that spprof makes on its threads (docs/containers.md);
    tasks_unknown: 1 if this asyncio is built otherwise than those that spprof knows (docs/tasks.md)."""
    return _core.stats()


def _require_idle() -> None:
    if _core.active():
        raise AlreadyActive("a profile is already being taken: call spprof.stop() first")


def require_supported(options: Options) -> str:
    """The name of the clock that ticks. Raises Unsupported, BadOption."""
    if _core.layout_error:
        raise Unsupported(_core.layout_error)
    if options.exceptions and sys.version_info < (3, 12):
        raise Unsupported(
            f"exceptions cannot be counted by Python {sys.version.split()[0]}: sys.monitoring came with 3.12. Run the program "
            "with Python 3.12 or later, or without counting them"
        )
    if options.calls == "hot" and sys.version_info < (3, 12):
        raise Unsupported(
            "calls of the hottest functions only can be counted from Python 3.12 on, which has sys.monitoring; count all calls"
        )
    if options.native and not native_unwinding_available():
        raise Unsupported("native frames cannot be sampled on this system")
    clock = _clock(options.clock)
    require_events(options.events)
    if options.times and sys.version_info < (3, 12):
        raise Unsupported("calls of chosen functions can be timed from Python 3.12 on, which has sys.monitoring; run it there")
    if options.lines and sys.version_info < (3, 12):
        raise Unsupported("executions of lines can be counted from Python 3.12 on, which has sys.monitoring; run it there")
    if clock == "gil" and (options.mode != "cpu" or options.native):
        raise BadOption("the clock 'gil' shows Python's CPU time only: mode 'cpu', and no native frames")
    return clock


def is_written_to(path: str) -> bool:
    """Whether a profile is being taken and goes to this file."""
    taken = _core.session()
    return taken is not None and taken[1] == os.path.abspath(path)


def _require_active() -> None:
    if not _core.active():
        raise NotActive("no profile is being taken: call spprof.start() first")


def native_unwinding_available() -> bool:
    """Whether `start(native=True)` works on this system."""
    return _core.NATIVE


def _clock(clock: str) -> str:
    """The name of the clock that ticks."""
    try:
        return _core.choose_clock(clock)
    except ValueError as error:
        raise BadOption(str(error)) from None
    except OSError as error:
        what = f"the clock {clock!r}" if clock != "auto" else "every clock that spprof knows"
        hint = "see docs/troubleshooting.md" if clock == "auto" else 'clock="auto" takes what there is'
        raise Unsupported(f"the system refuses {what} ({error.filename}: {error.strerror}); {hint}") from error


def require_events(events: Tuple[str, ...]) -> None:
    """Raises BadOption for events that do not exist, Unsupported if the system does not count them for us."""
    for event in events:
        try:
            _core.choose_events(event)
        except ValueError as error:
            raise BadOption(f"{event!r}: {error}") from None
        except OSError as error:
            from .events import reason

            why = reason(error.errno or 0, error.filename)
            raise Unsupported(f"the system refuses to count {event.partition('=')[0]} ({why}); see docs/events.md") from error


def _open_output(path: Optional[str]) -> _core.Output:
    if path is None:
        return _open_unnamed()
    flags = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    try:
        return _core.open_output(path, flags, True)
    except BlockingIOError as error:
        raise CannotWrite(f"cannot write {path}: another profile is being written to it") from error
    except OSError as error:
        raise CannotWrite(f"cannot write {path}: {error.strerror or error}") from error


def _open_unnamed() -> _core.Output:
    # O_TMPFILE spares `import tempfile`, which takes longer than all the rest of `start`.
    try:
        return _core.open_output(os.environ.get("TMPDIR") or "/tmp", os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, False)
    except (OSError, AttributeError):
        import tempfile

        try:
            with tempfile.TemporaryFile() as file:
                return _core.copy_output(file.fileno())
        except OSError as error:
            raise CannotWrite(f"cannot make a temporary file: {error.strerror or error}") from error


def _hook_once() -> None:
    global _hooked
    if not _hooked:
        import atexit

        atexit.register(_at_exit)  # if an exception comes between, twice: it does no harm
        forks.in_child(_forget)
        forks.alone(_core.rest, _core.wake)
        _hooked = True


def _at_exit() -> None:
    # Every trigger must be disarmed before the interpreter frees thread states: a signal after that reads freed memory.
    if _core.active():
        try:
            stop()
        except NotActive:  # another thread stopped it meanwhile
            pass
        except CannotWrite as error:
            sys.stderr.write(f"spprof: {error}\n")


def _forget() -> None:
    """In a forked child: the profile is the parent's."""
    taken = _core.forget()
    if taken is not None:
        output = taken[0]
        output.keep()
        output.close()
