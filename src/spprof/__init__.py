"""spprof: a sampling profiler for Python that says what it measured and what it lost.

    import spprof
    spprof.start()                      # CPU time, 1000 samples a second
    work()
    profile = spprof.stop()
    profile.save("work.speedscope.json")

or, without touching the program: ``spprof run script.py``.
"""

from __future__ import annotations

__version__ = "0.1.0"

# Public name -> the module it lives in. Modules are imported when first used, so that `import spprof` costs next to nothing.
_HOMES = {
    "start": "api",
    "stop": "api",
    "pause": "api",
    "resume": "api",
    "flush": "api",
    "is_active": "api",
    "native_unwinding_available": "api",
    "stats": "api",
    "label": "labels",
    "current_labels": "labels",
    "Profiler": "profiler",
    "profile": "profiler",
    "Profile": "model",
    "Sample": "model",
    "Frame": "model",
    "Thread": "model",
    "FunctionRow": "model",
    "NativeCall": "model",
    "Marker": "model",
    "Total": "model",
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
    from .api import flush, is_active, native_unwinding_available, pause, resume, start, stats, stop
    from .errors import AlreadyActive, BadFile, BadOption, CannotWrite, NotActive, SpprofError, Unsupported
    from .labels import current_labels, label
    from .model import Frame, FunctionRow, Marker, NativeCall, Profile, Sample, Thread, Total
    from .profiler import Profiler, profile

__all__ = [
    "AlreadyActive",
    "BadFile",
    "BadOption",
    "CannotWrite",
    "Frame",
    "FunctionRow",
    "Marker",
    "NativeCall",
    "NotActive",
    "Profile",
    "Profiler",
    "Sample",
    "SpprofError",
    "Thread",
    "Total",
    "Unsupported",
    "__version__",
    "current_labels",
    "flush",
    "is_active",
    "label",
    "native_unwinding_available",
    "pause",
    "profile",
    "resume",
    "start",
    "stats",
    "stop",
]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'spprof' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module("." + home, __name__), name)
    globals()[name] = value
    return value


def load_ipython_extension(shell: object) -> None:
    """What `%load_ext spprof` calls: the magics %spprof and %%spprof."""
    from .integrations.ipython import load

    load(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
