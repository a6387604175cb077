"""Memory and bytes of file."""

import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

from . import chains, child
from .goals import Options, Row
from .pythons import venv

# The last of mypy that is pure Python with pure dependencies: a compiled one shows no Python stacks.
BLACK = "black==24.10.0"
MYPY = ["mypy==1.13.0", "typing_extensions", "mypy_extensions"]


def _rss(pid: int) -> Optional[int]:
    try:
        with open(f"/proc/{pid}/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmRSS"))
    except (OSError, StopIteration):
        return None


def growth(options: Options) -> List[Row]:
    """RSS of fast-changing chains at 10 kHz for `--minutes`, seen from outside, against its value after 5 s."""
    minutes = 0.3 if options.quick else options.minutes
    child.WORK.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=child.WORK) as folder:
        file = Path(folder) / "chains.spprof"
        words = [str(chains.write()), str(minutes * 60)]
        process = subprocess.Popen(
            options.python.spprof("run", "-q", "--rate", "10000", "-o", str(file), *words), stdout=subprocess.DEVNULL
        )
        seen = []
        while process.poll() is None:
            time.sleep(1 if minutes < 2 else 5)
            now = _rss(process.pid)
            if now:
                seen.append(now)
                if len(seen) % 12 == 0:
                    options.note(f"{len(seen)} readings, RSS {now / 2**20:.1f} MB")
        if process.returncode != 0:
            raise child.Failed(f"chains: exit status {process.returncode}")
        skip = 5 if minutes < 2 else 1
        facts = child.ask([options.python.path, child.TARGETS / "reading.py", file])
    # The last reading can fall into the end of the program, where it frees.
    grown = (max(seen[skip:]) - seen[skip - 1]) / 2**20
    return [
        Row(
            f"10 kHz for {minutes:g} minutes: RSS grows by <= 32 MB",
            f"{grown:.1f} MB, from {seen[skip - 1] / 2**20:.1f} MB; {facts['samples']:,} samples, {facts['nodes']:,} nodes",
            grown <= 32 if not options.quick else None,
            {"rss": seen, "facts": facts},
        )
    ]


def _bytes(options: Options, *words: str) -> Dict[str, Any]:
    with tempfile.TemporaryDirectory(dir=child.WORK) as folder:
        file = Path(folder) / "bytes.spprof"
        run = child.run(options.python.spprof("run", "-q", "--rate", "10000", "-o", str(file), *words), may_fail=True)
        if run.status not in (0, 1):  # 1: mypy has found something to say
            raise child.Failed(f"{words}: exit status {run.status}\n{run.stderr[-500:]}")
        return child.ask([options.python.path, child.TARGETS / "reading.py", file])


def _row(goal: str, limit: float, facts: Dict[str, Any]) -> Row:
    each = facts["bytes"] / facts["samples"]
    text = f"{each:.2f} B; {facts['samples']:,} samples, {facts['nodes']:,} nodes, {facts['bytes']:,} B"
    return Row(goal, text, each <= limit, facts)


def _installed(python: str, name: str, words: List[str]) -> Path:
    """A folder with pure Python packages: compiled ones show no Python stacks."""
    folder = child.WORK / name
    venv(python, f"{name}-python")
    if not any(folder.glob("*")):
        pip = [str(child.WORK / f"{name}-python/bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "--target", str(folder), *words], check=True, capture_output=True, text=True)
    return folder


def _with_path(folder: Path, run: Callable[[], Dict[str, Any]]) -> Dict[str, Any]:
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *filter(None, [before])])
    try:
        return run()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def _mypy(options: Options, library: Path) -> Dict[str, Any]:
    # pip takes --platform only together with --target.
    folder = _installed(options.python.path, "mypy", ["--platform", "any", "--only-binary=:all:", "--no-deps", *MYPY])
    modules = "asyncio email unittest json http logging concurrent multiprocessing idlelib importlib xml urllib".split()
    sources = [library / module for module in (modules[:1] if options.quick else modules)]
    flags = ["--no-incremental", "--cache-dir", os.devnull, "--check-untyped-defs", "--no-error-summary"]
    with tempfile.TemporaryDirectory(dir=child.WORK) as copies:
        # Copies: mypy refuses to check a file of the standard library under its own name.
        names = []
        for source in sources:
            if source.exists():  # Debian keeps idlelib apart
                names.append(str(Path(copies) / ("copy_" + source.name)))
                subprocess.run(["cp", "-r", str(source), names[-1]], check=True)
        return _with_path(folder, lambda: _bytes(options, "-m", "mypy", *flags, *names))


def _black(options: Options, library: Path) -> Dict[str, Any]:
    folder = _installed(options.python.path, "black", ["--no-binary=black", BLACK])
    modules = "argparse turtle inspect _pydecimal tarfile doctest pickletools subprocess difflib ast optparse pdb".split()
    with tempfile.TemporaryDirectory(dir=child.WORK) as copies:
        source = Path(copies) / "large.py"
        texts = [(library / f"{module}.py").read_text() for module in (modules[:2] if options.quick else modules)]
        source.write_text("\n".join(texts).replace("from __future__", "# from __future__"))
        return _with_path(folder, lambda: _bytes(options, "-m", "black", "--fast", "-q", str(source)))


def bytes_a_sample(options: Options) -> List[Row]:
    """Bytes of file a sample at 10 kHz: fast-changing chains, black on one large source, mypy over the standard library."""
    child.WORK.mkdir(parents=True, exist_ok=True)
    seconds = "5" if options.quick else "30"
    rows = [_row("fast-changing chains at 10 kHz: <= 2.5 bytes a sample", 2.5, _bytes(options, str(chains.write()), seconds))]
    find = "import json, sysconfig; print(json.dumps(sysconfig.get_path('stdlib')))"
    library = Path(str(child.ask([options.python.path, "-c", find])))
    for goal, measure in (
        ("black on one large source at 10 kHz: <= 4.5 bytes a sample", _black),
        ("mypy over the standard library's sources at 10 kHz: <= 4.5 bytes a sample", _mypy),
    ):
        try:
            rows.append(_row(goal, 4.5, measure(options, library)))
        except (subprocess.CalledProcessError, OSError) as error:
            why = (getattr(error, "stderr", None) or str(error)).strip()[-200:]
            rows.append(Row(goal, f"not measured: it could not be installed ({why})", None))
    return rows
