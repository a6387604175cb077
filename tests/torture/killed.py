"""python -m tests.torture.killed: kills `spprof attach` at each of its steps, and looks whether the program notices.

  python -m tests.torture.killed --python 3.11,3.14 --times 50
  python -m tests.torture.killed --only "the first samples,the end was asked for"

The program is a server under load (served.py), which is entered, or listens from the step on at which it is asked. After each
death its descriptors, threads, signals, timers and hooks must be as before, and it must take no ticks. The next attachment must
work, and nothing may be left then where files are given to processes. The profile of one that was killed after its first samples
has samples and an end. The server's answers are checked all the time, and it ends as it would. Each interpreter's figures are a
line of JSON in build/torture/killed.jsonl. Exits with 1 if anything was wrong, or a step was not come to."""

import argparse
import glob
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from .__main__ import ROOT, environment, interpreters
from .attaching import LATE, Server, attach, differences, outside

LOG = ROOT / "build" / "torture" / "killed.jsonl"
# An attachment that kills itself before or after its first call of one of its functions.
DIES = """
import importlib, os, signal, sys
module, name, when = sys.argv[1:4]
sys.argv[1:4] = []
owner = importlib.import_module(module)
*outer, name = name.split(".")
for one in outer:
    owner = getattr(owner, one)
whole = getattr(owner, name)
def dies(*arguments, **named):
    if when == "after":
        whole(*arguments, **named)
    os.kill(os.getpid(), signal.SIGKILL)
setattr(owner, name, dies)
from spprof.cli import main
sys.exit(main())
"""
# Whether a profile has samples, and how it ends.
READS = """
import sys
from spprof import Profile
profile = Profile.load(sys.argv[1])
print(len(profile) > 0, (profile.end or {}).get("reason"))
"""
CONNECTING, ENTERING, ATTACH = "spprof.launching.connecting", "spprof.launching.entering", "spprof.launching.attach"
BEFORE_314, SINCE_314 = "before 3.14", "since 3.14"
# The function, when, and which interpreters have the step.
ENTERS = {
    "its folder is made": ("spprof.launching.given", "make", "after", ""),
    "before the request": (ENTERING, "Entering.attempt", "before", BEFORE_314),
    "the process is stopped": ("spprof.launching.stopped", "Stopped._stop", "after", BEFORE_314),
    "the call is written": ("spprof.launching.pending", "Call.put", "after", BEFORE_314),
    "the main thread is led to it": ("spprof.launching.waking", "wake", "after", BEFORE_314),
    "after the request": (ENTERING, "Entering.attempt", "after", BEFORE_314),
    "before remote_exec": ("sys", "remote_exec", "before", SINCE_314),
    "after remote_exec": ("sys", "remote_exec", "after", SINCE_314),
    "it has connected": (CONNECTING, "Way._come", "after", ""),
    "the call is forgotten": ("spprof.launching.pending", "Call.forget", "after", BEFORE_314),
}
ASKS = {
    "before it is asked": (ATTACH, "Attachment._ask", "before", ""),
    "it is asked": (CONNECTING, "answer", "before", ""),
    "it has begun": (ATTACH, "Attachment._ask", "after", ""),
    "the first samples": (ATTACH, "Attach._wait", "after", ""),
    "the end was asked for": (ATTACH, "answer", "before", ""),
    "the end": (ATTACH, "Attachment.end", "after", ""),
    "the file is written": ("spprof.files.output", "Output._put", "before", ""),
    "the file is there": ("spprof.files.output", "Output._put", "after", ""),
    "what was given is removed": (ATTACH, "Attachment.clear", "before", ""),
}
HAS_SAMPLES = list(ASKS)[3:]
# `Call.forget` is called in a child of the attachment's: that dies, and the attachment goes on.
GOES_ON = ("the call is forgotten",)


def steps_of(python, listens):
    enters = subprocess.run([python, "-c", "import sys; print(hasattr(sys, 'remote_exec'))"], capture_output=True, text=True)
    lacks = BEFORE_314 if enters.stdout == "True\n" else SINCE_314
    return {name: step for name, step in (ASKS if listens else {**ENTERS, **ASKS}).items() if step[3] != lacks}


def kill(python, pid, folder, step):
    """Its exit status, and what it said."""
    words = [python, "-c", DIES, *step[:3], "attach", str(pid), "-q", "--duration", "0.3", "-o", str(Path(folder) / "p.html")]
    done = subprocess.run(
        words, capture_output=True, text=True, start_new_session=True, env=environment(python, {}), timeout=LATE, check=False
    )
    return done.returncode, done.stderr.strip()


def is_as(server, before, hooks):
    """What differs from before, when nothing does or nothing ever will."""
    late = time.monotonic() + LATE
    while True:
        try:
            after, inside = outside(server.pid), server.inside()
        except (FileNotFoundError, ProcessLookupError):  # a descriptor or a thread of the profile's ended while we looked
            if server.process.poll() is not None:
                return ["the program has ended"]
            continue
        counted = inside.pop("stats")
        found = differences(before, after) + differences(hooks, inside)
        if not found and server.inside()["stats"] != counted:
            found = ["it goes on counting"]
        if not found or time.monotonic() > late:
            return found
        time.sleep(0.01)


def left(pid):
    return glob.glob(f"/tmp/spprof-{pid}-*")


def next_works(python, server, folder):
    """What is wrong with the attachments that follow. One that is killed before its script is run leaves that, for the process
    to find: it is gone when the process has run it, and its folder with the next attachment."""
    late = time.monotonic() + LATE
    while True:
        status, said, _ = attach(python, server.pid, folder, 0.05, [])
        if status != 0 or said:
            return [f"the next attachment: status {status}: {said}"]
        if not left(server.pid):
            return []
        if time.monotonic() > late:
            return [f"there is {left(server.pid)}"]


def profile_of(python, folder, name):
    """What is wrong with the profile that one has left, which is beside the file that it would have made."""
    found = sorted(Path(folder).glob("*.spprof"))
    if name not in HAS_SAMPLES or (not found and name in HAS_SAMPLES[-2:]):  # made into the other, and removed
        return []
    if len(found) != 1:
        return [f"it left {sorted(path.name for path in Path(folder).iterdir())}"]
    done = subprocess.run([python, "-c", READS, found[0]], capture_output=True, text=True, check=False)
    return [] if done.stdout == "True stop\n" else [f"its profile: {done.stdout}{done.stderr}"]


def turn(python, server, name, step, before, hooks):
    """What is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        status, said = kill(python, server.pid, folder, step)
        wrong = [] if status == (0 if name in GOES_ON else -signal.SIGKILL) and not said else [f"status {status}: {said}"]
        wrong += is_as(server, before, hooks)
        wrong += profile_of(python, folder, name) if not wrong else []
    with tempfile.TemporaryDirectory() as folder:
        wrong += next_works(python, server, folder)
    return wrong + is_as(server, before, hooks)


def check(python, times, only):
    """Problems, and how often there was each step."""
    wrong, counts = [], Counter()
    ways = [(listens, name, step) for listens in (False, True) for name, step in steps_of(python, listens).items()]
    ways = [way for way in ways if not only or way[1] in only]
    for listens in sorted({way[0] for way in ways}):
        mine = [way for way in ways if way[0] == listens]
        turns = max(len(mine), round(times * len(mine) / len(ways)))
        server = Server(python, listens)
        try:
            with tempfile.TemporaryDirectory() as folder:  # what stays for good is there then: its modules
                attach(python, server.pid, folder, 0.05, [])
            time.sleep(1)
            before, hooks = outside(server.pid), server.inside()
            del hooks["stats"]
            for i in range(turns):
                _, name, step = mine[i % len(mine)]
                counts["listens" if listens else "entered"] += 1
                began = time.monotonic()
                found = turn(python, server, name, step, before, hooks)
                wrong += [f"{name}: {one}" for one in found]
                print(f"{name}: {'; '.join(found) or 'ok'} ({time.monotonic() - began:.1f} s)", file=sys.stderr, flush=True)
                if server.wrong or server.process.poll() is not None or len(wrong) > 20:
                    break
        finally:
            server.close()
        counts["answers"] += server.answers
        wrong += server.wrong
    return wrong, counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", metavar="NAME,...", help="interpreters (default: all that tools/matrix built)")
    parser.add_argument("--times", type=int, default=50, help="deaths, of each interpreter (default 50; each step once at least)")
    parser.add_argument("--only", metavar="STEP,...", help="of: " + ", ".join({**ENTERS, **ASKS}))
    options = parser.parse_args()
    chosen, failed = interpreters(options.python), 0
    LOG.parent.mkdir(parents=True, exist_ok=True)
    for interpreter, python in chosen.items():
        wrong, counts = check(str(python), options.times, (options.only or "").split(",") if options.only else [])
        figures = {"python": interpreter, **counts, "wrong": wrong[:20]}
        print(json.dumps(figures), flush=True)
        with LOG.open("a") as file:
            file.write(json.dumps(figures) + "\n")
        failed += bool(wrong)
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
