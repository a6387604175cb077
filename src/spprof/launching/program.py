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
        with open(path, "rb"):
            pass
    except OSError as error:
        instead = _instead(command)
        if not instead and isinstance(error, FileNotFoundError) and os.path.basename(path) == path and "." not in path:
            instead = ", and there is no such command"
        raise BadOption(f"cannot open {path!r}: {error.strerror or error}{instead}") from None
    if is_binary(path):
        raise BadOption(f"{path!r} is not Python source, but a binary file{_instead(command)}")


def beginning(path: str) -> bytes:
    """Of a regular file; b"" if it cannot be read."""
    try:
        if os.path.isfile(path):
            with open(path, "rb") as file:
                return file.read(4096)
    except OSError:
        pass
    return b""


def is_binary(path: str) -> bool:
    """Whether a file is nothing that Python opens: no text, no .pyc, no zip archive."""
    data = beginning(path)
    return b"\0" in data and not path.endswith(".pyc") and b"PK\3\4" not in data


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
    path = command[0]
    name = os.path.basename(path)
    if name.startswith(("python", "pypy")) and command[1:]:
        return f"; give what it is to run: spprof run {' '.join(command[1:])}"
    if os.path.exists(path) or path != name:
        return ""
    beside = os.path.join(os.path.dirname(sys.executable), name)
    if os.path.isfile(beside):
        return f"; a command of this name is not on the PATH, but here: spprof run {beside}"
    return f"; a module of this name is installed: spprof run -m {path}" if _runs(name) else ""


def _runs(name: str) -> bool:
    """Whether there is such a module, and it is a program."""
    from importlib.machinery import PathFinder

    spec = PathFinder.find_spec(name) if name.isidentifier() else None
    if spec is None or spec.submodule_search_locations is None:
        return spec is not None
    return PathFinder.find_spec("__main__", list(spec.submodule_search_locations)) is not None
