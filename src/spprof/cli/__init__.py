"""The `spprof` command. One module a verb, listed in `VERBS`; each has HELP, EXAMPLES, add_arguments and main."""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module

from ..errors import SpprofError
from . import _quick
from ._arguments import Mistake

TYPE_CHECKING = False  # `typing` and `argparse` are imported while the program starts
if TYPE_CHECKING:
    from typing import Any, List, Optional

VERBS = ("run", "live", "dump", "report", "open", "diff", "convert", "push", "symbolize")

SHORT = """\
spprof profiles Python programs. The three commands that people need:

  spprof run script.py              profile a program; prints a summary, writes script.PID.spprof
  spprof open script.PID.spprof     look at it in the browser
  spprof report script.PID.spprof   print the summary again

`spprof --help` shows the others.
"""


def _verb(name: str) -> Any:
    return import_module("." + name, __name__)


def _no_verb(word: str) -> str:
    """What to do about a verb that does not exist."""
    if word.endswith((".py", ".pyz", ".pyc")) or os.path.isfile(os.path.join(word, "__main__.py")):
        return f"to profile it: spprof run {word}"
    if word.endswith(".spprof"):
        return f"to look at it: spprof report {word}, or spprof open {word}"
    from difflib import get_close_matches

    near = get_close_matches(word, VERBS, 1)
    return f"did you mean `spprof {near[0]}`?" if near else f"the verbs are {', '.join(VERBS)}"


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
    options: Any = _quick.parsed(_verb("run"), argv) if argv[0] == "run" else None
    if options is None:
        from ._parser import parse

        options = parse(argv)
    options.argv = argv
    try:
        if getattr(options, "full_paths", False):
            from ..report.paths import show_full_paths

            show_full_paths()
        code = int(_verb(options.verb).main(options))
        if given is None and options.verb == "run":
            _leave(code)
        return code
    except Mistake as error:
        sys.stderr.write(f"spprof {options.verb}: error: {error}\n")
        return 2
    except (SpprofError, OSError) as error:
        if _reader_left(error):
            # Nothing more can be said there, also not by the interpreter at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 1
        sys.stderr.write(f"spprof: {_words(error)}\n")
        return 2
