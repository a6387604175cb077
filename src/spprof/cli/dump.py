"""`spprof dump`: what each thread does, or did last, from the file that its profile is written to."""

from __future__ import annotations

import argparse
import sys
from typing import Dict, Iterator, List, NamedTuple, Optional

from ..errors import BadOption
from ..model import STANDING, Profile
from .text import duration, place, put, shown

HELP = "print the stack that each thread has now, or had last"
EXAMPLES = """\
Reads the file that a running program writes, some 0.2 s behind it. The program does not notice. In wall mode threads that wait
are seen too; in CPU mode each thread shows where it last used the processor.

examples:
  spprof run --mode wall server.py         in one terminal
  spprof dump server.4711.spprof           in another one
  spprof dump server.4711.spprof --thread 'worker*'
"""

# In wall mode a living thread is in the file at least every 80 ms; one that was not for so long has ended, or hides.
_GONE_NS = 1_000_000_000
_BEHIND_NS = 200_000_000  # less is how far threads lie apart in the file


class _Last(NamedTuple):
    """The last samples of a thread that have one stack: its key, when the last was taken, how long the thread stood there."""

    thread: int
    key: int
    time_ns: int
    stood_ns: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `dump`."""
    parser.add_argument("file", metavar="FILE", help="a .spprof file, of a program that runs or that ran")
    parser.add_argument("--thread", metavar="PATTERN", help="only threads of this name or system id (* and ? allowed)")


def main(options: argparse.Namespace) -> int:
    """Prints the stacks."""
    profile = Profile.load(options.file)
    if "source" in profile.header:
        raise BadOption(f"{options.file}: a file of another profiler does not tell when its samples were taken")
    put(sys.stdout, "\n".join(_lines(profile, options.thread)) + "\n")
    if profile.warning:
        sys.stderr.write(f"spprof: {options.file}: {profile.warning}\n")
    return 0


def _lasts(profile: Profile) -> List[_Last]:
    """Of each thread that has samples."""
    threads, keys = profile.column("thread"), profile.stack_keys()
    times, weights, flags = (profile.column(name) for name in ("time_ns", "weight_ns", "flags"))
    found: Dict[int, _Last] = {}
    looked_for = set(threads)
    for i in range(len(threads) - 1, -1, -1):  # samples of a thread stand in order of time
        thread, stands = threads[i], flags[i] & STANDING
        if thread not in looked_for:
            continue
        last = found.get(thread)
        if last is None:
            found[thread] = _Last(thread, keys[i], times[i], weights[i] if stands else 0)
        elif stands and keys[i] == last.key:
            found[thread] = last._replace(stood_ns=last.stood_ns + weights[i])
        if found[thread] is last or not stands:
            looked_for.discard(thread)
            if not looked_for:
                break
    return [found[thread] for thread in sorted(found)]


def _lines(profile: Profile, pattern: Optional[str]) -> Iterator[str]:
    header, lasts = profile.header, _lasts(profile)
    newest = max((last.time_ns for last in lasts), default=0)
    wanted = set(profile.match_threads(pattern))
    what = " ".join(map(str, header.get("argv") or [])) or "a program"
    state = "not ended" if profile.end is None else "ended"
    news = f"the last sample was taken at {(newest - int(header['start_ns'])) / 1e9:.2f} s" if lasts else "no samples yet"
    yield shown(f"{what}: process {header.get('pid', '?')}, {profile.mode} mode, {state}; {news}")
    gone = 0
    for last in lasts:
        if last.thread not in wanted:
            continue
        before = newest - last.time_ns
        if profile.mode == "wall" and before > _GONE_NS:
            gone += 1
            continue
        stood = f"stands here for {duration(last.stood_ns)}" if last.stood_ns else "was running"
        ago = f", {duration(before)} before" if before >= _BEHIND_NS else ""
        yield f"\n{shown(profile.thread_name(last.thread))} ({profile.thread_tid(last.thread) or '?'}): {stood}{ago}"
        for frame in reversed(profile.stack(last.key)):
            yield f"    {place(frame.qualname, frame.file, 0 if frame.native else frame.line)}"
    if gone:
        yield f"\n{gone} thread{'s' if gone > 1 else ''} more, not seen for the last second: ended, or waiting out of sight."
