"""The `spprof` command. One module a verb, listed in `VERBS`; each has HELP, EXAMPLES, add_arguments and main."""

from __future__ import annotations

import argparse
import errno
import os
import sys
from importlib import import_module

from .. import __version__
from ..errors import SpprofError

TYPE_CHECKING = False  # `typing` is imported while the program starts
if TYPE_CHECKING:
    from typing import Any, List, NoReturn, Optional, Sequence

VERBS = ("run", "live", "dump", "report", "open", "diff", "convert", "push", "symbolize")

EXAMPLES = """\
examples:
  spprof run script.py                     profile a program; prints a summary, writes script.PID.spprof
  spprof run --mode wall -m http.server    also while it waits
  spprof report script.1234.spprof         print the summary again
  spprof open script.1234.spprof           look at it in the browser
  spprof diff before.spprof after.spprof   did it get faster, and where?
  spprof convert script.1234.spprof -o script.speedscope.json
"""


SHORT = """\
spprof profiles Python programs. The three commands that people need:

  spprof run script.py              profile a program; prints a summary, writes script.PID.spprof
  spprof open script.PID.spprof     look at it in the browser
  spprof report script.PID.spprof   print the summary again

`spprof --help` shows the others.
"""


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message} (see `{self.prog} --help`)\n")


def _no_verb(word: str) -> str:
    """What to do about a verb that does not exist."""
    if word.endswith((".py", ".pyz", ".pyc")) or os.path.isfile(os.path.join(word, "__main__.py")):
        return f"to profile it: spprof run {word}"
    if word.endswith(".spprof"):
        return f"to look at it: spprof report {word}, or spprof open {word}"
    from difflib import get_close_matches

    near = get_close_matches(word, VERBS, 1)
    return f"did you mean `spprof {near[0]}`?" if near else f"the verbs are {', '.join(VERBS)}"


def _no_help(prog: str) -> argparse.HelpFormatter:
    """Argparse makes one for each option, and asks `shutil` for the terminal's width, which takes 5 ms to import."""
    return argparse.RawDescriptionHelpFormatter(prog, width=80)


def _parser(wanted: Sequence[str] = VERBS, style: Any = argparse.RawDescriptionHelpFormatter) -> argparse.ArgumentParser:
    """With these verbs: a program under `spprof run` waits for no other verb's module."""
    parser = _Parser(
        prog="spprof",
        description="A sampling profiler for Python: exact stacks, measured weights, every tick accounted for.",
        epilog=EXAMPLES + "\n`spprof VERB --help` says more.",
        formatter_class=style,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"spprof {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name in wanted:
        verb = import_module("." + name, __name__)
        # No abbreviations: argparse would also look for them among the options of the program to run.
        sub = verbs.add_parser(
            name,
            help=verb.HELP,
            description=verb.HELP,
            epilog=verb.EXAMPLES,
            formatter_class=style,
            allow_abbrev=False,
        )
        verb.add_arguments(sub)
        sub.set_defaults(main=verb.main, parser=sub)
    return parser


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"cannot open {os.fsdecode(error.filename)}: {error.strerror}"
    return str(error)


def _reader_left(error: Exception) -> bool:
    """Whether nobody reads our stdout any more (`| head`). Windows then calls what is written an invalid argument."""
    if os.name == "nt" and isinstance(error, OSError) and error.filename is None and error.errno == errno.EINVAL:
        return True
    return isinstance(error, BrokenPipeError)


def _leave(code: int) -> None:
    """Ends the process without taking its modules apart, for which the caller would wait 10 ms."""
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (AttributeError, OSError, ValueError):
        return
    os._exit(code & 0xFF)


def main(argv: Optional[List[str]] = None) -> int:
    """Runs the command (default: sys.argv) and returns the exit code: 0, 1, 2 for what the user can put right, or 3 if
    `diff --fail-if` says so."""
    given = argv
    argv = sys.argv[1:] if argv is None else argv
    if not argv:
        sys.stdout.write(SHORT)
        return 2
    if not argv[0].startswith("-") and argv[0] not in VERBS:
        sys.stderr.write(f"spprof: error: there is no verb {argv[0]!r}; {_no_verb(argv[0])}\n")
        return 2
    style = argparse.RawDescriptionHelpFormatter if {"-h", "--help"}.intersection(argv) else _no_help
    options, unknown = _parser(argv[:1] if argv[0] in VERBS else VERBS, style).parse_known_args(argv)
    if unknown:
        options.parser.error(f"there is no option {unknown[0]}")
    options.argv = argv
    try:
        code = int(options.main(options))
        if given is None and options.verb == "run":
            _leave(code)
        return code
    except argparse.ArgumentTypeError as error:
        sys.stderr.write(f"spprof {options.verb}: error: {error}\n")
        return 2
    except (SpprofError, OSError) as error:
        if _reader_left(error):
            # Nothing more can be said there, also not by the interpreter at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        sys.stderr.write(f"spprof: {_words(error)}\n")
        return 2
