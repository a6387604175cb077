"""The program to profile, run as `python TARGET` would run it."""

from __future__ import annotations

import linecache
import os
import pkgutil
import runpy
import sys
import types
from importlib.machinery import BuiltinImporter, SourceFileLoader, SourcelessFileLoader
from typing import Any, Callable, Optional, Tuple

from ..errors import SpprofError

Program = Tuple[Any, types.ModuleType]  # code, and the module that will be `__main__`


class NoProgram(SpprofError):
    """There is nothing to run under that name."""


def find_module(name: str) -> Program:
    """What `python -m name` runs. Packages on the way are imported, as python does. Raises NoProgram."""
    if not _safe_path():
        sys.path[0] = os.getcwd()
    sys.argv[0] = "-m"  # what those packages see
    _, spec, code = runpy._get_module_details(name, NoProgram)  # type: ignore[attr-defined]
    sys.argv[0] = spec.origin
    return code, _main_module(spec.loader, spec.origin, spec, spec.parent)


def find_code(text: str) -> Program:
    """What `python -c text` runs."""
    if not _safe_path():
        sys.path[0] = ""
    sys.argv[0] = "-c"
    if sys.version_info >= (3, 13):  # since then tracebacks show the source of -c
        linecache.cache["<string>"] = (len(text), None, text.splitlines(keepends=True), "<string>")
    return compile(text, "<string>", "exec", dont_inherit=True), _main_module(BuiltinImporter, None)


def find_script(path: str) -> Program:
    """What `python path` runs: a script, a compiled one, or a directory or zip file with a `__main__.py`. Raises NoProgram."""
    if os.name == "nt":
        full = os.path.abspath(path)
    else:
        full = path if os.path.isabs(path) else os.path.join(os.getcwd(), path)  # not abspath(): python keeps `./` too there
    if pkgutil.get_importer(full) is not None:
        return _find_in_archive(full)
    try:
        file = open(path, "rb")
    except OSError as error:
        raise NoProgram(f"cannot open {path!r}: {error.strerror or error}") from None
    with file:
        if not _safe_path():
            sys.path[0] = os.path.dirname(os.path.realpath(path))
        if path.endswith(".pyc"):
            return pkgutil.read_code(file), _main_module(SourcelessFileLoader("__main__", full), full)
        source = file.read()  # bytes, not text: compile() then heeds the encoding cookie
    return compile(source, full, "exec", dont_inherit=True), _main_module(SourceFileLoader("__main__", full), full)


def _find_in_archive(path: str) -> Program:
    if _safe_path():
        sys.path.insert(0, path)  # python too: without it there is nothing to run
    else:
        sys.path[0] = path
    _, spec, code = runpy._get_main_module_details(NoProgram)  # type: ignore[attr-defined]
    return code, _main_module(spec.loader, spec.origin, spec, spec.parent)


def _safe_path() -> bool:
    """Whether python was told to put nothing of the program's place on sys.path (-P, -I)."""
    return bool(getattr(sys.flags, "safe_path", sys.flags.isolated))


def _main_module(loader: Any, file: Optional[str], spec: Any = None, package: Optional[str] = None) -> types.ModuleType:
    module = types.ModuleType("__main__")
    namespace = module.__dict__
    namespace.update(__loader__=loader, __spec__=spec, __package__=package, __builtins__=__builtins__)
    if sys.version_info < (3, 14):
        namespace["__annotations__"] = {}
    if file is not None:
        namespace["__file__"] = file
        if sys.version_info < (3, 15):
            namespace["__cached__"] = spec.cached if spec else None
    return module


def run_program(find: Callable[[str], Program], what: str) -> None:
    """Finds it and runs it as `__main__`. Our frames, and all that called them, are hidden in profiles (model.py)."""
    code, module = find(what)
    sys.modules["__main__"] = module
    exec(code, module.__dict__)


def report_exception(error: BaseException) -> None:
    """Prints an uncaught exception as the interpreter would, without our own frames."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code is not run_program.__code__:
        trace = trace.tb_next
    while trace is not None and trace.tb_frame.f_code.co_filename == run_program.__code__.co_filename:
        trace = trace.tb_next
    error = error.with_traceback(trace)
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    try:
        sys.excepthook(type(error), error, trace)
    except SystemExit:
        raise
    except BaseException as failure:
        sys.stderr.write("Error in sys.excepthook:\n")
        sys.__excepthook__(type(failure), failure, failure.__traceback__)
        sys.stderr.write("\nOriginal exception was:\n")
        sys.__excepthook__(type(error), error, trace)
