"""Whose code a file is: the user's own, or a library's. The user's is what is neither part of Python nor installed, and what
`--mine` or `[tool.spprof]` in pyproject.toml name."""

from __future__ import annotations

import os
import re
from importlib import import_module
from typing import Any, Dict, Iterable, List, Optional, Sequence, Set, Tuple

from ..model.patterns import is_like
from .paths import LIBRARY, PACKAGES, relative

MINE = ""  # the owner of the user's own code
IMPORTS = "import"  # the owner of the import system
_PROMPTS = ("<stdin>", "<console>", "<python-input-", "<ipython-input-")  # what was typed is the user's, whatever ran it
_IMPORT_SYSTEM = ("<frozen importlib.", "<frozen zipimport>")
_INTERPRETER = re.compile(r"(?:lib)?python3?[\d.t]*(?:\.so[\d.]*|\.dll|\.exe)?")
_PREFIX = re.compile(r"(.*)[/\\]lib(?:64)?[/\\]python3[^/\\]*[/\\]", re.IGNORECASE)
_SPPROF = re.compile(r".*[/\\]spprof[/\\](?:(?:cli|launching)[/\\])?\w+\.py")  # where it is not installed, but linked


class Owners:
    """`files`: all of the profiles; they say where Python and its scripts are installed. `patterns`: of `--mine`, each a path as
    reports or profiles have it or the name of a package (`*` and `?` allowed). `package`: the one that takes the place of the
    user's code, where there is none (whose.py)."""

    def __init__(self, files: Iterable[str], patterns: Sequence[str] = (), package: str = "") -> None:
        self._patterns = patterns
        self.package, self.title = package, f"The code of {package}" if package else "Your own code"
        self.installed: Set[str] = set()  # packages with functions of Python that were asked for
        found = (_PREFIX.match(file) for file in files)
        self._prefixes = {match[1] for match in found if match}
        self._known: Dict[Tuple[str, bool], Optional[str]] = {}

    def of(self, file: str, native: bool) -> Optional[str]:
        """MINE, IMPORTS, or the name of the library; None: its caller's, as code without a file is."""
        key = (file, native)
        if key not in self._known:
            self._known[key] = self._of_native(file) if native else self._of_python(file)
        return self._known[key]

    def is_mine(self, file: str, native: bool) -> bool:
        """Whether it is the user's own. Code without a file is, as far as nobody knows better."""
        return self.of(file, native) == MINE or (bool(file) and not native and self.of(file, native) is None)

    def _of_native(self, file: str) -> Optional[str]:
        name = os.path.basename(file.replace("\\", "/"))
        if not name or _INTERPRETER.fullmatch(name):
            return None
        for place in (PACKAGES, LIBRARY):
            match = place.match(file)
            if match:
                return _top(file[match.end() :].replace("\\", "/").replace("lib-dynload/", ""))
        return name

    def _of_python(self, file: str) -> Optional[str]:
        path = relative(file)
        owner = self._library(file)
        if any(is_like(name, pattern) for pattern in self._patterns for name in (path, file, owner or "") if name):
            return MINE
        if owner is not None or not file.startswith("<"):
            return owner if owner is not None else MINE if file else None
        return MINE if file.startswith(_PROMPTS) else None

    def _library(self, file: str) -> Optional[str]:
        for place in (PACKAGES, LIBRARY):
            match = place.match(file)
            if match:
                name = _top(file[match.end() :].replace("\\", "/"))
                self.installed |= {name} if place is PACKAGES else set()
                return name
        if file.startswith("<frozen "):
            return IMPORTS if file.startswith(_IMPORT_SYSTEM) else _top(file[len("<frozen ") :].rstrip(">"))
        folder, name = os.path.split(file)
        if os.path.basename(folder) in ("bin", "Scripts") and os.path.dirname(folder) in self._prefixes:
            return name  # a command that an installer wrote
        return "spprof" if _SPPROF.fullmatch(file) else None


def _top(path: str) -> str:
    """`json` of json/encoder.py, `random` of random.py."""
    return path.split("/")[0].split(".")[0] or path


def patterns(given: Sequence[str] = ()) -> List[str]:
    """Those of the command line, and `mine` of `[tool.spprof]` in the pyproject.toml of this folder or the nearest above it, if
    this Python reads such files (3.11 and later). A damaged one is for other tools to report."""
    return [*given, *_configured()]


def _configured() -> List[str]:
    try:
        tomllib: Any = import_module("tomllib")
    except ImportError:
        return []
    try:
        folder = os.getcwd()
        while not os.path.isfile(os.path.join(folder, "pyproject.toml")):
            above = os.path.dirname(folder)
            if above == folder:
                return []
            folder = above
        with open(os.path.join(folder, "pyproject.toml"), "rb") as file:
            mine = tomllib.load(file).get("tool", {}).get("spprof", {}).get("mine", [])
    except (OSError, ValueError, AttributeError):
        return []
    return [each for each in mine if isinstance(each, str)] if isinstance(mine, list) else []
