"""What starts for the words of a command line, as a shell and the kernel take them: a file of Python, or a command, and by which
interpreter that runs."""

from __future__ import annotations

import os
import sys

from ..errors import BadOption
from . import program, recorder

TYPE_CHECKING = False  # `typing` is imported while the program starts
if TYPE_CHECKING:
    from typing import List, Tuple

_FLAGS = {"module": ["-m"], "code": ["-c"], "script": []}
_FOLLOWED = 8  # interpreters of interpreters; Linux has 5


class Command:
    """`words`: all of them, the file first. `name`: what its profile is called. `script`: the words that Python is to open, if it
    is. `closed`: the interpreter ignores PYTHONPATH or does not import `site`. `is_python`: it is known to be Python, and the
    process that starts; `is_ours`: our own interpreter. `module`: of -m, in that."""

    def __init__(self, kind: str, given: List[str], python: str) -> None:
        self.name, self.script, self.module = program.name(kind, given), given, ""
        self.closed, self.is_python, self.is_ours = False, True, False
        path = found(given[0]) if kind == "script" else ""
        chosen = _interpreter(python) if python else "" if path else _of_active_environment()
        if chosen:
            given = [path or given[0], *given[1:]]
            self.words = [chosen, *_FLAGS[kind], *given]
        elif path:
            self.words = [path, *given[1:]]
            started = followed(self.words)
            self.is_python = bool(started)
            self.closed = is_closed(started)
            if started:
                self.name = program.name(*target(started))
        else:
            self.words = [*recorder.interpreter(), *_FLAGS[kind], *given]
            self.closed, self.is_ours = recorder.is_closed(), True
            self.module = given[0] if kind == "module" else ""
        self.script = given if kind == "script" and (python or not path) else []


def found(word: str) -> str:
    """The file that a shell would start; '' if Python is to open the word. A file in the working folder is a script, as for
    `python`, unless it is a binary."""
    if os.name == "nt":
        return ""
    if os.sep in word:
        return word if _is_started(word) else ""
    if word == "-" or (os.path.exists(word) and not os.path.isdir(word) and not program.is_binary(word)):
        return ""
    return which(word)


def which(name: str) -> str:
    """As shutil.which, which takes longer to import than the program should wait. '': there is none."""
    for folder in os.get_exec_path():
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return ""


def _is_started(path: str) -> bool:
    """Whether the kernel starts it: a first line or a format of its own says how."""
    if not (os.path.isfile(path) and os.access(path, os.X_OK)):
        return False
    return program.beginning(path)[:2] == b"#!" or program.is_binary(path)


def _interpreter(given: str) -> str:
    path = given if os.sep in given else which(given)
    if not (os.path.isfile(path) and os.access(path, os.X_OK)):
        raise BadOption(f"--python {given}: there is no such interpreter")
    return path


def _of_active_environment() -> str:
    """The interpreter that a shell has for `python`, if an environment is active, spprof is installed elsewhere (pipx, uv tool),
    was found by the PATH and has a core for that version; else ''."""
    active = os.environ.get("VIRTUAL_ENV") or ""
    python, about = os.path.join(active, "bin", "python"), os.path.join(active, "pyvenv.cfg")
    if not (active and os.path.isfile(python) and os.path.isfile(about)) or os.path.samefile(active, sys.prefix):
        return ""
    if which("spprof") != os.path.abspath(sys.argv[0]):
        return ""
    from ..outside.ways import cores_of

    package, libraries = os.path.dirname(os.path.dirname(os.path.abspath(__file__))), os.path.join(active, "lib")
    names = os.listdir(libraries) if os.path.isdir(libraries) else []
    cores = tuple(core for name in names if name.startswith("python") for core in cores_of(name[len("python") :]))
    return python if any(name.startswith(cores) for name in os.listdir(package)) else ""


def followed(words: List[str]) -> List[str]:
    """A command line as the kernel starts it, a script's by its first line and what `env` starts by that: from the Python
    interpreter on. []: it is not known to be one. Raises BadOption if an interpreter is missing."""
    for _ in range(_FOLLOWED):
        name = os.path.basename(words[0])
        if name.rstrip("0123456789.tdw") in ("python", "pypy"):  # not `python-config`
            return words
        if name == "env":
            words = _of_env(words[1:])
            path = words[0] if words and os.sep in words[0] else which(words[0]) if words else ""
            if not path:
                return []
            words = [path, *words[1:]]
            continue
        first = program.beginning(words[0]).split(b"\n", 1)[0]
        named = [word.strip() for word in os.fsdecode(first[2:]).split(None, 1)] if first.startswith(b"#!") else []
        if not named:
            return []
        if not os.path.exists(named[0]):  # as in an environment that was moved; the kernel only says "no such file"
            raise BadOption(f"{words[0]} names {named[0]}, which is not there: spprof run --python PYTHON {words[0]}")
        words = [*named, *words]
    return []


def _of_env(words: List[str]) -> List[str]:
    """What `env` starts; [] if options say more than we know of."""
    while words and ("=" in words[0] or words[0].startswith("-S")):
        words = [*words[0][2:].split(), *words[1:]] if words[0].startswith("-S") else words[1:]
    return [] if words and words[0].startswith("-") else words


def _split(words: List[str]) -> Tuple[str, List[str]]:
    """An interpreter's words: the letters of its options, and from -m, -c or the program on."""
    letters, rest = "", words[1:]
    while rest and rest[0].startswith("-") and rest[0] != "-":
        option, rest = rest[0], rest[1:]
        if option.startswith("--"):
            continue
        for at, letter in enumerate(option[1:], 2):
            if letter in "mc":
                return letters, [f"-{letter}", *([option[at:]] if option[at:] else []), *rest]
            if letter in "WX":
                rest = rest if option[at:] else rest[1:]
                break
            letters += letter
    return letters, rest


def is_closed(words: List[str]) -> bool:
    """Whether an interpreter ignores PYTHONPATH or does not import `site`."""
    return bool(words) and any(letter in "IES" for letter in _split(words)[0])


def target(words: List[str]) -> Tuple[str, List[str]]:
    """What an interpreter runs: a kind and words, as `spprof run` is given them."""
    rest = _split(words)[1]
    for kind, flag in (("module", "-m"), ("code", "-c")):
        if rest[:1] == [flag] and rest[1:]:
            return kind, rest[1:]
    return "script", rest or words[:1]
