"""What each clock costs programs whose threads hand over to each other all the time."""

from typing import Callable, Dict, List

from . import child, figures, shares, slowdown
from .goals import Options, Row

TARGET = child.TARGETS / "handover.py"
TURNS = {"lock": 600_000, "queue": 60_000, "gil": 400_000, "pool": 100_000, "asyncio": 20_000}
MOST = {1000: 1.03, 10_000: 1.15}  # of the clock that is taken without being asked for


def handover(options: Options) -> List[Row]:
    """Slowdown of programs that switch threads all the time, by clock and rate."""
    clocks, rows = shares.able(options)
    rounds = options.rounds or (3 if options.quick else 11)
    for how, turns in TURNS.items():
        program = [str(TARGET), how, str(turns // 4 if options.quick else turns)]
        variants: Dict[str, Callable[[], child.Run]] = {
            "alone": lambda program=program: child.run(shares.plain(options, *program))
        }
        for clock in clocks:
            for rate in options.rates:
                name = f"{clock}, {rate:,} Hz"
                variants[name] = lambda clock=clock, rate=rate, program=program: _profiled(options, clock, rate, program)
        if options.peers:
            rows += slowdown.beside(options, variants, program)
        done = child.interleaved(variants, rounds, lambda text: options.note(text.split(":")[0]), child.PEERS_SLOW)
        rows += [_row(options, how, name, done) for name in variants if not name.startswith("alone")]
    return rows


def _profiled(options: Options, clock: str, rate: int, program: List[str]) -> child.Run:
    with child.folder() as folder:
        return child.run(shares.command(options, clock, rate, folder / "p.spprof", *program))


def _row(options: Options, how: str, name: str, done: slowdown.Rounds) -> Row:
    good = [one for one in done if name in one and "failed" not in one[name].says]
    if not good:
        return Row(f"{how}: {name}", f"failed: {done[0][name].says['failed']}", None)
    alone = [one[one[name].says.get("alone", "alone")] for one in good]
    ratios = [_time(one[name]) / _time(base) for one, base in zip(good, alone)]
    work, tree = figures.median(ratios), figures.median([one[name].tree_cpu / base.tree_cpu for one, base in zip(good, alone)])
    goal = next((MOST.get(rate) for rate in options.rates if name == f"signal, {rate:,} Hz"), None)
    return Row(
        f"{how}: {name}" + (f" <= {goal} x" if goal else ""),
        f"{work.text()} x, tree CPU {tree.text()} x; alone {figures.median([_time(base) for base in alone]).text()} s",
        work.at_most(goal) if goal else None,
        {"work": work.json(), "tree": tree.json()},
    )


def _time(run: child.Run) -> float:
    return (run.says["ended_ns"] - run.says["began_ns"]) / 1e9
