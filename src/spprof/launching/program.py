"""Finds the program that was named on the command line, or says what the user probably meant."""

from __future__ import annotations

import os
import sys

from ..errors import BadOption, SpprofError

TYPE_CHECKING = False  # `typing` is imported while the program starts
if TYPE_CHECKING:
    from typing import Any, List


def name(kind: str, command: List[str]) -> str:
    """What its profile is called."""
    if kind != "script":
        return command[0] if kind == "module" else "command"
    path = command[0]
    if path == "-":
        return "stdin"
    if not os.path.basename(path).strip("."):  # `.`, `..`, `folder/`
        path = os.path.abspath(path)
    return os.path.splitext(os.path.basename(path))[0]


def check_script(command: List[str]) -> None:
    """Raises BadOption if there is no such script, and says what the user probably meant; NoModule if it is a folder
    without a program. What else is no regular file (/dev/stdin, a FIFO that can be read once) is the interpreter's to open."""
    path = command[0]
    if os.path.isdir(path):
        from importlib.machinery import PathFinder

        if PathFinder.find_spec("__main__", [os.path.abspath(path)]) is None:
            raise NoModule(f"{sys.executable}: can't find '__main__' module in {os.path.abspath(path)!r}")
        return
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


def is_there(name: str) -> bool:
    """Whether there is such a module in files. None is imported here."""
    from importlib.machinery import PathFinder

    path: Any = [os.getcwd(), *sys.path]
    for part in name.split("."):
        spec = PathFinder.find_spec(part, path) if path is not None else None
        if spec is None:
            return False
        path = spec.submodule_search_locations
    return True


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
