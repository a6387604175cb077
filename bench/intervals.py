"""Error bars: how often the 95 % intervals of shares hold the truth, and how often equal programs are reported to differ."""

import math
from typing import Any, Dict, List

from . import child, figures
from .goals import Options, Row

TARGET = child.TARGETS / "coverage.py"


def within(held: int, of: int, level: float = 0.95) -> figures.Met:
    """Whether so few can be chance where `level` is true, by the lower tail of the binomial: at least 0.05 of such runs have no
    more. Below 0.001 they are not chance; in between it is open."""
    ways = math.lgamma(of + 1)
    tail = 0.0
    for k in range(held + 1):
        choose = ways - math.lgamma(k + 1) - math.lgamma(of - k + 1)
        tail += math.exp(choose + k * math.log(level) + (of - k) * math.log(1 - level))
    return True if tail >= 0.05 else figures.OPEN if tail >= 0.001 else False


def _row(goal: str, held: int, of: int, more: str, raw: Any = None, judged: bool = True) -> Row:
    return Row(goal, f"{held / of:.3f} ({held} of {of}){more}", within(held, of) if judged else None, raw)


def _simulated(options: Options) -> List[Row]:
    found = child.ask([options.python.path, TARGET, "simulated", "25" if options.quick else "250"])
    rows = []
    for name, (held, of, width) in found["scenarios"].items():
        goal = f"simulated, {name}: 95 % intervals hold at least 95 %"
        rows.append(_row(goal, held, of, f", {100 * width:.1f} points wide", None))
    for name, differing in found["diffs"].items():
        same = "points" not in name
        goal = (
            f"simulated, equal programs, {name}: at least 95 % of diffs mark nothing"
            if same
            else f"simulated, {name} of 4.5: found"
        )
        held = found["of"] - differing["counted"] if same else differing["counted"]
        alone = found["of"] - differing["alone"] if same else differing["alone"]
        rows.append(_row(goal, held, found["of"], f"; {alone / found['of']:.3f} if each function is judged alone", None, same))
    return rows


def _real(options: Options, mode: str) -> List[Row]:
    found: Dict[str, Any] = child.ask([options.python.path, TARGET, "real", "24" if options.quick else "240", mode])
    held, of = found["held"], found["of"]
    about = f", {100 * found['width']:.1f} points wide, {found['samples']:.0f} effective samples"
    nothing = {what: of[what] - held[what] for what in ("pairs", "triples")}
    spread = max(found["spread"].values())
    return [
        _row(f"real runs, {mode} at 1 kHz: hold the share by the run's own clocks", held["own"], of["own"], about, found),
        _row(
            f"real runs, {mode}: hold the mean of all runs (which vary by up to {100 * spread:.1f} points)",
            held["program"], of["program"], "", None, False,
        ),
        _row(f"real runs, {mode}, 3 at a time: hold the mean of all runs", held["three"], of["three"], ""),
        _row(f"real runs, {mode}: diffs of one run and the next mark nothing", nothing["pairs"], of["pairs"], "", None, False),
        _row(f"real runs, {mode}: diffs of 3 and the next 3 mark nothing", nothing["triples"], of["triples"], ""),
    ]  # fmt: skip


def intervals(options: Options) -> List[Row]:
    """Coverage of the 95 % intervals of shares, simulated and in real runs; diffs of equal programs."""
    rows = _simulated(options)
    for mode in ("cpu", "wall"):
        options.note(f"real runs, {mode}")
        rows += _real(options, mode)
    return rows
