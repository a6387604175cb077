"""Writes bench/results/*.json as a table into docs/results.md, between its markers: `python3 -m bench.report`."""

import json
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


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


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
    for row in result["rows"]:
        mark = {True: "met", False: "**missed**", None: "", OPEN: OPEN}[row["met"]]
        lines.append(f"| {_cell(row['goal'])} | {_cell(row['measured'])} | {mark} |")
    return [*lines, ""]


def render() -> str:
    """The tables of all results at hand, as Markdown."""
    found = {path.stem: json.loads(path.read_text()) for path in (HERE / "results").glob("*.json")}
    missing = [name for name in ORDER if name not in found]
    lines: List[str] = []
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
