"""The `spprof` command. One module a verb, listed in `VERBS`; each has HELP, EXAMPLES, add_arguments and main."""

from __future__ import annotations

import errno
import os
import sys
from importlib import import_module

from .. import __version__
from ..errors import SpprofError
from . import _quick
from ._arguments import Mistake

TYPE_CHECKING = False  # `typing` and `argparse` are imported while the program starts
if TYPE_CHECKING:
    from typing import Any, List, Optional

VERBS = ("run", "attach", "ctl", "top", "live", "dump", "ps", "report", "why", "open", "diff", "convert", "push", "symbolize")

# What other profilers call it -> what there is.
_ELSEWHERE = {
    "record": "`spprof run script.py` or `spprof attach PID` records",
}
_OPTIONS = ("-h", "--help", "-V", "--version")  # that go without a verb

SHORT = """\
spprof profiles Python programs. The three commands that people need:

  spprof run script.py              profile a program; prints a summary, writes script.PID.spprof
  spprof open                       look at it in the browser
  spprof report                     print the summary again; both take the newest file, or FILE

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
    if word in _ELSEWHERE:
        return _ELSEWHERE[word]
    from difflib import get_close_matches

    near = get_close_matches(word, VERBS, 1)
    return f"did you mean `spprof {near[0]}`?" if near else f"the verbs are {', '.join(VERBS)}"


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        if isinstance(error, IsADirectoryError) or (os.name == "nt" and os.path.isdir(error.filename)):
            return f"{os.fsdecode(error.filename)} is a folder: give a file in it"
        return f"cannot open {os.fsdecode(error.filename)}: {error.strerror}"
    return str(error)


def _reader_left(error: Exception) -> bool:
    """Whether nobody reads our stdout any more (`| head`). Windows then calls what is written an invalid argument."""
    if os.name == "nt" and isinstance(error, OSError) and error.filename is None and error.errno == errno.EINVAL:
        return True
    return isinstance(error, BrokenPipeError)


# What a write to stdout fails with: nobody reads it, it is full, closed, or was taken away.
_OF_STDOUT = (errno.EPIPE, errno.ENOSPC, errno.EBADF, errno.EIO, errno.EINVAL, errno.EFBIG)


def _leave(code: int) -> None:
    """Ends the process without taking its modules apart, for which the caller would wait 10 ms."""
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (AttributeError, OSError, ValueError):
        return
    os._exit(code & 0xFF)


class _Closed:
    """Stands for a stdout that was closed before we began, where Python has None: a write fails as it does to any that is."""

    encoding = "utf-8"

    @property
    def buffer(self) -> _Closed:
        return self

    def isatty(self) -> bool:
        return False

    def flush(self) -> None:
        pass

    def fileno(self) -> int:
        return 1

    def write(self, text: object) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def _settle(error: Optional[OSError] = None) -> Optional[OSError]:
    """Writes out what stdout and stderr hold back. What they did not take (`error`: already known) is given up, so that the
    interpreter does not try again at exit; the first error, if any."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError) as failed:
            if stream is sys.stdout and isinstance(failed, OSError):
                error = error or failed
            try:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            except (OSError, ValueError):
                pass
    return error


def _say(text: str) -> None:
    from ..report.text import say

    say(text)


def main(argv: Optional[List[str]] = None) -> int:
    """Runs the command (default: sys.argv) and returns the exit code: 0, 1, 2 for what the user can put right, 3 if
    `diff --fail-if` says so, or 4 if a file of ours was taken meanwhile."""
    if argv is not None:
        return _run(argv)
    listening = sys.modules.get("spprof.listening")
    if listening is not None:  # by SPPROF_LISTEN, which is for the programs
        listening.end()
    if sys.stdout is None:
        sys.stdout = _Closed()
    failed: Optional[OSError] = None
    code = 0
    try:
        code = _run(sys.argv[1:])
        if sys.argv[1:2] == ["run"]:
            _leave(code)
    except SystemExit as exit:  # argparse's
        code = exit.code if isinstance(exit.code, int) else 1 if exit.code else 0
    except OSError as error:
        failed = error
    failed = _settle(failed)
    if failed is not None:
        if _reader_left(failed):
            return 128 + 13  # as a shell says of SIGPIPE; nothing more can be said there
        _say(f"spprof: cannot write to stdout: {failed.strerror or failed}")
        _settle()
        return 2
    return code


def _run(argv: List[str]) -> int:
    """The same, without a word about a stdout that cannot be written to: raises OSError then."""
    if not argv:
        sys.stdout.write(SHORT)
        return 2
    if argv[0] in ("-V", "--version"):  # as the parser, which needs all verbs, and so most modules
        sys.stdout.write(f"spprof {__version__}\n")
        return 0
    if argv[0] == "help":
        argv = [*argv[1:2], "--help"]
    if argv[0].startswith("-") and argv[0] not in _OPTIONS:
        from difflib import get_close_matches

        near = get_close_matches(argv[0], _OPTIONS, 1)
        hint = f"did you mean {near[0]}?" if near else "spprof VERB comes first (see `spprof --help`)"
        _say(f"spprof: error: there is no option {argv[0]}; {hint}")
        return 2
    if not argv[0].startswith("-") and argv[0] not in VERBS:
        _say(f"spprof: error: there is no verb {argv[0]!r}; {_no_verb(argv[0])}")
        return 2
    options: Any = _quick.parsed(_verb(argv[0]), argv) if argv[0] in ("run", "attach") else None
    if options is None:
        from ._parser import parse

        options = parse(argv)
    options.argv = argv
    try:
        if getattr(options, "full_paths", False):
            from ..report.paths import show_full_paths

            show_full_paths()
        return int(_verb(options.verb).main(options))
    except Mistake as error:
        _say(f"spprof {options.verb}: error: {error}")
    except (SpprofError, OSError) as error:
        if isinstance(error, OSError) and error.filename is None and error.errno in _OF_STDOUT:
            raise
        _say(f"spprof: {_words(error)}")
        return getattr(error, "exit_code", 2)
    return 2
