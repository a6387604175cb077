"""`spprof diff`: did it get faster, where, and is that more than chance?"""

from __future__ import annotations

import argparse
import os
import re
import sys
from typing import List, NamedTuple, Optional, Tuple

from ..files.output import Output
from ..model.data import ProfileData
from ..report.comparison import MEASURES, MIN_SHARE, Comparison
from ..report.diff_text import Shown, markdown, text
from ..report.export import diff_as_json
from ..report.text import put, readable, say
from ._arguments import Mistake, add_full_paths, count, load, percentage, profile_path

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
are compared counted (docs/diff.md). One run a side shows the error of sampling; only repeated runs show how much runs vary.

--fail-if RULE (may be given again) is one of
  +N%        the time of a run grew by more than N percent
  NAME:+N%   so did that of a function with what it calls; the name may have * and ?, and then each is tried
Grew means surely: the 95 % interval of the growth lies above N. Exit codes: 0 compared; 2 cannot be compared; 3 a rule failed.
Options go before the files or behind both, never behind `--`.
"""


class Rule(NamedTuple):
    """--fail-if: of the function(s) `pattern` (None: of the run) more than `percent`."""

    text: str
    pattern: Optional[str]
    percent: float


def _rule(given: str) -> Rule:
    match = re.fullmatch(r"(?:(.+):)?\+?(\d+(?:\.\d+)?) ?%", given, re.DOTALL)
    if not match:
        raise argparse.ArgumentTypeError(f"{given!r} is no rule: write '+5%' for the time of a run, 'NAME:+5%' for a function's")
    return Rule(given, match[1], float(match[2]))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `diff`."""
    parser.add_argument("files", metavar="FILE", nargs="+", type=profile_path, help="A B, or A1 A2 ... -- B1 B2 ...")
    parser.add_argument("--by", choices=("function", "line"), default="function", help="what is compared (default function)")
    parser.add_argument(
        "--sort", choices=("self", "total"), default="self", help="a function's own time (default), or with calls"
    )
    parser.add_argument("--compare", choices=MEASURES, default="share",
                        help="shares of all time (default), or seconds a run: for the same work, done several times")  # fmt: skip
    parser.add_argument("--min-share", type=percentage, default=100 * MIN_SHARE, metavar="PERCENT",
                        help="leave out what is less of A and B together: the fewer are compared, the surer (0.5)")  # fmt: skip
    parser.add_argument("--limit", type=count, metavar="N", help="rows to print (default 15; json: all)")
    parser.add_argument("--thread", metavar="PATTERN", help="only threads of this name (* and ? allowed)")
    parser.add_argument(
        "--python-only", action="store_true", help="native functions' time to the Python functions that called them"
    )
    parser.add_argument(
        "--fail-if", metavar="RULE", type=_rule, action="append", default=[], help="'+5%%' or 'NAME:+5%%': see below"
    )
    parser.add_argument("--type", metavar="NAME", help="compare samples of this type, such as page-faults (default: the first)")
    add_full_paths(parser)
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--json", action="store_true", help="print one JSON object (docs/diff.schema.json)")
    kind.add_argument("--markdown", action="store_true", help="print a table for GitHub")
    parser.add_argument("-o", "--output", metavar="FILE", help="write a page to look at (HTML); - for stdout")
    parser.add_argument("--force", action="store_true", help="replace FILE of -o even if it is no page of ours")


def main(options: argparse.Namespace) -> int:
    """Compares; 3 if a rule of --fail-if failed."""
    sides: List[List[ProfileData]] = [[load(file) for file in side] for side in _sides(options)]
    if options.type is not None:
        sides = [[profile.of(options.type) for profile in side] for side in sides]
    if not options.json:
        sides = [[readable(profile) for profile in side] for side in sides]
    comparison = Comparison(sides[0], sides[1], options.by, options.thread, options.python_only, options.min_share / 100)
    failed = [
        f"--fail-if {rule.text}: {rise}" for rule in options.fail_if for rise in comparison.grown(rule.pattern, rule.percent)
    ]
    if options.output:
        _write(options, comparison)
    limit = options.limit
    shown = Shown(options.sort, options.compare, 15 if limit is None else limit, options.by)
    if options.json:
        put(sys.stdout, diff_as_json(comparison, options.sort, options.compare, limit, failed))
    elif options.markdown:
        put(sys.stdout, "\n".join(markdown(comparison, shown)) + "\n")
    elif not options.output:
        put(sys.stdout, "\n".join(text(comparison, shown)) + "\n")
    if options.fail_if and not comparison.repeated:
        say("spprof: one run each: --fail-if cannot distinguish a slower program from a slower run")
    for line in failed:
        say(f"spprof: {line}")
    return FAILED if failed else 0


def _sides(options: argparse.Namespace) -> Tuple[List[str], List[str]]:
    files: List[str] = options.files
    # argparse drops the `--`; all arguments after it are files.
    words = options.argv
    behind = len(words) - words.index("--") - 1 if "--" in words else 0
    if "--" not in words and len(files) == 2:
        behind = 1
    if not 0 < behind < len(files):
        raise Mistake("give two files, or several of each version with -- between: A1 A2 A3 -- B1 B2 B3")
    return files[:-behind], files[-behind:]


def _write(options: argparse.Namespace, comparison: Comparison) -> None:
    from ..report import diff_page

    path, page = options.output, diff_page.html(comparison)
    if path == "-":
        sys.stdout.write(page)
        return
    Output(path, "html", options.force, options.files).write(lambda out: out.write(page.encode()))
    say(f"Written: {path} ({os.path.getsize(path):,} bytes).")
