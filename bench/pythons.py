"""The interpreters: the one for most goals (`--python`), all of the matrix, and virtual environments for other tools."""

import functools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

from .child import TARGETS, WORK, Failed

ROOT = TARGETS.parent.parent
_CAN = "import sys, spprof._core; print('%d.%d.%d' % sys.version_info[:3] + sys.abiflags)"


class Python(NamedTuple):
    """An interpreter that can import spprof."""

    name: str
    path: str

    def spprof(self, *arguments: str) -> List[str]:
        return [self.path, "-m", "spprof", *arguments]

    def has(self, module: str) -> bool:
        return subprocess.run([self.path, "-c", f"import {module}"], capture_output=True, cwd=TARGETS).returncode == 0


def version_if_able(path: str) -> Optional[str]:
    done = subprocess.run([path, "-c", _CAN], capture_output=True, text=True, cwd=TARGETS)
    return done.stdout.strip() if done.returncode == 0 else None


def choose(asked: Optional[str]) -> Python:
    """`--python`, else one with spprof: this one, the developers' .venv, the matrix' 3.12."""
    candidates = [os.path.abspath(asked)] if asked else [sys.executable, ROOT / ".venv/bin/python", *matrix(["3.12"]).values()]
    for path in map(str, candidates):
        if os.path.exists(path):
            version = version_if_able(path)
            if version:
                return Python(version, path)
    sys.exit(f"bench: no Python that can import spprof among {', '.join(map(str, candidates))} (make build, or --python PATH)")


def matrix(only: Optional[List[str]] = None) -> Dict[str, str]:
    """Name -> path of the interpreters that tools/matrix has built spprof for."""
    found = {}
    for path in (ROOT / "build/venvs").glob("*/bin/python"):
        name = path.parent.parent.name
        if re.fullmatch(r"3\.\d+[td]?", name) and (only is None or name in only):
            found[name] = str(path)
    return dict(sorted(found.items(), key=lambda item: ([int(x) for x in item[0].rstrip("td").split(".")], item[0])))


def each(asked: Optional[str]) -> List[Python]:
    """All interpreters of the matrix that can import spprof, or only `--python`."""
    if asked:
        return [choose(asked)]
    able = [Python(name, path) for name, path in matrix().items() if version_if_able(path)]
    return able or [choose(None)]


@functools.lru_cache(None)
def as_nobody(path: str) -> Tuple[str, ...]:
    """What runs this interpreter as an unprivileged user; Failed if nothing does.

    Where the interpreter is out of such a user's reach (in /root), one capability opens files for reading; it allows nothing of
    what clocks need."""
    setpriv = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    reading = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    problems = []
    for prefix in (setpriv, setpriv + reading):
        starts = "import spprof.recording.api, subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True)"
        done = subprocess.run([*prefix, path, "-c", starts], capture_output=True, text=True, cwd=TARGETS)
        if done.returncode == 0:
            return prefix
        problems.append(done.stderr.strip()[-200:])
    raise Failed(f"an unprivileged user cannot run {path}: {problems[-1]}")


def venv(base: str, name: str, *packages: str) -> Path:
    """A virtual environment build/bench/NAME of `base` with packages from PyPI; returns its bin folder. Made once.

    Raises subprocess.CalledProcessError with pip's words if a package cannot be installed."""
    folder = WORK / name
    real = subprocess.run([base, "-c", "import sys; print(sys._base_executable)"], capture_output=True, text=True, check=True)
    wanted = "\n".join([real.stdout.strip(), *packages])
    stamp = folder / "bench-wanted"
    if not stamp.exists() or stamp.read_text() != wanted:
        subprocess.run([real.stdout.strip(), "-m", "venv", "--clear", str(folder)], check=True, capture_output=True)
        if packages:
            pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, *packages], check=True, capture_output=True, text=True)
        stamp.write_text(wanted)
    return folder / "bin"
