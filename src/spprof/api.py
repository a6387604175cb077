"""Starting and stopping. One profile can be taken at a time, of all threads of the process."""

from __future__ import annotations

import _thread
import gc
import os
import sys

from . import _core, forks, session
from .errors import AlreadyActive, BadOption, CannotWrite, NotActive, Unsupported
from .jsontext import json_text

TYPE_CHECKING = False  # see __init__
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Tuple, Union

    from .model import Profile

FASTEST_MS, SLOWEST_MS = 0.05, 1000.0  # 20 kHz to 1 Hz
DEEPEST = 4096  # SPP_DEPTH_MAX of the core


_lock = _thread.allocate_lock()
_hooked = False  # atexit and fork handlers are registered, once a process


def start(
    interval_ms: float = 1.0,
    mode: str = "cpu",
    output_path: Optional[Union[str, os.PathLike[str]]] = None,
    *,
    clock: str = "auto",
    max_depth: int = 512,
    native: Union[bool, str] = False,
) -> None:
    """Starts profiling every thread of the process.

    interval_ms: milliseconds between two samples of a thread, 0.05 (20 kHz) to 1000 (1 Hz); fractions are allowed.
    mode: 'cpu' samples threads while they use the processor, 'wall' all the time.
    output_path: file that the profile is written to while the program runs; it survives whatever ends the program.
        Without it the profile goes to an unnamed temporary file.
    clock: what makes the ticks; 'auto' takes the most exact one that the system allows ('perf', 'perf-user', 'timer'; Windows:
        'suspend', and for special cases 'gil').
    max_depth: frames kept of a stack, 1 to 4096, those nearest to the leaf; deeper stacks are marked truncated.
    native: True shows native frames between and below the Python frames, in the order of calls, without CPython's own; 'full'
        shows those too, 'leaf' only what lies below the last Python frame.

    Raises AlreadyActive, BadOption (a value out of range), CannotWrite (the output), Unsupported (interpreter or clock).
    After an error nothing has changed."""
    with _lock:
        if _core.active():
            raise AlreadyActive("a profile is already being taken: call spprof.stop() first")
        clock = _check(interval_ms, mode, clock, max_depth)
        native_mode, full = _native(native)
        if clock == "gil" and (mode != "cpu" or native_mode):
            raise BadOption("the clock 'gil' shows Python's CPU time only: mode 'cpu', and no native frames")
        path = None if output_path is None else os.path.abspath(os.fspath(output_path))
        is_new = path is not None and not os.path.exists(path)
        fd = _open_output(path)
        interval_ns = round(interval_ms * 1e6)
        try:
            header = _header(mode, clock, interval_ns, max_depth, native)
            _core.start(fd, clock, mode == "wall", interval_ns, max_depth, header, native_mode, full)
        except Exception as error:
            os.close(fd)
            if path is not None and is_new:
                os.unlink(path)
            if isinstance(error, OSError):  # its "filename" tells what went wrong
                kind = CannotWrite if error.filename == "the profile cannot be written" else Unsupported
                raise kind(f"{error.filename or 'cannot start'}: {error.strerror or error}") from error
            if type(error) is RuntimeError:
                raise Unsupported(str(error)) from error
            raise
        from .threadnames import ThreadNames

        session.current = session.Session(fd, path, ThreadNames(), native_mode != 0)
        session.current.names.follow()
        gc.callbacks.append(_core.collection)
        _hook_once()


def stop() -> Profile:
    """Stops profiling and returns the profile. Raises NotActive if none is being taken, CannotWrite if the program closed the
    descriptor of a profile that has no path."""
    with _lock:
        taken = session.current
        if taken is None or not _core.active():
            raise NotActive("no profile is being taken: call spprof.start() first")
        try:
            taken.names.leave()
            _leave_gc()
            if taken.native:
                from .callables import named

                _core.name_native(named())
        finally:  # whatever the program's types may raise
            _core.stop()
            session.current = None
        from .model import Profile

        if taken.path is not None and taken.is_at_path():
            taken.close()
            return Profile(taken.path)
        if taken.is_open():
            return Profile(taken.fd)  # unnamed, or removed or replaced meanwhile
        raise CannotWrite("the program closed the profile's descriptor, and there is no path to it: give an output_path")


def pause() -> None:
    """Takes no samples until `resume`. Raises NotActive if no profile is being taken."""
    _require_active()
    _core.pause()


def resume() -> None:
    """Goes on after `pause`. Raises NotActive if no profile is being taken."""
    _require_active()
    _core.resume()


def flush() -> None:
    """Waits until everything that was sampled before the call is in the file, where others can read it. Other threads run
    meanwhile, some milliseconds. Without it a file is behind by 0.1 s.

    Raises NotActive if no profile is being taken, CannotWrite if one of its samples could not be written."""
    _require_active()
    try:
        _core.flush()
    except OSError as error:
        raise CannotWrite(f"the profile cannot be written: {error.strerror}") from error


def is_active() -> bool:
    """Whether a profile is being taken (also while paused). False in a forked child, which is not profiled."""
    return _core.active()


def stats() -> Dict[str, Any]:
    """The account of ticks so far, or of the last profile; {} before the first.

    expected = taken + repeated + the sum of losses. Keys: clock, expected, taken, repeated, losses (reason -> ticks),
    captured (= taken), dropped (= all losses), validation_drops, overruns, truncated, threads, cpu_ns, wall_ns, write_error."""
    return _core.stats()


def _require_active() -> None:
    if not _core.active():
        raise NotActive("no profile is being taken: call spprof.start() first")


def native_unwinding_available() -> bool:
    """Whether `start(native=True)` works on this system."""
    return _core.NATIVE


def _native(native: Union[bool, str]) -> Tuple[int, bool]:
    """The core's mode (0 off, 1 leaf, 2 all) and whether CPython's own functions are kept."""
    if native in (False, True, "full", "leaf"):
        if native and not native_unwinding_available():
            raise Unsupported("native frames cannot be sampled on this system")
        return (1 if native == "leaf" else 2 if native else 0), native == "full"
    raise BadOption(f"native={native!r}: give False, True, 'leaf' or 'full'")


def _check(interval_ms: float, mode: str, clock: str, max_depth: int) -> str:
    """The real name of the clock, if everything is in order."""
    if _core.layout_error:
        raise Unsupported(_core.layout_error)
    if mode not in ("cpu", "wall"):
        raise BadOption(f"mode {mode!r} does not exist: choose 'cpu' or 'wall'")
    if not (isinstance(interval_ms, (int, float)) and FASTEST_MS <= interval_ms <= SLOWEST_MS):
        raise BadOption(f"interval_ms={interval_ms!r} is out of range: {FASTEST_MS} (20 kHz) to {SLOWEST_MS:.0f} (1 Hz)")
    if not (isinstance(max_depth, int) and 1 <= max_depth <= DEEPEST):
        raise BadOption(f"max_depth={max_depth!r} is out of range: 1 to {DEEPEST}")
    try:
        return _core.choose_clock(clock)
    except ValueError as error:
        raise BadOption(str(error)) from None
    except OSError as error:
        what = f"the clock {clock!r}" if clock != "auto" else "every clock that spprof knows"
        hint = "see docs/troubleshooting.md" if clock == "auto" else 'clock="auto" takes what there is'
        raise Unsupported(f"the system refuses {what} ({error.filename}: {error.strerror}); {hint}") from error


def _open_output(path: Optional[str]) -> int:
    if path is None:
        return _open_unnamed()
    try:
        return os.open(
            path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0), 0o666
        )
    except OSError as error:
        raise CannotWrite(f"cannot write {path}: {error.strerror or error}") from error


def _open_unnamed() -> int:
    # O_TMPFILE spares `import tempfile`, which takes longer than all the rest of `start`.
    try:
        return os.open(os.environ.get("TMPDIR") or "/tmp", os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
    except (OSError, AttributeError):
        import tempfile

        try:
            with tempfile.TemporaryFile() as file:
                return os.dup(file.fileno())
        except OSError as error:
            raise CannotWrite(f"cannot make a temporary file: {error.strerror or error}") from error


def _header(mode: str, clock: str, interval_ns: int, max_depth: int, native: Union[bool, str]) -> bytes:
    import time

    from . import __version__

    free_threaded = "t" if "t" in getattr(sys, "abiflags", "") else ""
    header = {
        "version": 1,
        "pid": os.getpid(),
        "python": sys.version.split()[0] + free_threaded,
        "implementation": sys.implementation.name,
        "platform": f"{sys.platform}-{_machine()}",
        "argv": [str(arg) for arg in getattr(sys, "argv", [])],
        "mode": mode,
        "clock": clock,
        "interval_ns": interval_ns,
        "start_unix_ns": time.time_ns(),
        "max_depth": max_depth,
        "native": "yes" if native is True else native or "",
        "spprof": __version__,
    }
    return json_text(header).encode("ascii")


def _machine() -> str:
    return os.uname().machine if hasattr(os, "uname") else os.environ.get("PROCESSOR_ARCHITECTURE", "").lower()


def _hook_once() -> None:
    global _hooked
    if not _hooked:
        import atexit

        _hooked = True
        atexit.register(_at_exit)
        forks.in_child(_forget)


def _at_exit() -> None:
    # Every trigger must be disarmed before the interpreter frees thread states: a signal after that reads freed memory.
    if _core.active():
        try:
            stop()
        except NotActive:  # another thread stopped it meanwhile
            pass


def _leave_gc() -> None:
    if _core.collection in gc.callbacks:  # the program may have cleared the list
        gc.callbacks.remove(_core.collection)


def _forget() -> None:
    """In a forked child: the profile is the parent's."""
    global _lock
    _lock = _thread.allocate_lock()  # another thread of the parent may have held it
    taken, session.current = session.current, None
    if taken is not None:
        taken.names.leave(in_child=True)
        _leave_gc()
        taken.close()
