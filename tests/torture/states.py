"""python -m tests.torture.states: attaches to programs whose main threads are in one of STATES each, and prints a table.

  python -m tests.torture.states --python 3.11,3.15 --only computes,stopped

A program is profiled, or `spprof attach` says why not, and the program goes on. A row is a state, a column an interpreter: `yes`,
or the number of the reason below the table. Exits with 1 where there was neither, or the program did not go on."""

import argparse
import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from .__main__ import environment, interpreters

LATE = 60  # seconds: a limit that only a hang reaches
WAITS = re.compile(r"waiting until it runs Python code")
START = """
import asyncio, ctypes, fcntl, hashlib, os, queue, select, signal, socket, subprocess, sys, threading, time
def sleeper(): time.sleep(1e6)
def hang(thread=sleeper): t = threading.Thread(target=thread, daemon=True); t.start(); return t
print(os.getpid(), flush=True)
"""
STATES = {
    "computes": "while True: sum([i * i for i in range(500)])",
    "time.sleep": "time.sleep(1e6)",
    "Event.wait": "threading.Event().wait()",
    "Lock.acquire": "lock = threading.Lock(); lock.acquire(); lock.acquire()",
    "Thread.join": "hang().join()",
    "Queue.get": "queue.Queue().get()",
    "select": "select.select([0], [], [])",
    "poll": "p = select.poll(); p.register(0, select.POLLIN); p.poll()",
    "epoll": "p = select.epoll(); p.register(0, select.EPOLLIN); p.poll()",
    "asyncio": "asyncio.run(asyncio.sleep(1e5))",
    "os.read": "os.read(0, 1)",
    "readline": "sys.stdin.readline()",
    "recv": "pair = socket.socketpair(); pair[0].recv(1)",
    "accept": "s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); s.accept()",
    "waitpid": "p = subprocess.Popen(['sleep', '1000']); os.waitpid(p.pid, 0)",
    "sigwait": "signal.sigwait([signal.SIGUSR1])",
    "C, no GIL, waits": "ctypes.CDLL(None).pause()",
    "C, no GIL, runs": "b = bytes(1 << 28)\nwhile True: hashlib.sha256(b)",
    "C, GIL, waits": "ctypes.PyDLL(None).pause()",
    "C, GIL, runs": "sum(range(1 << 60))",
    "stopped": "os.kill(os.getpid(), signal.SIGSTOP)\nwhile True: sum(range(500))",
}


def attach(python, pid, folder):
    """What it said, and its exit status; given up by Ctrl-C when it says that it waits."""
    words = [python, "-m", "spprof", "attach", str(pid), "-q", "--mode", "wall", "--duration", "0.1", "--force", "-o"]
    process = subprocess.Popen(
        [*words, str(Path(folder) / "p.spprof")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=environment(python, {}),
    )
    said, late, given_up = "", time.monotonic() + LATE, False
    with selectors.DefaultSelector() as ready:
        ready.register(process.stderr, selectors.EVENT_READ)
        while ready.select(max(0, late - time.monotonic())):
            data = os.read(process.stderr.fileno(), 4096)
            said += data.decode()
            if not data:
                break
            if WAITS.search(said) and not given_up:
                given_up = True
                process.send_signal(signal.SIGINT)
    if time.monotonic() >= late:
        process.kill()
        said += " (hung)"
    process.stderr.close()
    return said.strip(), process.wait()


def seen(process):
    """Whether it is stopped, and the tracer of it; None: it has ended."""
    if process.poll() is not None:
        return None
    with open(f"/proc/{process.pid}/status") as file:
        lines = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    return lines["State"][0] in "tT", lines["TracerPid"]


def one(python, text):
    """'yes', or why not; and whether that is all right."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [python, "-c", START + text], stdin=pipe, stdout=pipe, text=True, start_new_session=True, env=environment(python, {})
    )
    try:
        process.stdout.readline()
        time.sleep(0.2)  # it is in its state then, or on its way to it, where it can be attached to as well
        before = seen(process)
        with tempfile.TemporaryDirectory() as folder:
            said, status = attach(python, process.pid, folder)
        on = before is not None and seen(process) == before
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    if not on:
        return f"the program did not go on: {said}", False
    if status == 0:
        return "yes" if not said else f"yes, but: {said}", not said
    why = re.sub(r"\b\d{2,}\b", "N", said.split("\n")[0])
    return why, status in (2, 130) and bool(why) and "hung" not in said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", metavar="NAME,...", help="interpreters (default: all that tools/matrix built)")
    parser.add_argument("--only", metavar="STATE,...", help="of: " + ", ".join(STATES))
    options = parser.parse_args()
    pythons = interpreters(options.python)
    reasons, wrong = [], 0
    print("| the main thread |", " | ".join(pythons), "|")
    print("|---|" + "---|" * len(pythons), flush=True)
    for name in options.only.split(",") if options.only else STATES:
        row = []
        for python in pythons.values():
            found, right = one(str(python), STATES[name])
            wrong += not right
            if found != "yes" and found not in reasons:
                reasons.append(found)
            row.append("yes" if found == "yes" else f"{'' if right else 'WRONG '}({reasons.index(found) + 1})")
        print(f"| {name} |", " | ".join(row), "|", flush=True)
    for number, reason in enumerate(reasons, 1):
        print(f"({number}) {reason}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
