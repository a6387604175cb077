"""What profiling one busy thread costs, against the same program alone and with an empty handler."""

import tempfile
from pathlib import Path
from typing import Any, Dict, List, Tuple

from . import child, empty, figures
from .goals import Options, Row

BUSY = child.TARGETS / "busy.py"


def rounds_of(
    options: Options, rate: int, seconds: float, rounds: int, silent: bool = False, more: Tuple[str, ...] = ()
) -> List[Dict[str, Any]]:
    """Interleaved rounds of the program alone, with the empty handler, profiled, and profiled with the summary printed;
    if `silent`, also with the clock's timer interrupt alone, which sends no signal."""
    python = options.python
    units = str(child.units_for(python.path, BUSY, seconds))
    library = empty.library()
    with tempfile.TemporaryDirectory(dir=child.WORK) as folder:
        file = Path(folder) / "busy.spprof"

        def profiled(*how: str) -> child.Run:
            command = python.spprof("run", *how, *more, "--rate", str(rate), "-o", str(file), str(BUSY), units)
            run = child.run(command)
            span = [str(run.says[key]) for key in ("began_ns", "ended_ns", "tid")]
            run.says["file"] = child.ask([python.path, child.TARGETS / "reading.py", file, *span])
            return run

        clock = profiled("-q").says["file"]["clock"]
        variants = {
            "alone": lambda: child.run([python.path, BUSY, units]),
            "profiled": lambda: profiled("-q"),
            "summary": lambda: profiled(),
        }
        if library is not None:
            asked = {"BENCH_EMPTY": f"{library},{clock},{1_000_000_000 // rate}"}
            variants["empty"] = lambda: child.run([python.path, BUSY, units], asked)
            if silent and clock == "perf":
                alone = {"BENCH_EMPTY": f"{library},perf-silent,{1_000_000_000 // rate}"}
                variants["interrupt"] = lambda: child.run([python.path, BUSY, units], alone)
        done = child.interleaved(variants, rounds, options.note)
    return [{"clock": clock, "rate": rate, **{name: _facts(run) for name, run in one.items()}} for one in done]


def _facts(run: child.Run) -> Dict[str, Any]:
    return {"tree_cpu": run.tree_cpu, "wall": run.wall, **run.says}


def _tick_cost(one: Dict[str, Any]) -> float:
    """Seconds of CPU that a tick with an empty handler costs the program, by its own clock."""
    return (one["empty"]["cpu_ns"] - one["alone"]["cpu_ns"]) / 1e9 / one["empty"]["ticks"]


def _extra(one: Dict[str, Any], name: str = "profiled") -> float:
    return one[name]["tree_cpu"] - one["alone"]["tree_cpu"]


def _times_empty(rounds: List[Dict[str, Any]], name: str = "profiled") -> float:
    """Extra CPU of the tree as a multiple of what its ticks cost with an empty handler."""
    extra = figures.median([_extra(one, name) for one in rounds]).value
    ticks = figures.median([one[name]["file"]["tick_stats"]["taken"] for one in rounds]).value
    return extra / (ticks * figures.median([_tick_cost(one) for one in rounds]).value)


def cost10k(options: Options) -> List[Row]:
    """10 kHz, CPU mode, one busy thread at depth 20."""
    seconds, rounds = (2.0, 5) if options.quick else (options.seconds or 8.0, options.rounds or 15)
    done = rounds_of(options, 10_000, seconds, rounds)
    share = figures.median(
        [one["profiled"]["file"]["in_span"] / (one["profiled"]["thread_cpu_ns"] * 1e-9 * one["rate"]) for one in done]
    )
    rows = [
        Row(
            "10 kHz, one busy thread, depth 20: samples / expected >= 0.99",
            share.text("{:.4f}") + f", clock {done[0]['clock']}",
            share.at_least(0.99),
            {"rounds": done, "figure": share.json()},
        )
    ]
    if "empty" not in done[0]:
        return [*rows, Row("extra CPU <= 1.25 x ticks x cost of an empty tick", "not measured: no C compiler", None)]
    times = figures.bootstrap(done, _times_empty)
    shown = figures.bootstrap(done, lambda some: _times_empty(some, "summary"))
    tick = figures.median([_tick_cost(one) * 1e6 for one in done])
    extra = figures.median([_extra(one) for one in done])
    ratio = figures.median([one["profiled"]["tree_cpu"] / one["alone"]["tree_cpu"] for one in done])
    rows.append(
        Row(
            "10 kHz: extra CPU of the process tree <= 1.25 x ticks x CPU of a tick with an empty handler",
            (f"{times.text('{:.2f}')} x" if tick.low > 0 else "not judged: an empty tick's cost is not above 0")
            + f"; an empty tick costs {tick.text('{:.2f}')} us, extra {extra.text('{:.3f}')} s",
            times.at_most(1.25) if tick.low > 0 else None,
            {"figure": times.json(), "tick_us": tick.json(), "extra_s": extra.json()},
        )
    )
    if tick.low > 0:
        rows.append(Row("the same with the summary printed", shown.text("{:.2f}") + " x", None, {"figure": shown.json()}))
    rows.append(Row("10 kHz: tree CPU / unprofiled", ratio.text(), None, {"figure": ratio.json()}))
    return rows


def cost1k(options: Options) -> List[Row]:
    """1 kHz, CPU mode, one busy thread, runs of at least 10 s."""
    seconds, rounds = (3.0, 4) if options.quick else (11.0, options.rounds or 21)
    done = rounds_of(options, 1_000, seconds, rounds, silent=True)
    rows = []
    for name, title, goal in (
        ("profiled", "1 kHz, runs of 10 s: tree CPU / unprofiled, upper end of the 95 % interval <= 1.01", True),
        ("summary", "the same with the summary printed", False),
        ("empty", "the same with an empty handler instead of spprof", False),
        ("interrupt", "the same with the kernel's timer interrupt alone, which no clock at 1 kHz can do without", False),
    ):
        if name not in done[0]:
            continue
        ratio = figures.median([one[name]["tree_cpu"] / one["alone"]["tree_cpu"] for one in done])
        raw = {"figure": ratio.json(), **({"rounds": done} if goal else {})}
        rows.append(Row(title, ratio.text("{:.4f}"), ratio.at_most(1.01) if goal else None, raw))
    return rows
