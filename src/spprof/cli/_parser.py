"""The parser of the whole command line."""

from __future__ import annotations

import argparse
import re
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Iterable, NoReturn, Sequence, Tuple

from .. import __version__
from . import VERBS

EXAMPLES = """\
examples:
  spprof run script.py                     profile a program; prints a summary, writes script.PID.spprof
  spprof run --mode wall -m http.server    also while it waits
  spprof why                               where did the time go? In words, of the newest file here
  spprof report script.1234.spprof         print the summary again
  spprof open script.1234.spprof           look at it in the browser
  spprof diff before.spprof after.spprof   did it get faster, and where?
  spprof convert script.1234.spprof -o script.speedscope.json
"""


_IGNORED = re.compile(r"argument (?:\S*/)?(--[\w-]+): ignored explicit argument '(.*)'")


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    hidden = argparse.SUPPRESS  # argparse compares by identity: an equal text is shown

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {self._without_value(message)} (see `{self.prog} --help`)\n")

    def _without_value(self, message: str) -> str:
        """In words, if an option was given a value that it has not: argparse calls that `ignored`."""
        found = _IGNORED.fullmatch(message)
        if not found:
            return message
        name, value = found.groups()
        kinds = [option for option in self._option_string_actions if option.startswith(f"{name}=")]
        return f"there is no {name}={value}; " + (f"there is {', '.join([name, *kinds])}" if kinds else f"{name} takes no value")


def parser(wanted: Sequence[str] = VERBS) -> argparse.ArgumentParser:
    """With these verbs."""
    more: Any = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
    made = _Parser(
        prog="spprof",
        description="A sampling profiler for Python: where a program uses the CPU, where it waits, and how sure each figure is.",
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
    """What to do about a word that a verb does not take."""
    if not word.startswith("-"):
        return f"there is no use for {word!r}"
    if word == "--pid":  # other profilers'
        return f"there is no option {word}: `spprof attach PID` profiles a process that runs already"
    own = verb.prog.rpartition(" ")[2]
    options = {name: list(each._option_string_actions) for name, each in _each_verb()}
    others = [name for name in VERBS if name != own and word in options[name]]
    if others:
        return f"there is no option {word}: it is one of {', '.join(f'`spprof {name}`' for name in others)}"
    near = get_close_matches(word, options[own], 1)
    return f"there is no option {word}" + (f"; did you mean {near[0]}?" if near else "")


def _each_verb() -> Iterable[Tuple[str, argparse.ArgumentParser]]:
    [verbs] = [action for action in parser()._actions if isinstance(action, argparse._SubParsersAction)]
    return verbs.choices.items()
