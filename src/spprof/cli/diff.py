"""`spprof diff`: did it get faster, where, and is that more than chance?"""

from __future__ import annotations

import argparse
import os
import re
import sys
from typing import Iterator, List, NamedTuple, Optional, Sequence, Tuple

from ..comparison import MEASURES, MIN_SHARE, Change, Comparison, Row
from ..errors import CannotWrite
from ..intervals import Estimate
from ..model import Profile
from .export import diff_as_json, escape
from .report import percentage
from .text import Paint, amount, files_of, percent, place, put, time_kind

FAILED = 3  # exit code of --fail-if

HELP = "compare two profiles, or repeated runs of two versions"
EXAMPLES = """\
examples:
  spprof diff before.spprof after.spprof
  spprof diff before.spprof after.spprof -o diff.html          a page with the table and a differential flame graph
  spprof diff A1.spprof A2.spprof A3.spprof -- B1.spprof B2.spprof B3.spprof
  spprof diff --fail-if '+5%' A1 A2 A3 -- B1 B2 B3             for CI: exit code 3 if it got slower by more than 5 %
  spprof diff --fail-if 'Parser.*:+10%' --json A B

Functions are aligned by name and file, not by line. A change is marked (*) only where it is more than chance, all functions that
are compared counted (docs/diff.md). One run a side tells the error of sampling; only repeated runs tell how much runs vary.

--fail-if RULE (may be given again) is one of
  +N%        the time of a run grew by more than N percent
  NAME:+N%   so did that of a function with what it calls; * and ? may stand in the name, and then each is tried
Grew means surely: the 95 % interval of the growth lies above N. Exit codes: 0 compared; 2 cannot be compared; 3 a rule failed.
Options go before the files or behind both, never behind `--`.
"""


class Rule(NamedTuple):
    """--fail-if: of the function(s) `pattern` (None: of the run) more than `percent`."""

    text: str
    pattern: Optional[str]
    percent: float


def _rule(text: str) -> Rule:
    match = re.fullmatch(r"(?:(.+):)?\+?(\d+(?:\.\d+)?) ?%", text, re.DOTALL)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is no rule: write '+5%' for the time of a run, 'NAME:+5%' for a function's")
    return Rule(text, match[1], float(match[2]))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `diff`."""
    parser.add_argument("files", metavar="FILE", nargs="+", help="A B, or A1 A2 ... -- B1 B2 ...")
    parser.add_argument("--by", choices=("function", "line"), default="function", help="what is compared (default function)")
    parser.add_argument(
        "--sort", choices=("self", "total"), default="self", help="a function's own time (default), or with calls"
    )
    parser.add_argument("--compare", choices=MEASURES, default="share",
                        help="shares of all time (default), or seconds a run: for the same work, done several times")  # fmt: skip
    parser.add_argument("--min-share", type=percentage, default=100 * MIN_SHARE, metavar="PERCENT",
                        help="leave out what is less of A and B together: the fewer are compared, the surer (0.5)")  # fmt: skip
    parser.add_argument("--limit", type=int, metavar="N", help="rows to print (default 15; json: all)")
    parser.add_argument("--thread", metavar="PATTERN", help="only threads of this name (* and ? allowed)")
    parser.add_argument(
        "--python-only", action="store_true", help="native functions' time to the Python functions that called them"
    )
    parser.add_argument(
        "--fail-if", metavar="RULE", type=_rule, action="append", default=[], help="'+5%%' or 'NAME:+5%%': see below"
    )
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--json", action="store_true", help="print one JSON object (docs/diff.schema.json)")
    kind.add_argument("--markdown", action="store_true", help="print a table for GitHub")
    parser.add_argument("-o", "--output", metavar="FILE", help="write a page to look at (HTML); - for stdout")


def main(options: argparse.Namespace) -> int:
    """Compares; 3 if a rule of --fail-if failed."""
    a, b = ([_load(file) for file in side] for side in _sides(options))
    comparison = Comparison(a, b, options.by, options.thread, options.python_only, options.min_share / 100)
    failed = [
        f"--fail-if {rule.text}: {told}" for rule in options.fail_if for told in comparison.grown(rule.pattern, rule.percent)
    ]
    if options.output:
        _write(options.output, comparison)
    if options.json:
        limit = None if options.limit is None else max(0, options.limit)
        put(sys.stdout, diff_as_json(comparison, options.sort, options.compare, limit, failed))
    elif options.markdown:
        put(sys.stdout, "\n".join(_markdown(comparison, options)) + "\n")
    elif not options.output:
        put(sys.stdout, "\n".join(_text(comparison, options)) + "\n")
    if options.fail_if and not comparison.repeated:
        sys.stderr.write("spprof: one run each: --fail-if cannot tell a slower program from a slower run\n")
    for line in failed:
        put(sys.stderr, f"spprof: {line}\n")
    return FAILED if failed else 0


def _sides(options: argparse.Namespace) -> Tuple[List[str], List[str]]:
    files: List[str] = options.files
    # argparse drops the `--`; all that stands behind it are files.
    words = options.argv
    behind = len(words) - words.index("--") - 1 if "--" in words else 0
    if "--" not in words and len(files) == 2:
        behind = 1
    if not 0 < behind < len(files):
        raise argparse.ArgumentTypeError("give two files, or several of each version with -- between: A1 A2 A3 -- B1 B2 B3")
    return files[:-behind], files[-behind:]


def _load(file: str) -> Profile:
    profile = Profile.load(file)
    if profile.warning:
        sys.stderr.write(f"spprof: {file}: {profile.warning}\n")
    return profile


def _write(path: str, comparison: Comparison) -> None:
    from ..viewers import diff as page

    text = page.html(comparison)
    if path == "-":
        sys.stdout.write(text)
        return
    try:
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
    except OSError as error:
        raise CannotWrite(f"cannot write {path}: {error.strerror or error}") from error
    sys.stderr.write(f"Written: {path} ({os.path.getsize(path):,} bytes).\n")


def _measure(comparison: Comparison, options: argparse.Namespace) -> str:
    return "share" if options.compare == "share" else comparison.weight_word


def _kind(options: argparse.Namespace) -> str:
    return "own" if options.sort == "self" else "total"


def _of(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"


def _head(comparison: Comparison) -> Iterator[str]:
    for name, side, wholes in zip("AB", comparison.sides, comparison.wholes):
        weights = "; ".join(amount(whole.weight_ns, comparison.unit) for whole in wholes)
        kind = f" of {time_kind(side)}" if comparison.scale > 1 else f" {comparison.unit}"
        ticks = f", {sum(whole.ticks for whole in wholes):,} samples" if comparison.unit != "samples" else ""
        yield f"{name}: {files_of(side)} ({_of(len(side))}, {weights}{kind}{ticks})"
    a, b, difference, significant = comparison.total()
    line = f"{comparison.weight_word.capitalize()} of a run: {_weight(comparison, a)} -> {_weight(comparison, b)}"
    line += f", {difference.value / a.value:+.1%}"
    if significant is None:
        yield f"{line}. How much runs vary is not known of one run each."
    else:
        word = "surely changed" if significant else "may be chance"
        yield f"{line} ({difference.low / a.value:+.1%} .. {difference.high / a.value:+.1%}): {word}."
    for note in comparison.notes:
        yield f"Note: {note}."


def _weight(comparison: Comparison, value: Estimate) -> str:
    reach = _reach(value)
    return _spread(comparison, value.value, reach) if reach else _alone(comparison, value)


def _alone(comparison: Comparison, value: Estimate) -> str:
    return amount(value.value * comparison.scale, comparison.unit)


def _spread(comparison: Comparison, seconds: float, reach: float, sign: str = "") -> str:
    """`0.772 ±0.048 s`: both in one unit."""
    if comparison.scale == 1:
        return f"{seconds:{sign},.0f} ±{reach:,.0f}"
    if max(abs(seconds), reach) >= 0.1:
        return f"{seconds:{sign}.3f} ±{reach:.3f} s"
    return f"{1000 * seconds:{sign}.2f} ±{1000 * reach:.2f} ms"


def _reach(of: Estimate) -> float:
    return max(of.high - of.value, of.value - of.low)


def _difference(comparison: Comparison, change: Change, measure: str) -> str:
    value, reach = change.difference.value, _reach(change.difference)
    if measure == "share":
        return f"{100 * value:>+6.1f} ±{100 * reach:<4.1f}"
    return _spread(comparison, value, reach, "+")


def _foot(comparison: Comparison, options: argparse.Namespace, found: Sequence[Tuple[Row, Change]], shown: int) -> Iterator[str]:
    hidden = sum(change.significant is True for _, change in found[shown:])
    if len(found) > shown:
        yield f"... {len(found) - shown} more (--limit)" + (f", {hidden} of them marked" if hidden else "")
    left = sum(any(map(any, getattr(row, _kind(options)))) for row in comparison.rows) - len(found)
    if left:
        yield f"{left} of less than {options.min_share:g} % of the time in A and B together are left out (--min-share)."
    how = (
        "from how much runs vary"
        if comparison.repeated
        else "of sampling alone; how much runs vary takes several: A1 A2 A3 -- B1 B2 B3"
    )
    if options.compare == "time" and not comparison.repeated:
        word = comparison.weight_word
        yield f"No change of {word} is marked: one run each does not tell how much runs vary. ± is the 95 % interval {how}."
    else:
        yield f"* more than chance, all {len(found)} compared counted (Bonferroni, 95 %). ± is each one's 95 % interval, {how}."


def _text(comparison: Comparison, options: argparse.Namespace) -> Iterator[str]:
    yield from _head(comparison)
    found = comparison.changes(_kind(options), options.compare)
    limit = 15 if options.limit is None else max(0, options.limit)
    paint = Paint(sys.stdout)
    yield ""
    shares_of = f" {options.sort + ', A':<12}{'B':>6}      "
    changed, word = "change of " + _measure(comparison, options), comparison.weight_word
    yield f"{shares_of} {changed:>18}   {word + ' of A':>10} {'of B':>10}  {options.by}"
    for row, change in found[:limit]:
        shares = change if options.compare == "share" else comparison.change(getattr(row, _kind(options)))
        times = change if options.compare == "time" else comparison.change(getattr(row, _kind(options)), "time")
        mark = "*" if change.significant else " "
        line = f"{percent(shares.a)} {percent(shares.b)} {_difference(comparison, change, options.compare):>18} {mark} "
        line += f"{_alone(comparison, times.a):>10} {_alone(comparison, times.b):>10}  {_place(row)}"
        yield paint(line, ("hot" if change.difference.value > 0 else "good") if change.significant else "")
    yield ""
    yield from _foot(comparison, options, found, limit)


def _place(row: Row) -> str:
    return place(row.function.qualname, row.file, 0 if row.function.native and not row.function.line else row.line)


def _markdown(comparison: Comparison, options: argparse.Namespace) -> Iterator[str]:
    for line in _head(comparison):
        yield escape(line) + "  "
    found = comparison.changes(_kind(options), options.compare)
    limit = 15 if options.limit is None else max(0, options.limit)
    changed, word = f"change of {_measure(comparison, options)}", comparison.weight_word
    yield f"\n| {options.sort} A | B | {changed} | {word} A | B | {options.by} |\n|--:|--:|--:|--:|--:|:--|"
    for row, change in found[:limit]:
        shares, times = (comparison.change(getattr(row, _kind(options)), measure) for measure in MEASURES)
        cells = [percent(shares.a).strip(), percent(shares.b).strip(), _difference(comparison, change, options.compare).strip()]
        cells[2] = f"**{cells[2]}** \\*" if change.significant else cells[2]
        cells += [_alone(comparison, times.a), _alone(comparison, times.b), escape(_place(row))]
        yield f"| {' | '.join(cells)} |"
    yield ""
    for line in _foot(comparison, options, found, limit):
        yield escape(line) + "  "
