"""python -m tests.torture.attaching: attaches to programs again and again, and looks whether they notice.

  python -m tests.torture.attaching --times 1000              shared out over the interpreters of tools/matrix
  python -m tests.torture.attaching --python 3.13t --times 20 --only served
  python -m tests.torture.attaching --only threads,signals    torture cases by name

A server (served.py) under load, whose answers are checked, is entered, or listens (SPPROF_LISTEN=1). After each attachment it
must have the descriptors, threads, signals, timers and hooks that it had, and take no ticks. A torture case (cases/) must have
the result and the exit status that it has alone; it may refuse an attachment while it has no line of Python to run, or ends.
Each interpreter's figures are a line of JSON in build/torture/attaching.jsonl. Exits with 1 if anything was wrong."""

import argparse
import json
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from .__main__ import HERE, ROOT, environment, facts, interpreters, lacks
from .process import finish

LOG = ROOT / "build" / "torture" / "attaching.jsonl"
LATE = 60  # seconds: a limit that only a hang reaches
CLIENTS = 4
SERVED_SHARE = 0.6  # of the attachments
# Cases whose processes end, or become other programs, as soon as they begin; greenlets and so on are as the rest here.
CASES = "callbacks calls crowd cstack foreign forks interps shared signals threads".split()
REFUSALS = (
    "nothing can be run in process",
    "has ended",
    "cannot be stopped",
    "there is no process",
    "did not answer",
    "runs no Python",
)
MODES = ([], ["--mode", "wall"], ["--native"], ["--rate", "10000"])


def attach(python, pid, folder, duration, more):
    """Returns (exit status, what it said, seconds)."""
    path = Path(folder) / "p.spprof"
    words = [python, "-m", "spprof", "attach", str(pid), "-q", "--force", "--duration", str(duration), "-o", str(path), *more]
    began = time.monotonic()
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, env=environment(python, {})
    )
    status, _, said = finish(process, LATE)
    return status, said.strip(), time.monotonic() - began


def outside(pid):
    """What an attachment may not change, as the system sees it."""
    tasks = f"/proc/{pid}/task"
    with open(f"/proc/{pid}/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    with open(f"/proc/{pid}/timers") as file:
        timers = file.read()
    return {
        "files": {fd: os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")},
        "threads": sorted(open(f"{tasks}/{tid}/comm").read() for tid in os.listdir(tasks)),
        "timers": timers,
        **{name: lines[name] for name in ("SigBlk", "SigIgn", "SigCgt", "TracerPid")},
    }


def expected(n):
    return sum([i * i % 7 for i in range(n)])


class Server:
    """One that answers CLIENTS clients; `wrong`: what they heard that was not so."""

    def __init__(self, python, listens):
        more = {"SPPROF_LISTEN": "1"} if listens else {}
        self.process = subprocess.Popen(
            [python, HERE / "served.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env=environment(python, more),
        )
        self.pid, port = map(int, self.process.stdout.readline().split())
        self.wrong, self.answers, self.ended = [], 0, False
        sockets = [socket.create_connection(("127.0.0.1", port), LATE) for _ in range(CLIENTS + 1)]
        with sockets.pop() as one:
            self.control = one.makefile("rw")
        self.threads = [threading.Thread(target=self.ask, args=(one, i)) for i, one in enumerate(sockets)]
        for one in self.threads:
            one.start()

    def ask(self, connection, seed):
        draw = random.Random(seed)
        try:
            with connection, connection.makefile("rw") as file:
                while not self.ended:
                    n = draw.randrange(2000)
                    file.write(f"{draw.choice(('here', 'thread'))} {n}\n")
                    file.flush()
                    said = file.readline()
                    self.answers += 1
                    if said != f"{expected(n)}\n":
                        self.wrong.append(f"answer {said!r} for {n}")
                        return
                    time.sleep(0.005)
        except OSError as error:
            self.wrong.append(f"a client: {error}")

    def inside(self):
        self.control.write("state\n")
        self.control.flush()
        return json.loads(self.control.readline())

    def settled(self, before):
        """Its state, when it is as before, or as it is when it never will be."""
        late = time.monotonic() + LATE
        while outside(self.pid) != before and time.monotonic() < late:
            time.sleep(0.01)
        return outside(self.pid)

    def close(self):
        self.ended = True
        for one in self.threads:
            one.join()
        self.control.close()
        self.process.stdin.close()
        self.process.stdin = None
        status, _, errors = finish(self.process, LATE)
        if status != 0 or errors:
            self.wrong.append(f"it ended with {status}: {errors[-2000:]}")


def differences(before, after):
    return [f"{name}: {before[name]} became {after[name]}" for name in before if before[name] != after[name]]


def served(python, times, folder, tally):
    """A server that is entered, and one that listens: each a half."""
    for listens in (False, True):
        server = Server(python, listens)
        way = "listens" if listens else "entered"
        try:
            for more in MODES[:2]:  # what stays for good is there then: its modules
                attach(python, server.pid, folder, 0.05, more)
            time.sleep(1)
            before, hooks = outside(server.pid), server.inside()
            del hooks["stats"]
            for i in range(times // 2):
                status, said, seconds = attach(python, server.pid, folder, 0.05, MODES[i % len(MODES)])
                tally.took[way].append(seconds)
                if status != 0 or said:
                    tally.wrong.append(f"{way}: status {status}: {said}")
                tally.wrong += differences(before, server.settled(before))
                after, again = server.inside(), server.inside()
                if after["stats"] != again["stats"]:
                    tally.wrong.append(f"{way}: it goes on counting")
                del after["stats"]
                tally.wrong += differences(hooks, after)
                if server.wrong or server.process.poll() is not None:
                    break
        finally:
            server.close()
        tally.counts[f"answers, {way}"] += server.answers
        tally.wrong += [f"{way}: {one}" for one in server.wrong]


def run_case(python, name, units, said, attaching=None):
    """Runs it alone, or with `attaching(pid)` called until it has ended. Returns (status, what it said of its result, errors)."""
    case = HERE / "cases" / f"{name}.py"
    process = subprocess.Popen(
        [python, HERE / "driver.py", case, "-", "cpu", "1", str(units), "auto"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment(python, said.get("ENV", {})),
    )
    if attaching:
        attacher = threading.Thread(target=attaching, args=(process,))
        attacher.start()
    status, text, errors = finish(process, LATE * 3)
    if attaching:
        attacher.join()
    return status, text, errors.replace(str(process.pid), "PID")  # in a warning of forks


def case(python, name, interpreter, times, folder, tally):
    said = facts(HERE / "cases" / f"{name}.py")
    if interpreter in said.get("NOT_ON", ()) or lacks(python, said.get("NEEDS", ())):
        return
    units, took = 1, 0.0
    while took < 2 and units < 1 << 12:  # long enough to be attached to
        units *= 2
        began = time.monotonic()
        alone = run_case(python, name, units, said)
        took = time.monotonic() - began
    left = times

    def attaching(process):
        nonlocal left
        while left > 0 and process.poll() is None:
            left -= 1
            status, words, seconds = attach(python, process.pid, folder, 0.1, MODES[left % len(MODES)])
            if status == 0:
                tally.took["case"].append(seconds)
            elif status == 2 and any(one in words for one in REFUSALS):
                tally.counts[f"refused: {name}"] += 1
            else:
                tally.wrong.append(f"{name}: status {status}: {words}")

    while left > 0 and not tally.is_over():
        with_it = run_case(python, name, units, said, attaching)
        if with_it != alone:
            tally.wrong.append(f"{name}, {units} units: {alone} became {with_it}")
            return


class Tally:
    """What came of one interpreter's attachments."""

    def __init__(self, seconds):
        self.took = {"entered": [], "listens": [], "case": []}
        self.wrong, self.counts, self.until = [], Counter(), time.monotonic() + seconds

    def is_over(self):
        return len(self.wrong) > 20 or time.monotonic() > self.until

    def figures(self):
        took = {
            way: {"n": len(all_), "median": round(statistics.median(all_), 3), "most": round(max(all_), 3)}
            for way, all_ in self.took.items()
            if all_
        }
        return {"took": took, **self.counts, "wrong": self.wrong[:20]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", metavar="NAME,...", help="interpreters (default: all that tools/matrix built)")
    parser.add_argument("--times", type=int, default=1000, help="attachments in all (default 1000)")
    parser.add_argument("--only", default=",".join(["served", *CASES]), metavar="NAME,...", help="served, and torture cases")
    options = parser.parse_args()
    chosen, names = interpreters(options.python), options.only.split(",")
    cases = [name for name in names if name != "served"]
    LOG.parent.mkdir(parents=True, exist_ok=True)
    failed = 0
    for interpreter, python in chosen.items():
        each = max(2, options.times // len(chosen))
        tally = Tally(20 * each)
        of_server = round(each * (SERVED_SHARE if cases else 1)) if "served" in names else 0
        with tempfile.TemporaryDirectory() as folder:
            if of_server:
                served(str(python), max(2, of_server), folder, tally)
            for i, name in enumerate(cases):
                share = (each - of_server) * (i + 1) // len(cases) - (each - of_server) * i // len(cases)
                if share and not tally.is_over():
                    case(str(python), name, interpreter, share, folder, tally)
        figures = {"python": interpreter, **tally.figures()}
        print(json.dumps(figures), flush=True)
        with LOG.open("a") as file:
            file.write(json.dumps(figures) + "\n")
        failed += bool(tally.wrong)
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
