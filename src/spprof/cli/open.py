"""`spprof open`: looks at a profile in the browser."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, List

from .. import formats
from ..errors import BadFile, SpprofError
from ..files.names import fitting
from ..files.output import save
from ..report.text import put, say
from . import _part
from ._arguments import add_sources, load, newest, profile_path, say_of_sources

if TYPE_CHECKING:
    from ..files.profile import Profile

HELP = "look at a profile in the browser"
EXAMPLES = """\
Writes one HTML page with everything in it and opens it in your browser: no server, nothing is sent anywhere.
$BROWSER names the browser, if it is not to be the system's own.

examples:
  spprof open                                what was profiled last in this folder
  spprof open app.4711.spprof
  spprof open app.*.spprof                   a program and its child processes as one
  spprof open app.4711.spprof -o app.html    keep the page, to send it to somebody
  spprof open app.html                       one that `run -f html` or `convert` wrote
  spprof open app.4711.spprof --hide importlib --focus 'load*'
  spprof open app.4711.spprof --no-browser   only write it and print where it is
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `open`."""
    kinds = "a .spprof file, or several as one, or a page made of them (.html; default: the newest .spprof file of this folder)"
    parser.add_argument("files", metavar="FILE", nargs="*", type=profile_path, help=kinds)
    parser.add_argument("-o", "--output", metavar="OUT", help="page to write (default: a temporary one that only you can read)")
    parser.add_argument("--force", action="store_true", help="replace OUT even if it is no page of ours")
    parser.add_argument("--thread", metavar="PATTERN", help="only threads of this name (* and ? allowed)")
    add_sources(parser)
    parser.add_argument("--no-browser", action="store_true", help="write the page and print its path, open nothing")
    _part.add_arguments(parser)


def main(options: argparse.Namespace) -> int:
    """Prints the page's path; 1 if no browser could be started."""
    files = options.files or newest()
    page = next((file for file in files if file.endswith(formats.FORMATS["html"].extension)), None)
    if page is not None:
        if options.output or len(files) > 1 or _part.words(options):
            raise SpprofError(f"{page} is a page already: open it alone, whole and without --output, or open .spprof files")
        path = _checked(page)
    else:
        profile = _part.together(_part.of_all(list(map(load, files)), options), options.thread)
        chosen = formats.Options(thread=options.thread if len(files) == 1 else None, sources=options.sources)
        say_of_sources(profile, "html", options.sources)
        if options.output:
            path = options.output
            save(profile, path, "html", chosen, options.force, files)
        else:
            path = _save_for_now(profile, chosen, files)
    path = os.path.abspath(path)
    put(sys.stdout, f"{path}\n")
    sys.stdout.flush()
    if options.no_browser or webbrowser.open(Path(path).as_uri()):
        return 0
    say("spprof: no browser could be started here; open the page above in one.")
    return 1


def _save_for_now(profile: Profile, chosen: formats.Options, files: List[str]) -> str:
    """The page's path. mkdtemp's directory is for its owner only (0700), so nobody can read or replace the page, nor guess its
    place. It stays, for the browser, unless there is no page."""
    folder = tempfile.mkdtemp(prefix="spprof-")
    path = os.path.join(folder, _name(files[0]))
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        save(profile, path, "html", chosen, True, files)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return path


def _name(file: str) -> str:
    stem = os.path.basename(file)
    return fitting(stem[: -len(".spprof")] if stem.endswith(".spprof") else stem, ".html")


def _checked(path: str) -> str:
    """A page of ours. Raises BadFile for any other: this is not a command to open what somebody called .html."""
    with open(path, "rb") as file:
        head = file.read(1 << 20)
    if b'id="profile"' not in head:
        raise BadFile(f"{path}: not a page that spprof wrote")
    return path
