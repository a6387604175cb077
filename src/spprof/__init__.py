"""spprof: a sampling profiler for Python that says what it measured and what it lost.

    import spprof
    spprof.start()                      # CPU time, 1000 samples a second
    work()
    profile = spprof.stop()
    profile.save("work.speedscope.json")

or, without touching the program: ``spprof run script.py``.
"""

__version__ = "0.1.0"

# Public name -> the module it lives in. Modules are imported when first used, so that `import spprof` costs next to nothing.
_HOMES = {
    "start": "recording.api",
    "stop": "recording.api",
    "pause": "recording.api",
    "resume": "recording.api",
    "flush": "recording.api",
    "is_active": "recording.api",
    "native_unwinding_available": "recording.api",
    "stats": "recording.api",
    "listen": "listening",
    "label": "recording.labels",
    "request": "recording.labels",
    "current_labels": "recording.labels",
    "Profiler": "recording.profiler",
    "profile": "recording.profiler",
    "timed": "recording.timing",
    "Profile": "files.profile",
    "Sample": "model.records",
    "Frame": "model.records",
    "Thread": "model.records",
    "Call": "model.calls",
    "Calls": "model.calls",
    "Function": "model.calls",
    "HotCalls": "model.hot",
    "HotFunction": "model.hot",
    "Exceptions": "model.exceptions",
    "Import": "model.imports",
    "Raised": "model.exceptions",
    "Branch": "model.line_counts",
    "CountedFunction": "model.line_counts",
    "LineCounts": "model.line_counts",
    "Way": "model.line_counts",
    "Instruction": "model.specialization",
    "Unspecialized": "model.specialization",
    "Histogram": "model.times",
    "SlowCall": "model.times",
    "TimedFunction": "model.times",
    "Times": "model.times",
    "FunctionRow": "model.records",
    "NativeCall": "model.records",
    "Marker": "model.records",
    "Request": "model.requests",
    "Total": "model.records",
    "SpprofError": "errors",
    "AlreadyActive": "errors",
    "NotActive": "errors",
    "BadOption": "errors",
    "BadFile": "errors",
    "CannotWrite": "errors",
    "Unsupported": "errors",
}

TYPE_CHECKING = False  # `typing` itself costs more to import than everything here
if TYPE_CHECKING:
    from typing import Any

    from .errors import AlreadyActive, BadFile, BadOption, CannotWrite, NotActive, SpprofError, Unsupported
    from .files.profile import Profile
    from .listening import listen
    from .model.calls import Call, Calls, Function
    from .model.exceptions import Exceptions, Raised
    from .model.hot import HotCalls, HotFunction
    from .model.imports import Import
    from .model.line_counts import Branch, CountedFunction, LineCounts, Way
    from .model.records import Frame, FunctionRow, Marker, NativeCall, Sample, Thread, Total
    from .model.requests import Request
    from .model.specialization import Instruction, Unspecialized
    from .model.times import Histogram, SlowCall, TimedFunction, Times
    from .recording.api import flush, is_active, native_unwinding_available, pause, resume, start, stats, stop
    from .recording.labels import current_labels, label, request
    from .recording.profiler import Profiler, profile
    from .recording.timing import timed

__all__ = [
    "AlreadyActive",
    "BadFile",
    "BadOption",
    "Branch",
    "Call",
    "Calls",
    "CannotWrite",
    "CountedFunction",
    "Exceptions",
    "Frame",
    "Function",
    "FunctionRow",
    "Histogram",
    "HotCalls",
    "HotFunction",
    "Import",
    "Instruction",
    "LineCounts",
    "Marker",
    "NativeCall",
    "NotActive",
    "Profile",
    "Profiler",
    "Raised",
    "Request",
    "Sample",
    "SlowCall",
    "SpprofError",
    "Thread",
    "TimedFunction",
    "Times",
    "Total",
    "Unspecialized",
    "Unsupported",
    "Way",
    "__version__",
    "current_labels",
    "flush",
    "is_active",
    "label",
    "listen",
    "native_unwinding_available",
    "pause",
    "profile",
    "request",
    "resume",
    "start",
    "stats",
    "stop",
    "timed",
]


def __getattr__(name: str) -> object:
    if name == "_core":
        return _core_of_this_interpreter()
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'spprof' has no attribute {name!r}")
    value = getattr(_module(home), name)
    globals()[name] = value
    return value


def _imported(name: str) -> object:
    """A module below this one. (`importlib` is two files more.)"""
    import sys

    whole = f"{__name__}.{name}"
    __import__(whole)
    return sys.modules[whole]


def _core_of_this_interpreter() -> object:
    """The extension module. Its file is named after the interpreter's ABI, and one folder may hold several."""
    try:
        return _imported("_core")
    except ModuleNotFoundError:
        from .errors import Unsupported

        raise Unsupported(_no_core()) from None


def _no_core() -> str:
    """Which interpreters this package has a core for, where the running one is none of them."""
    import sys
    from importlib.machinery import EXTENSION_SUFFIXES
    from os import listdir

    tags = [name.split(".")[1].split("-") for name in listdir(__path__[0]) if name.startswith("_core.c")]
    numbers = {tag[1] if tag[0] == "cpython" else tag[0][2:] for tag in tags}  # 313t; Windows has cp313t
    known = [f"{number[0]}.{number[1:]}" for number in sorted(numbers, key=lambda number: (len(number.strip("td")), number))]
    own = f"{sys.executable} is Python {sys.version.split()[0]} ({EXTENSION_SUFFIXES[0]})"
    return f"{own}, and this spprof has cores for CPython {', '.join(known) or '(none)'}"


_modules: dict[str, object] = {}


def _module(name: str) -> object:
    """A module of ours, whole. A signal handler or a finalizer that comes within its import may ask for it too, and would find
    half of it: so signals and the garbage collector wait, but for those that ticks come by. (A signal that another thread of the
    program gets does not.)"""
    if name in _modules:
        return _modules[name]
    import gc

    signals: Any = __import__("_signal")  # `signal` takes longer to import than all this
    collects, mask = gc.isenabled(), getattr(signals, "pthread_sigmask", None)
    blocked = mask(signals.SIG_BLOCK, ()) if mask else ()
    try:
        if mask:
            mask(signals.SIG_BLOCK, signals.valid_signals() - {signals.SIGTRAP, signals.SIGURG})
        gc.disable()
        _modules[name] = module = _imported(name)
        return module
    finally:
        if collects:
            gc.enable()
        if mask:
            mask(signals.SIG_SETMASK, blocked)


def load_ipython_extension(shell: object) -> None:
    """What `%load_ext spprof` calls: the magics %spprof and %%spprof."""
    from .integrations.ipython import load

    load(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
