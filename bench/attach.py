"""Attaching to a process that runs already: until the first sample, and for how long the process is stopped."""

import json
import os
import re
import subprocess
import time
from pathlib import Path
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from . import child, figures, peers
from .goals import Options, Row
from .pythons import matrix, venv, version_if_able

CLOCKED = child.TARGETS / "clocked.py"
STATES = ("busy", "epoll", "event")
LASTS, BEFORE = 3.5, 0.3  # seconds: of a target, and of that before the command
_STEP_MS = 5.0
_FIRST = re.compile(r"\bt_(\d{5})\b")
# `spprof attach`, which writes down for how long it has each time stopped the process, ns: from the last look at which no thread
# had stopped (one that waits for a processor stops when it has one) until the last one was let go.
_TIMED = """
import os, sys, time
from spprof.launching.stopped import Stopped
seize, let_go, wait = Stopped._seize, Stopped._let_go, os.waitpid
log = os.open(sys.argv.pop(1), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
looked, since = 0, 0
def seizing(self, tid):
    global looked
    looked = looked or time.monotonic_ns()
    seize(self, tid)
def looking(pid, options):
    global looked, since
    before, found = time.monotonic_ns(), wait(pid, options)
    if found[0] and found[1] & 255 == 127 and not since:
        since = looked
    looked = before
    return found
def timed(self):
    global looked, since
    let_go(self)
    if since:
        os.write(log, b"%d\\n" % (time.monotonic_ns() - since))
    looked = since = 0
Stopped._seize, os.waitpid, Stopped._let_go = seizing, looking, timed
from spprof.cli import main
sys.exit(main())
"""


class Attacher(NamedTuple):
    """A tool. `command(pid, waits, file)`; `names(file)`: stacks as text; `environment` of the target."""

    name: str
    python: str
    command: Callable[[int, bool, str], List[str]]
    names: Callable[[str], str]
    environment: Dict[str, str]
    goal: Optional[float] = None  # seconds to the first sample


def _spprof(name: str, python: str, listens: bool) -> Attacher:
    def command(pid: int, waits: bool, file: str) -> List[str]:
        mode = ["--mode", "wall"] if waits else []
        return [
            python,
            "-c",
            _TIMED,
            f"{file}.stops",
            "attach",
            str(pid),
            "-q",
            "--duration",
            "0.3",
            "-o",
            f"{file}.spprof",
            *mode,
        ]

    def names(file: str) -> str:
        done = [python, "-m", "spprof", "convert", f"{file}.spprof", "-f", "collapsed", "-o", file]
        subprocess.run(done, check=True, capture_output=True)
        return Path(file).read_text()

    return Attacher(name, python, command, names, {"SPPROF_LISTEN": "1"} if listens else {}, 0.3)


def _text(file: str) -> str:
    return Path(file).read_text(errors="replace")


def _py_spy(python: str) -> Attacher:
    program = venv(python, "peer-py-spy", "py-spy") / "py-spy"

    def command(pid: int, waits: bool, file: str) -> List[str]:
        idle = ["--idle"] if waits else []
        return [str(program), "record", "-p", str(pid), "-d", "1", "-r", "1000", "-f", "raw", "-o", file, *idle]

    return Attacher("py-spy", python, command, _text, {})


def _austin(python: str) -> Attacher:
    folder = venv(python, "peer-austin-dist", "austin-dist", "austin-python")
    program = peers._able_to_run(str(folder / "austin"))

    def names(file: str) -> str:
        subprocess.run([str(folder / "mojo2austin"), file, f"{file}.txt"], check=True, capture_output=True)
        return _text(f"{file}.txt")

    return Attacher(
        "austin", python, lambda pid, _, file: [*program, "-i", "1000", "-x", "1", "-o", file, "-p", str(pid)], names, {}
    )


def _tachyon(python: str) -> Attacher:
    words = [python, "-m", "profiling.sampling", "attach", "-d", "1", "-r", "1000", "--collapsed"]
    return Attacher("profiling.sampling on 3.15", python, lambda pid, _, file: [*words, "-o", file, str(pid)], _text, {})


def _tools(options: Options) -> Tuple[List[Attacher], List[str]]:
    own = options.python.path
    tools, missing = [_spprof("spprof attach", own, False), _spprof("spprof attach, it listens", own, True)], []
    makers: List[Tuple[str, Callable[[str], Attacher]]] = [("py-spy", _py_spy), ("austin", _austin)]
    for name, make in makers:
        try:
            tools.append(make(own))
        except (subprocess.CalledProcessError, OSError, child.Failed) as error:
            words = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
            missing.append(f"{name}: {words[-1] if words else error}")
    for name, python in matrix(["3.13t", "3.15"]).items():
        if python != own and version_if_able(python):
            tools.append(_spprof(f"spprof attach, {name}", python, False))
    newest = matrix(["3.15"]).get("3.15")
    if newest:
        tools.append(_tachyon(newest))
    else:
        missing.append("profiling.sampling: no Python 3.15 (tools/matrix)")
    return tools, missing


def _measure(tool: Optional[Attacher], python: str, state: str) -> Dict[str, object]:
    """`first`: seconds to the first sample; `gap`: ms, the longest in which the target did not run while the command did;
    `stops`: ms each. Without a tool: the longest gap in as long a time. Raises child.Failed."""
    with child.folder() as folder:
        file = str(folder / "out")
        environment = {**os.environ, **(tool.environment if tool else {})}
        with subprocess.Popen(
            [python, str(CLOCKED), state, str(LASTS)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
        ) as target:
            assert target.stdout is not None
            pid, began = map(int, target.stdout.readline().split())
            time.sleep(max(0.0, BEFORE - (time.monotonic_ns() - began) / 1e9))
            since = time.monotonic_ns()
            if tool is None:
                time.sleep(1.5)
            else:
                words = tool.command(pid, state != "busy", file)
                done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=folder, timeout=60)
            until = time.monotonic_ns()
            gaps = json.loads(target.stdout.read() or "[]")
        longest = max([gap for when, gap in gaps if since <= when <= until], default=0) / 1e6
        if tool is None:
            return {"gap": longest}
        seen = [int(one) for one in _FIRST.findall(tool.names(file))] if done.returncode == 0 else []
        if not seen:
            raise child.Failed(f"no sample (exit status {done.returncode}): {done.stderr.strip()[-300:] or 'no word why'}")
        stops = Path(f"{file}.stops")
        return {
            "first": (began - since) / 1e9 + min(seen) * _STEP_MS / 1e3,
            "gap": longest,
            "stops": [int(line) / 1e6 for line in stops.read_text().split()] if stops.exists() else [],
        }


def _rows(name: str, goal: Optional[float], state: str, done: Sequence[Dict[str, object]]) -> List[Row]:
    first = figures.median([float(str(one["first"])) for one in done])
    text = f"{first.text()} s"
    if state == "busy":
        gap = figures.median([float(str(one["gap"])) for one in done])
        text += f"; it did not run for {gap.text('{:.1f}')} ms at most"
    title = f"{name}, target {state}: to the first sample" + (f" < {goal:g} s" if goal else "")
    rows = [Row(title, text, None if goal is None else first.value < goal, {"runs": list(done)})]
    stops = [list(map(float, one["stops"])) for one in done if one["stops"]]  # type: ignore[call-overload]
    if stops:
        whole, each = figures.median([sum(one) for one in stops]), figures.median([ms for one in stops for ms in one])
        title = f"{name}, target {state}: stopped at most 3 ms in all, 1 ms in the median"
        text = f"{whole.text('{:.2f}')} ms in all, {each.text('{:.2f}')} ms each"
        rows.append(Row(title, text, whole.value <= 3 and each.value <= 1))
    return rows


def attach(options: Options) -> List[Row]:
    """`spprof attach` and other profilers: from the command to the first sample of a busy or waiting process, and its stops."""
    child.WORK.mkdir(parents=True, exist_ok=True)
    tools, missing = _tools(options)
    rounds = 2 if options.quick else min(options.rounds or 9, 21)
    done: Dict[Tuple[str, str], List[Dict[str, object]]] = {}
    broken: Dict[Tuple[str, str], str] = {}
    gaps = []
    for turn in range(rounds):
        gaps.append(float(str(_measure(None, options.python.path, "busy")["gap"])))
        for state in STATES:
            for tool in tools if turn % 2 == 0 else tools[::-1]:
                key = (tool.name, state)
                try:
                    done.setdefault(key, []).append(_measure(tool, tool.python, state))
                except (child.Failed, OSError, subprocess.SubprocessError, ValueError) as error:
                    broken[key] = str(error)
        options.note(f"round {turn + 1} of {rounds}")
    rows = [Row("nobody attached, target busy", f"it did not run for {figures.median(gaps).text('{:.1f}')} ms at most", None)]
    for state in STATES:
        for tool in tools:
            key = (tool.name, state)
            if done.get(key):
                rows += _rows(tool.name, tool.goal, state, done[key])
            if key in broken:
                failed = rounds - len(done.get(key, []))
                rows.append(
                    Row(f"{tool.name}, target {state}", f"failed in {failed} of {rounds} rounds: {broken[key]}"[:300], None)
                )
    return rows + [Row(one.split(":")[0], "skipped: " + one.split(":", 1)[1].strip(), None) for one in missing]
