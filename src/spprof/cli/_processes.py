"""The table of processes that run Python, and the choice of one by a word of its command line."""

from __future__ import annotations

import os
import sys

from ..errors import BadOption

TYPE_CHECKING = False  # the user of `attach` waits for the first sample
if TYPE_CHECKING:
    from typing import List, TextIO, Union

    from ..outside.processes import Process


def show(found: List[Process], stream: TextIO) -> None:
    """A line for each."""
    from ..report.text import fit, printable, put, width_of_table  # much, which `attach` needs after its first sample

    rows = [("PID", "PYTHON", "ATTACH", "COMMAND")]
    rows += [(str(one.pid), one.version, one.attach, one.command) for one in found]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for pid, version, attach, command in rows:
        line = f"{pid:>{widths[0]}}  {version:<{widths[1]}}  {attach:<{widths[2]}}  {printable(command)}"
        put(stream, fit(line, width_of_table(stream)) + "\n")


def chosen(asked: Union[int, str]) -> int:
    """The process that is meant: the only one whose command line has the word, else the one that the user names. Raises
    BadOption."""
    if isinstance(asked, int):
        return asked
    from ..outside.processes import processes

    found = [one for one in processes()[0] if asked in one.command and not _is_above(one.pid)]
    if not found:
        raise BadOption(f"{asked!r} is no process id, and in no command line of a Python process: `spprof ps` lists them")
    if len(found) == 1:
        return found[0].pid
    from ..report.text import put

    show(found, sys.stderr)
    if not (os.isatty(0) and os.isatty(2)):
        raise BadOption(f"{len(found)} processes have {asked!r} in their command lines: give the number of one")
    put(sys.stderr, "PID: ")
    sys.stderr.flush()
    answer = sys.stdin.readline().strip()
    if not answer.isdecimal() or int(answer) not in [one.pid for one in found]:
        raise BadOption(f"{answer!r} is none of them")
    return int(answer)


def _is_above(pid: int) -> bool:
    """Whether it started us, perhaps with the word in its own command line."""
    above = os.getppid()
    while above > 1:
        if above == pid:
            return True
        try:
            with open(f"/proc/{above}/stat", "rb") as file:
                above = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, ValueError):
            break
    return False
