"""What native frames cost: in the handler, in all, and to prepare."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import List, Optional

from . import child, cost, figures
from .goals import Options, Row
from .pythons import ROOT, each, venv

SOURCE = Path(__file__).with_name("tables.c")
SHAPES = ((10, "calls through C nested ten deep"), (0, "one call of C"))


def native(options: Options) -> List[Row]:
    """Cycles that a native frame adds to the handler, on each interpreter: runs with and without them by turns."""
    seconds, rounds = ("0.5", 2) if options.quick else (str(options.seconds or 2), options.rounds or 7)
    rows = []
    for python in each(options.asked):
        for interval_ms, rate, most in (("0.2", 5000, 100), ("1", 1000, 400)):
            for nested, shape in SHAPES:
                runs = []
                for _ in range(rounds):
                    command = [python.path, child.TARGETS / "native.py", seconds, interval_ms]
                    runs.append([child.ask([*command, kind, str(nested)]) for kind in ("", "full")])
                goal = f"{python.name}: cycles a native frame at {rate} Hz, {shape}, <= {most} (median)"
                if runs[0][0]["median"] is None or not runs[0][1]["native_frames"]:
                    rows.append(Row(goal, "not measured: no cycle counter, or no native frames here", None))
                    continue
                each_frame = [(full["median"] - plain["median"]) / full["native_frames"] for plain, full in runs]
                figure = figures.median(each_frame)
                text = f"{figure.text('{:.0f}')}; {runs[0][1]['native_frames']:.0f} native frames a sample"
                rows.append(Row(goal, text, figure.at_most(most), {"runs": runs, "figure": figure.json()}))
                options.note(f"{goal}: {text}")
    return rows


def native1k(options: Options) -> List[Row]:
    """1 kHz with native frames, runs of 10 s."""
    seconds, rounds = (3.0, 4) if options.quick else (11.0, options.rounds or 11)
    done = cost.rounds_of(options, 1_000, seconds, rounds, more=("--native",))
    ratio = figures.median([one["profiled"]["tree_cpu"] / one["alone"]["tree_cpu"] for one in done])
    goal = "1 kHz with --native, runs of 10 s: tree CPU / unprofiled <= 1.02"
    return [Row(goal, ratio.text("{:.4f}"), ratio.at_most(1.02), {"figure": ratio.json(), "rounds": done})]


def tables(options: Options) -> List[Row]:
    """Making the tables in a process with numpy and more than 60 libraries."""
    library = _library()
    goal = "tables of a process with numpy and 60 libraries or more <= 60 ms"
    if library is None:
        return [Row(goal, "not measured: no C compiler", None)]
    python = venv(options.python.path, "tables", "numpy") / "python"
    runs = [child.ask([str(python), child.TARGETS / "tables.py", library]) for _ in range(3 if options.quick else 15)]
    took = figures.median([one["tables_ns"] / 1e6 for one in runs])
    lock = figures.median([one["lock_ns"] / 1e6 for one in runs])
    what = f"{runs[0]['objects']} objects, {runs[0]['rows']:,} rows of 6 bytes"
    return [
        Row(goal, f"{took.text('{:.1f}')} ms; {what}", took.at_most(60) if runs[0]["objects"] >= 60 else None, {"runs": runs}),
        Row("the loader's lock is held < 1 ms", f"{lock.text('{:.3f}')} ms", lock.at_most(1)),
    ]


def _library() -> Optional[Path]:
    if shutil.which(os.environ.get("CC", "gcc")) is None:
        return None
    child.WORK.mkdir(parents=True, exist_ok=True)
    made = child.WORK / "tables.so"
    subprocess.run([ROOT / "tools" / "core-library", made, SOURCE], check=True)
    return made
