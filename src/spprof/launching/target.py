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
    """What `python path` runs: a script, a compiled one, a directory or zip file with a `__main__.py`, or - for stdin. Raises
    NoProgram."""
    if path == "-":
        return _find_in_stdin()
    if os.name == "nt":
        full = os.path.abspath(path)
    else:
        full = path if os.path.isabs(path) else os.path.join(os.getcwd(), path)  # not abspath(): python keeps `./` too there
    if pkgutil.get_importer(full) is not None:
        return _find_in_archive(full)
    try:
        file = open(path, "rb")
    except OSError as error:
        raise NoProgram(f"cannot open {path!r}: {error.strerror or error}{_instead(path)}") from None
    with file:
        if not _safe_path():
            sys.path[0] = os.path.dirname(os.path.realpath(path))
        if path.endswith(".pyc"):
            return pkgutil.read_code(file), _main_module(SourcelessFileLoader("__main__", full), full)
        source = file.read()  # bytes, not text: compile() then heeds the encoding cookie
    if b"\0" in source:
        raise NoProgram(f"{path!r} is not Python source, but a binary file{_instead(path)}")
    return compile(source, full, "exec", dont_inherit=True), _main_module(SourceFileLoader("__main__", full), full)


def _find_in_stdin() -> Program:
    if not _safe_path():
        sys.path[0] = ""
    source = sys.stdin.buffer.read()
    module = _main_module(BuiltinImporter, None)
    module.__dict__["__file__"] = "<stdin>"
    if sys.version_info < (3, 15):
        module.__dict__["__cached__"] = None
    return compile(source, "<stdin>", "exec", dont_inherit=True), module


def _instead(path: str) -> str:
    """What whoever named this probably wants."""
    import re  # here: where there is a program, it does not find these loaded
    from importlib.util import find_spec
    from shutil import which

    name = os.path.basename(path)
    if re.match(r"(python|pypy)[0-9.]*[dt]?(\.exe)?$", name):
        rest = " ".join(sys.argv[1:]) or "SCRIPT"
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
    command = which(path)
    return f"; a command of this name is installed: spprof run {command}" if command and _is_python(command) else ""


def _is_python(path: str) -> bool:
    """Whether a command is a Python script."""
    try:
        with open(path, "rb") as file:
            first = file.readline(200)
    except OSError:
        return False
    return first.startswith(b"#!") and b"python" in first


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
    """Finds it and runs it as `__main__`. Our frames, and all that called them, are hidden in profiles (model/columns.py)."""
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
