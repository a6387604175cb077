"""`spprof attach` where there are several processes: a server with its workers, and those of a name."""

import os
import platform
import signal
import subprocess
import sys
import time
import uuid

import pytest
from attached import ATTACH, Program, names

from spprof import Profile

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or (not hasattr(sys, "remote_exec") and platform.machine() != "x86_64"),
    reason="spprof enters on Linux alone, before 3.14 on x86_64 alone",
)
# A server that has two workers, and one more after each line. One of its children is no Python.
# It goes round while it waits: from 3.14 on, what is asked of a thread is done when that thread runs Python.
SERVER = """
import os, select, signal, subprocess, sys
def hot(n): return sum([i * i for i in range(n)])
def fork():
    pid = os.fork()
    if not pid:
        while True: hot(500)
    return pid
workers = [fork(), fork()]
other = subprocess.Popen(["sleep", "1000"])
print(os.getpid(), flush=True)
print(*workers, flush=True)
while True:
    if not select.select([sys.stdin], [], [], 0.01)[0]: continue
    if not sys.stdin.readline(): break
    workers.append(fork())
    print(workers[-1], flush=True)
for pid in (*workers, other.pid): os.kill(pid, signal.SIGKILL)
"""


@pytest.fixture
def server(tmp_path):
    ran = Program(SERVER, tmp_path)
    yield ran
    ran.process.communicate(timeout=60)


def until(holds):
    late = time.monotonic() + 60  # a limit that only a hang reaches
    while not holds():
        assert time.monotonic() < late


def test_a_server_with_its_workers_and_those_of_later(server, tmp_path):
    first = list(map(int, server.process.stdout.readline().split()))
    command = [*ATTACH, str(server.pid), "--subprocesses", "--mode", "wall", "-o", "p.spprof"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as attached:
        assert "is being profiled" in attached.stderr.readline()
        until(lambda: all((tmp_path / f"p.{pid}.spprof").exists() for pid in first))
        server.process.stdin.write("\n")
        server.process.stdin.flush()
        later = int(server.process.stdout.readline())
        # Not only there, but of hundreds of samples: Ctrl-C gives up an attachment that is still under way.
        path = tmp_path / f"p.{later}.spprof"
        until(lambda: path.exists() and path.stat().st_size > 4000)
        attached.send_signal(signal.SIGINT)
        said = attached.stderr.read()
    assert attached.returncode == 0 and "Child processes: 3 files." in said, said
    workers = [*first, later]
    assert sorted(os.listdir(tmp_path)) == sorted(["p.spprof", "program.py", *(f"p.{pid}.spprof" for pid in workers)])
    for pid, path in [(server.pid, "p.spprof"), *((pid, f"p.{pid}.spprof") for pid in workers)]:
        profile = Profile.load(tmp_path / path)
        assert (profile.header["pid"], profile.end["reason"]) == (pid, "stop") and not profile.warning
    assert all("hot" in names(tmp_path / f"p.{pid}.spprof") for pid in first)


def test_another_format_is_one_file_of_all(server, tmp_path):
    workers = list(map(int, server.process.stdout.readline().split()))
    done = server.attach("--subprocesses", "--duration", "1", "-q", "-o", "p.collapsed")
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert sorted(os.listdir(tmp_path)) == ["p.collapsed", "program.py"]
    text = (tmp_path / "p.collapsed").read_text()
    assert all(str(pid) in text for pid in workers)


def test_a_word_of_the_command_line_is_the_process(tmp_path):
    word = f"word-{uuid.uuid4()}"
    text = "while True: sum([i * i for i in range(500)])"
    ran = [subprocess.Popen([sys.executable, "-c", text, word]) for _ in range(2)]
    command = [*ATTACH, word, "--duration", "0.2", "-q", "-o", "p.spprof"]
    try:
        for one in ran:  # until it is Python
            until(lambda one=one: word in open(f"/proc/{one.pid}/cmdline").read())
        done = subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert done.returncode == 2 and f"2 processes have '{word}' in their command lines" in done.stderr, done.stderr
        assert all(f"{one.pid}  " in done.stderr for one in ran) and os.listdir(tmp_path) == []
        ran[0].kill()
        ran[0].wait()
        done = subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and Profile.load(tmp_path / "p.spprof").header["pid"] == ran[1].pid, done.stderr
    finally:
        for one in ran:
            one.kill()
            one.wait()
