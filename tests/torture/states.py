"""python -m tests.torture.states: attaches to programs that are in one of STATES each, and prints a table.

  python -m tests.torture.states --python 3.11,3.15 --only computes,stopped

A program is profiled, or `spprof attach` says why not, and the program goes on. A row is a state, a column an interpreter: `yes`,
or the number of the reason below the table. Exits with 1 where there was neither, or the program did not go on."""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from .__main__ import environment, interpreters

LATE = 60  # seconds: a limit that only a hang reaches
START = """
import asyncio, ctypes, fcntl, hashlib, os, queue, select, signal, socket, subprocess, sys, threading, time
def sleeper(): time.sleep(1e6)
def hang(thread=sleeper): t = threading.Thread(target=thread, daemon=True); t.start(); return t
def ready(os=os): print(os.getpid(), flush=True)
def compute():
    while True: sum(range(500))
def child(body):
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        ready()
        os.write(writing, b"!")
        body()
    os.read(reading, 1)
    return pid
def trace(pid, stops):
    libc = ctypes.CDLL(None)
    assert libc.ptrace(0x4206, pid, None, None) == 0  # PTRACE_SEIZE
    if stops:
        assert libc.ptrace(0x4207, pid, None, None) == 0  # PTRACE_INTERRUPT
        os.waitpid(pid, 0x40000000)
        time.sleep(1e6)
    while True: libc.ptrace(7, pid, None, os.WSTOPSIG(os.waitpid(pid, 0x40000000)[1]))  # PTRACE_CONT, with its signal
"""
SITE, NAMESPACE = "before the main module", "in namespaces of its own"
# One that does not say itself when it is ready is so at once.
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
    "stopped": "os.kill(os.getpid(), signal.SIGSTOP)\ncompute()",
    "traced": "trace(child(compute), False)",
    "stopped by its tracer": "trace(child(compute), True)",
    "a fork's child": "child(compute)\nos.wait()",
    "in preexec_fn": "subprocess.run(['true'], preexec_fn=lambda: (ready(), compute()))",
    "in atexit": "import atexit\natexit.register(lambda: (ready(), compute()))",
    "in finalization": "class Last:\n  def __del__(self, ready=ready, compute=compute): ready(); compute()\nlast = Last()",
    SITE: "ready()\ncompute()",
    NAMESPACE: "compute()",
}


def attach(python, pid, folder):
    """What it said, and its exit status."""
    words = [python, "-m", "spprof", "attach", str(pid), "-q", "--mode", "wall", "--duration", "0.1", "--force", "-o"]
    process = subprocess.Popen(
        [*words, str(Path(folder) / "p.spprof")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment(python, {}),
    )
    try:
        said = process.communicate(timeout=LATE)[1]
    except subprocess.TimeoutExpired:
        process.kill()
        said = process.communicate()[1] + " (hung)"
    return said.strip(), process.returncode


def start(python, name, folder):
    """A program in one of STATES, and the number of the process that is in it; 0: that is not allowed here."""
    text = START + ("" if "ready()" in STATES[name] or "child(" in STATES[name] else "ready()\n") + STATES[name]
    command, more = [python, "-c", text], {}
    if name == SITE:
        (folder / "sitecustomize.py").write_text(text)
        command, more = [python, "-c", ""], {"PYTHONPATH": str(folder)}
    if name == NAMESPACE:
        command = ["unshare", "-mpf", "--mount-proc", *command]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True, env=environment(python, more)
    )
    line = process.stdout.readline()
    if name == NAMESPACE and line:
        with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
            line = file.read()
    return process, int(line or 0)


def seen(pid):
    """Whether it is stopped, and the tracer of it; None: it has ended."""
    try:
        with open(f"/proc/{pid}/status") as file:
            lines = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    except FileNotFoundError:
        return None
    return None if lines["State"][0] in "ZX" and lines["Threads"] == "1" else (lines["State"][0] in "tT", lines["TracerPid"])


def one(python, name):
    """'yes', or why not; and whether that is all right."""
    with tempfile.TemporaryDirectory() as folder:
        process, pid = start(python, name, Path(folder))
        try:
            if not pid:
                return "not allowed here", name == NAMESPACE
            time.sleep(0.2)  # it is in its state then, or on its way to it, where it can be attached to as well
            before = seen(pid)
            said, status = attach(python, pid, folder)
            on = before is not None and seen(pid) == before
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            printed = process.communicate()
    if not on or printed[1]:
        return f"the program did not go on: {said} {printed[1]}", False
    if status == 0:
        return "yes" if not said else f"yes, but: {said}", not said
    why = re.sub(r"\b\d{2,}\b", "N", said.split("\n")[0])
    return why, status == 2 and bool(why) and "Traceback" not in said and "hung" not in said


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
            found, right = one(str(python), name)
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
