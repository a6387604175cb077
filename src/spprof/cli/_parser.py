"""The parser of the whole command line."""

from __future__ import annotations

import argparse
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn, Sequence

from .. import __version__
from . import VERBS

EXAMPLES = """\
examples:
  spprof run script.py                     profile a program; prints a summary, writes script.PID.spprof
  spprof run --mode wall -m http.server    also while it waits
  spprof report script.1234.spprof         print the summary again
  spprof open script.1234.spprof           look at it in the browser
  spprof diff before.spprof after.spprof   did it get faster, and where?
  spprof convert script.1234.spprof -o script.speedscope.json
"""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    hidden = argparse.SUPPRESS  # argparse compares by identity: an equal text is shown

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (see `{self.prog} --help`)\n")


def parser(wanted: Sequence[str] = VERBS) -> argparse.ArgumentParser:
    """With these verbs."""
    more: Any = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    made = _Parser(
        prog="spprof",
        description="A sampling profiler for Python: exact stacks, measured weights, every tick accounted for.",
        epilog=EXAMPLES + "\n`spprof VERB --help` says more.",
        **more,
    )
    made.add_argument("-V", "--version", action="version", version=f"spprof {__version__}")
    verbs = made.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name in wanted:
        verb = import_module("." + name, __package__)
        # No abbreviations: argparse would also look for them among the options of the program to run.
        sub = verbs.add_parser(name, help=verb.HELP, description=verb.HELP, epilog=verb.EXAMPLES, **more)
        verb.add_arguments(sub)
        sub.set_defaults(parser=sub)
    return made


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The options. Exits, with words, for what is wrong with them, and for --help."""
    options, unknown = parser(argv[:1] if argv[0] in VERBS else VERBS).parse_known_args(argv)
    if unknown:
        options.parser.error(_no_option(unknown[0].partition("=")[0], options.parser))
    return options


def _no_option(word: str, verb: argparse.ArgumentParser) -> str:
    """What to do about an option that a verb has not."""
    if word == "--pid":  # other profilers'
        return f"there is no option {word}: `spprof attach PID` profiles a process that runs already"
    near = get_close_matches(word, [name for action in verb._actions for name in action.option_strings], 1)
    return f"there is no option {word}" + (f"; did you mean {near[0]}?" if near else "")
