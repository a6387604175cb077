"""What each clock costs the work and the process tree, in the same rounds: with a processor free, and with all of them busy."""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, Iterator, List, Optional

from . import child, figures, peers, shares
from .goals import Options, Row

BUSY = child.TARGETS / "busy.py"
BESIDE = ("spprof", "py-spy", "austin", "profiling.sampling")
Rounds = List[Dict[str, child.Run]]


def slowdown(options: Options) -> List[Row]:
    """Slowdown of the work and CPU of the process tree by clock and rate, with a processor free and with none."""
    child.WORK.mkdir(parents=True, exist_ok=True)
    seconds, rounds = (2.0, options.rounds or 3) if options.quick else (options.seconds or 8.0, options.rounds or 11)
    units = str(child.units_for(options.python.path, BUSY, seconds))
    clocks, rows = shares.able(options)
    once = _variants(options, clocks, units)
    if options.peers:
        rows += beside(options, once, [str(BUSY), units])
    for title, copies in (("a processor free", 1), ("all processors busy", os.cpu_count() or 1)):
        variants = {name: _at_once(call, copies) for name, call in once.items()}
        done = child.interleaved(variants, rounds, lambda text: options.note(text.split(":")[0]), child.PEERS_SLOW)
        rows += [row for name in once if not name.startswith("alone") for row in _rows(title, name, done)]
        for rate in options.rates if "perf" in clocks else ():
            rows += [row for clock in clocks if clock != "perf" for row in _against_perf(title, clock, rate, done)]
    return rows


def _variants(options: Options, clocks: List[str], units: str) -> Dict[str, Callable[[], child.Run]]:
    def profiled(clock: str, rate: int) -> child.Run:
        with child.folder() as folder:
            return child.run(shares.command(options, clock, rate, folder / "busy.spprof", str(BUSY), units))

    variants: Dict[str, Callable[[], child.Run]] = {"alone": lambda: child.run(shares.plain(options, str(BUSY), units))}
    for clock in clocks:
        for rate in options.rates:
            variants[f"{clock}, {rate:,} Hz"] = lambda clock=clock, rate=rate: profiled(clock, rate)
    return variants


def beside(options: Options, variants: Dict[str, Callable[[], child.Run]], program: List[str]) -> List[Row]:
    """Adds other profilers of this program; returns a row for each that is not available."""
    tools, missing = peers.found(options)
    for tool in tools[1:]:  # the first is spprof on the same interpreter
        if not tool.name.startswith(BESIDE):
            continue
        variants.setdefault(f"alone {tool.python}", lambda tool=tool: child.run([tool.python, *program]))
        for rate in options.rates:
            if rate in tool.rates:
                call = lambda tool=tool, rate=rate: peers.run_under(tool, rate, program)  # noqa: E731
                name = f"{tool.name} {tool.version}, {rate:,} Hz"
                variants[name] = lambda call=call, python=tool.python: _guarded(call, python)
    return [Row(one.split(":")[0], "skipped: " + one.split(":", 1)[1].strip(), None) for one in missing]


def _guarded(call: Callable[[], child.Run], python: str) -> child.Run:
    """A peer that fails in a round has no figures in it. Its interpreter decides which `alone` it is compared with."""
    try:
        run = call()
    except (child.Failed, OSError, subprocess.CalledProcessError, ValueError, KeyError) as error:
        return child.Run(float("nan"), float("nan"), {"failed": str(error)[-300:]}, "", 1)
    run.says["alone"] = f"alone {python}"
    return run


def _at_once(call: Callable[[], child.Run], copies: int) -> Callable[[], child.Run]:
    """So many of it beside each other, as one run: the CPU of all, and the mean time of their work."""

    def together() -> child.Run:
        with ThreadPoolExecutor(copies) as pool:
            runs = [future.result() for future in [pool.submit(call) for _ in range(copies)]]
        failed = [run for run in runs if "failed" in run.says]
        if failed:
            return failed[0]
        works = [(run.says["ended_ns"] - run.says["began_ns"], run.says["thread_cpu_ns"]) for run in runs]
        says = {**runs[0].says, "work": sum(work for work, _ in works) / copies, "cpu": sum(cpu for _, cpu in works) / copies}
        return child.Run(sum(run.tree_cpu for run in runs), max(run.wall for run in runs), says, "", 0)

    return together


def _work(run: child.Run) -> float:
    return float(run.says["work"])


def _cpu(run: child.Run) -> float:
    return float(run.says["cpu"])


def _tree(run: child.Run) -> float:
    return run.tree_cpu


def _ratio(done: Rounds, name: str, what: Callable[[child.Run], float], of: Optional[str] = None) -> figures.Figure:
    """Of `name`, to that of `of`, else to the program alone on its interpreter."""
    good = [one for one in done if name in one and "failed" not in one[name].says]
    return figures.median([what(one[name]) / what(one[of or one[name].says.get("alone", "alone")]) for one in good])


def _rows(title: str, name: str, done: Rounds) -> Iterator[Row]:
    tried = [one[name].says for one in done if name in one]
    failed = [says["failed"] for says in tried if "failed" in says]
    if len(failed) == len(tried):
        yield Row(f"{name}, {title}", f"failed: {failed[0]}", None)
        return
    work, cpu, tree = (_ratio(done, name, what) for what in (_work, _cpu, _tree))
    # The goals of a clock that is to cost less than the interrupt of a timer.
    goal = {"signal, 1,000 Hz": 1.01, "signal, 10,000 Hz": 1.10}.get(name) if title == "a processor free" else None
    raw: Dict[str, Any] = {"work": work.json(), "cpu": cpu.json(), "tree": tree.json()}
    yield Row(
        f"{name}, {title}: work" + (f" <= {goal} x" if goal else ""),
        f"{work.text()} x, CPU of its thread {cpu.text()} x, tree CPU {tree.text()} x"
        + (f"; failed in {len(failed)} of {len(tried)} rounds" if failed else ""),
        work.at_most(goal) if goal else None,
        raw,
    )


def _against_perf(title: str, clock: str, rate: int, done: Rounds) -> Iterator[Row]:
    name, perf = f"{clock}, {rate:,} Hz", f"perf, {rate:,} Hz"
    work, tree = _ratio(done, name, _work, perf), _ratio(done, name, _tree, perf)
    judged = clock == "signal"
    yield Row(
        f"{name}, {title}: tree CPU (and work, where all are busy) not above perf's",
        f"tree CPU {tree.text()} of perf's, work {work.text()}",
        (tree.at_most(1) if title == "a processor free" else figures.both(tree.at_most(1), work.at_most(1))) if judged else None,
        {"work": work.json(), "tree": tree.json()},
    )
