"""Runs programs and says what they cost, children and all."""

import contextlib
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence

TARGETS = Path(__file__).resolve().parent / "targets"
WORK = TARGETS.parent.parent / "build" / "bench"


class Run(NamedTuple):
    """One run. `tree_cpu` is user and system time of the whole process tree, start-up and writing included; `says` is what
    the target itself found out (targets/says.py)."""

    tree_cpu: float
    wall: float
    says: dict
    stderr: str
    status: int


class Failed(Exception):
    """A program that had to work did not."""


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A new folder, in which programs may write that run as somebody else."""
    WORK.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=WORK) as made:
        os.chmod(made, 0o777)
        yield Path(made)


def run(command: Sequence[str], environment: Optional[Dict[str, str]] = None, may_fail: bool = False) -> Run:
    """Runs to the end, with stdout thrown away."""
    with folder() as own, tempfile.TemporaryFile() as errors:
        says = own / "says.json"
        env = {**os.environ, "BENCH_SAYS": str(says), **(environment or {})}
        began = time.monotonic()
        process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, env=env
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - began
        errors.seek(0)
        text = errors.read().decode(errors="replace")
        said = json.loads(says.read_text()) if says.exists() else {}
    if status != 0 and not may_fail:
        raise Failed(f"{' '.join(map(str, command))}: exit status {status}\n{text[-2000:]}")
    return Run(usage.ru_utime + usage.ru_stime, wall, said, text, status)


def ask(command: Sequence[str]) -> dict:
    """Runs a program that prints JSON."""
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))}: exit status {done.returncode}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def interleaved(
    variants: Dict[str, Callable[[], Run]], rounds: int, note: Callable[[str], None], slow: float = 0
) -> List[Dict[str, Run]]:
    """Each round runs every variant once; the order turns from round to round, so that a drift of the machine hits all.

    `slow`: a variant that takes so many times as long as the quickest has half the rounds, twice as many a third, and so on;
    it is not in the others."""
    names, every = list(variants), dict.fromkeys(variants, 1)
    done: List[Dict[str, Run]] = []
    for i in range(rounds):
        turn = i % len(names)
        order = names[turn:] + names[:turn]
        got = {name: variants[name]() for name in (order if i % 2 == 0 else order[::-1]) if i % every[name] == 0}
        note(f"round {i + 1} of {rounds}: " + ", ".join(f"{name} {got[name].tree_cpu:.3f} s" for name in names if name in got))
        done.append({name: got[name] for name in names if name in got})
        if i == 0 and slow:
            quickest = min(run.wall for run in got.values() if run.wall > 0)  # nan: it failed
            every = {name: int(max(0.0, run.wall / quickest / slow)) + 1 for name, run in got.items() if run.wall > 0}
            every = {name: every.get(name, 1) for name in names}
    return done


PEERS_SLOW = 8  # for rounds with other profilers in them


def units_for(python: str, script: Path, seconds: float, *arguments: str) -> int:
    """How much work `script` does in about so many seconds here. Its first argument is the amount."""
    trial = 100
    while True:
        took = run([python, script, str(trial), *arguments]).says["thread_cpu_ns"] / 1e9
        if took >= 0.5:
            return max(1, int(trial * seconds / took))
        trial *= 4
