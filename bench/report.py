"""Writes bench/results/*.json as a table into docs/results.md, between its markers: `python3 -m bench.report`."""

import json
import re
import sys
from pathlib import Path
from typing import Any, Dict, List

from .figures import OPEN

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "results.md"
BEGIN, END = "<!-- results: begin (python3 -m bench.report) -->", "<!-- results: end -->"
ORDER = (
    "cost10k", "cost1k", "impossible", "handler", "wall100", "cpu100", "startup", "memory", "bytes", "convert", "peers",
    "peers_native", "native", "native1k", "tables", "crowd_start", "brief_threads", "intervals", "shares", "ticks", "work",
    "slowdown", "handover", "calls", "wrapped", "counts", "hot", "times", "lines",
    "imports", "exceptions", "attach",
)  # fmt: skip


# What people ask first: a subject, and which of its goals.
MATTER = (
    ("impossible", ""), ("ticks", r"10,000 Hz.*a busy thread .*samples / expected"), ("cost1k", r"^1 kHz, runs"),
    ("cost10k", r"tree CPU / unprofiled"), ("slowdown", r"^signal, 1,000 Hz, a processor free: work"),
    ("slowdown", r"^signal, 10,000 Hz, a processor free: work"), ("work", r"signal, 1,000 Hz.*quiet: reported"),
    ("work", r"signal, 10,000 Hz.*quiet: reported"), ("work", r"signal, 1,000 Hz.*beside.*: reported"),
    ("shares", r"1,000 Hz.*in >= 97"), ("shares", r"10,000 Hz.*in >= 97"), ("shares", r"1,000 Hz.*own 95"),
    ("handover", r"^lock: signal, 1,000"), ("wrapped", r"^read"), ("handler", ""), ("startup", r"^start\(\)"),
    ("wall100", "uses"), ("memory", ""), ("bytes", "black"), ("convert", "^html"), ("counts", "^run --calls <="),
    ("hot", "mypy"), ("times", "less than"), ("attach", r"^spprof.*first sample"),
)  # fmt: skip


def _cell(text: str) -> str:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)  # what other profilers print is coloured
    return " ".join(plain.split()).replace("|", "\\|")


def _table(title: str, result: Dict[str, Any]) -> List[str]:
    machine = result["machine"]
    right = "root" if machine["root"] else "an unprivileged user"
    lines = [
        f"## {title}",
        f"`{result['command']}`, {result['when']} UTC, {result['seconds']} s, "
        f"Python {result['python']}, commit {result['spprof']}; "
        f"{machine['processor']}, {machine['processors']} processors, Linux {machine['kernel']}, as {right}, "
        f"perf_event_paranoid {machine['perf_event_paranoid']}, load before {machine['load_before']}."
        + (" **A quick run: it shows that the bench works, not how good the figures are.**" if result["quick"] else ""),
        "",
        "| goal | measured (median, 95 % interval) | |",
        "|---|---|---|",
    ]
    return [*lines, *map(_row, result["rows"]), ""]


def _newest(found: Dict[str, Dict[str, Any]]) -> str:
    """The commit that was measured last."""
    return str(max(found.values(), key=lambda one: one["when"])["spprof"]) if found else ""


def _worst(rows: List[Dict[str, Any]]) -> Dict[str, Any]:
    """Of a goal that each interpreter has, the one that is furthest from being met."""
    return min(rows, key=lambda row: (False, OPEN, None, True).index(row["met"]))


def _matters(found: Dict[str, Dict[str, Any]]) -> List[str]:
    """The figures that people ask for, of one commit."""
    commit = _newest(found)
    of_one = {name: one for name, one in found.items() if one["spprof"] == commit and not one["quick"]}
    minutes = sum(one["seconds"] for one in of_one.values()) / 60
    lines = [
        "## The figures that matter",
        f"All of commit {commit}, measured in {minutes:.0f} minutes. Of a goal for each interpreter the worst.",
        "", "| goal | measured (median, 95 % interval) | |", "|---|---|---|",
    ]  # fmt: skip
    missing = []
    for name, pattern in MATTER:
        rows = [row for row in of_one.get(name, {"rows": []})["rows"] if re.search(pattern, row["goal"])]
        if rows:
            lines.append(_row(_worst(rows)))
        elif name not in missing:
            missing.append(name)
    beside = [row for name in ("slowdown", "peers") for row in of_one.get(name, {"rows": []})["rows"] if _is_peer(row["goal"])]
    if missing:
        lines += ["", f"Not measured at this commit: {', '.join(missing)}."]
    if beside:
        lines += ["", "Other profilers in the same rounds:", "", "| | measured | |", "|---|---|---|", *map(_row, beside)]
    return [*lines, ""]


def _is_peer(goal: str) -> bool:
    return goal.startswith(("py-spy", "austin", "pyinstrument", "scalene", "profiling.sampling"))


def _row(row: Dict[str, Any]) -> str:
    mark = {True: "met", False: "**missed**", None: "", OPEN: OPEN}[row["met"]]
    return f"| {_cell(row['goal'])} | {_cell(row['measured'])} | {mark} |"


def render() -> str:
    """The tables of all results at hand, as Markdown."""
    found = {path.stem: json.loads(path.read_text()) for path in (HERE / "results").glob("*.json")}
    missing = [name for name in ORDER if name not in found]
    lines = _matters(found)
    for name in ORDER:
        for one in sorted(one for one in found if one == name or one.startswith(f"{name}-")):  # --tag
            lines += _table(one, found[one])
    if missing:
        lines += [f"Not measured yet: {', '.join(missing)}.", ""]
    return "\n".join(lines)


def main() -> int:
    page = PAGE.read_text()
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        sys.stderr.write(f"bench.report: the markers are missing in {PAGE.name}\n")
        return 1
    PAGE.write_text(f"{before}{BEGIN}\n\n{render()}\n{END}{after}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
