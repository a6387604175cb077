"""Work put into functions of real programs (targets/work.py), reported by true, beside what chance explains."""

import contextlib
import itertools
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple

from . import child, figures, peers, shares
from .goals import Options, Row
from .pythons import venv

TARGET, READER = child.TARGETS / "work.py", child.TARGETS / "worked.py"
PROGRAMS = ("pycodestyle", "sqlparse", "docutils", "jinja2")
MOST_OFF = 0.02


class Given(NamedTuple):
    """What one function did in one run: truly, as it was reported, and how far off that is by the deviation that samples of
    this number have."""

    us: int
    true_ns: float
    reported_ns: float
    z: float


Round = List[Given]


def work(options: Options) -> List[Row]:
    """Work of known CPU time (calls of 5 us to 1 ms) in functions of four real programs: reported by true."""
    child.WORK.mkdir(parents=True, exist_ok=True)
    seconds, rounds = options.seconds or (0.5 if options.quick else 3.0), options.rounds or (2 if options.quick else 10)
    site = _packages(options)
    clocks, rows = shares.able(options._replace(clocks=options.clocks or ("signal", "perf")))
    tools, missing = peers.found(options) if options.peers else ([], [])
    tools = [tool for tool in tools[1:] if tool.stacks and tool.name.startswith("py-spy")]
    for busy in options.beside:
        title = f"beside {busy} busy processes" if busy else "quiet"
        done: Dict[str, List[Round]] = {}
        for i, rate in itertools.product(range(rounds), options.rates):
            with _beside(busy):
                for clock in clocks:
                    name = f"{clock}, {rate:,} Hz{options.where}, {title}"
                    one = [given for program in PROGRAMS for given in _once(options, site, program, clock, rate, seconds)]
                    done.setdefault(name, []).append(one)
                    load = os.getloadavg()[0]
                    options.note(f"round {i + 1} of {rounds}: {name}: {_ratio([one]):.3f}, load {load:.1f}")
                for tool in tools:
                    if rate in tool.rates:
                        name = f"{tool.name} {tool.version}, {rate:,} Hz, {title}"
                        with contextlib.suppress(child.Failed, OSError, subprocess.CalledProcessError, KeyError):
                            one = [given for program in PROGRAMS for given in _by(tool, site, program, rate, seconds)]
                            done.setdefault(name, []).append(one)
        for name, all_rounds in done.items():
            rows += _rows(name, all_rounds, name.split(",")[0] in clocks)
    return rows + [Row(one.split(":")[0], "skipped: " + one.split(":", 1)[1].strip(), None) for one in missing]


def _packages(options: Options) -> str:
    """The folder of the programs, for PYTHONPATH."""
    python = venv(options.python.path, "work", *PROGRAMS) / "python"
    answer = "import json, sysconfig; print(json.dumps({'path': sysconfig.get_path('purelib')}))"
    return str(child.ask([str(python), "-c", answer])["path"])


@contextlib.contextmanager
def _beside(n: int) -> Iterator[None]:
    """So many processes that only compute."""
    all = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]
    try:
        yield
    finally:
        for one in all:
            one.kill()
            one.wait()


def _program(program: str, seconds: float) -> List[str]:
    return [str(TARGET), program, str(seconds)]


def _once(options: Options, site: str, program: str, clock: str, rate: int, seconds: float) -> Iterator[Given]:
    with child.folder() as folder:
        file = folder / "out.spprof"
        run = child.run(shares.command(options, clock, rate, file, *_program(program, seconds)), {"PYTHONPATH": site})
        says, given = run.says, run.says["functions"]
        names = ",".join(one["name"] for one in given)
        answer = child.ask(
            [options.python.path, str(READER), str(file), *(str(says[key]) for key in ("began_ns", "ended_ns", "tid")), names]
        )
    for one in given:
        yield _given(one, says, answer["weights_ns"][one["name"]], answer["whole_ns"], answer["samples"])


def _by(tool: peers.Tool, site: str, program: str, rate: int, seconds: float) -> Iterator[Given]:
    """By another profiler: what is in the program's own main, of which these samples are shares."""
    assert tool.stacks is not None
    with child.folder() as folder:
        file = str(Path(folder) / "out")
        run = child.run([*tool.command(rate, file), *_program(program, seconds)], {"PYTHONPATH": site}, may_fail=True)
        given = run.says["functions"]
        stacks = [(stack, n) for stack, n in tool.stacks(file) if "for_a_time" in stack]
    whole, per = sum(n for _, n in stacks), run.says["thread_cpu_ns"]
    for one in given:
        seen = sum(n for stack, n in stacks if f"{one['name']} " in f"{stack} ")
        yield _given(one, run.says, seen / whole * per, per, whole)


def _given(one: Dict[str, Any], says: Dict[str, Any], reported: float, whole: float, samples: float) -> Given:
    share = one["ns"] / says["thread_cpu_ns"]
    deviation = math.sqrt(share * (1 - share) / samples) if samples else 0.0
    return Given(one["us"], one["ns"], reported, (reported / whole - share) / deviation if deviation and whole else 0.0)


def _ratio(rounds: List[Round], least: int = 0, most: int = 1 << 30) -> float:
    of = [given for one in rounds for given in one if least <= given.us <= most]
    true = sum(given.true_ns for given in of)
    return sum(given.reported_ns for given in of) / true if true else float("nan")


def _rows(name: str, rounds: List[Round], judged: bool) -> Iterator[Row]:
    every = figures.median([_ratio([one]) for one in rounds])
    near = every.between(1 - MOST_OFF, 1 + MOST_OFF)
    lengths = sorted({given.us for given in rounds[0]})
    each = ", ".join(f"{us} us {_ratio(rounds, us, us):.3f}" for us in lengths)
    z2 = [given.z**2 for one in rounds for given in one]
    # The sum of n squares of chance is n, with a deviation of sqrt(2 n); beyond this is one in a thousand.
    most = math.sqrt(1 + 3.1 * math.sqrt(2 / len(z2)))
    rms = math.sqrt(sum(z2) / len(z2))
    raw = {"rounds": [[given._asdict() for given in one] for one in rounds], "ratio": every.json(), "z": rms}
    yield Row(f"{name}: reported / true 1.00 +- {MOST_OFF}", f"{every.text()}; calls of {each}", near if judged else None, raw)
    yield Row(
        f"{name}: z of single functions as chance has it (at most {most:.2f})",
        f"{rms:.2f}, of {len(z2)}; load {os.getloadavg()[0]:.1f}",
        rms <= most if judged else None,
    )
