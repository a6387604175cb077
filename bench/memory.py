"""Memory and bytes of file."""

import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List, Optional

from . import chains, child
from .goals import Options, Row
from .pythons import venv

# The last of mypy that is pure Python with pure dependencies: a compiled one shows no Python stacks.
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


def bytes_a_sample(options: Options) -> List[Row]:
    """Bytes of file a sample at 10 kHz, on fast-changing chains and on mypy over the standard library."""
    child.WORK.mkdir(parents=True, exist_ok=True)
    seconds = "5" if options.quick else "30"
    rows = [_row("fast-changing chains at 10 kHz: <= 2.5 bytes a sample", 2.5, _bytes(options, str(chains.write()), seconds))]
    goal = "mypy over the standard library's sources at 10 kHz: <= 4.5 bytes a sample"
    pure = ["--platform", "any", "--only-binary=:all:", "--no-deps"]
    try:
        # pip takes --platform only together with --target.
        folder = child.WORK / "mypy"
        venv(options.python.path, "mypy-python")
        if not (folder / "mypy").exists():
            pip = [str(child.WORK / "mypy-python/bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
            subprocess.run([*pip, *pure, "--target", str(folder), *MYPY], check=True, capture_output=True, text=True)
    except (subprocess.CalledProcessError, OSError) as error:
        return [
            *rows,
            Row(goal, f"not measured: mypy could not be installed ({(error.stderr or str(error)).strip()[-200:]})", None),
        ]
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *filter(None, [before])])
    try:
        library = child.ask(
            [options.python.path, "-c", "import json, sysconfig; print(json.dumps(sysconfig.get_path('stdlib')))"]
        )
        modules = "asyncio email unittest json http logging concurrent multiprocessing idlelib importlib xml urllib".split()
        words = [str(Path(str(library)) / module) for module in (modules[:1] if options.quick else modules)]
        words = [word for word in words if Path(word).exists()]  # Debian keeps idlelib apart
        flags = ["--no-incremental", "--cache-dir", os.devnull, "--check-untyped-defs", "--no-error-summary"]
        with tempfile.TemporaryDirectory(dir=child.WORK) as copies:
            # Copies: mypy refuses to check a file of the standard library under its own name.
            names = []
            for word in words:
                name = Path(copies) / ("copy_" + Path(word).name)
                subprocess.run(["cp", "-r", word, str(name)], check=True)
                names.append(str(name))
            facts = _bytes(options, "-m", "mypy", *flags, *names)
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    return [*rows, _row(goal, 4.5, facts)]
