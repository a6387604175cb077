"""`spprof ctl`: a window of a running program."""

import os
import platform
import subprocess
import sys

import pytest
from attached import ATTACH, names

from spprof import Profile

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="spprof reaches other processes on Linux alone")
enters = pytest.mark.skipif(
    not hasattr(sys, "remote_exec") and platform.machine() != "x86_64", reason="before 3.14 spprof enters on x86_64 alone"
)

# Its main thread always runs Python, so it can be entered on every version; what it runs is said on stdin.
PHASES = """
import sys, threading
phase = "before"
def read():
    global phase
    for line in sys.stdin: phase = line.strip()
def work(): return sum([i * i for i in range(500)])
def idle(until):
    while phase != until: work()
def unseen():
    for _ in range(3000): work()
def seen():
    import spprof
    before = spprof.stats()["taken"]
    while spprof.stats()["taken"] < before + 20: work()
threading.Thread(target=read, daemon=True).start()
print("ready", flush=True)
for each in unseen, seen:
    idle(each.__name__)
    each()
    print(each.__name__, flush=True)
idle("end")
"""


def ctl(folder, *words):
    command = [sys.executable, "-m", "spprof", "ctl", *map(str, words)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


class Ran:
    """The program under `spprof run`."""

    def __init__(self, folder, listens):
        (folder / "program.py").write_text(PHASES)
        environment = {name: text for name, text in os.environ.items() if name != "SPPROF_LISTEN"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "spprof", "run", "-q", "-o", "p.spprof", "program.py"], cwd=folder, text=True,
            env={**environment, "SPPROF_LISTEN": "1"} if listens else environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert self.process.stdout.readline() == "ready\n", self.process.communicate()

    def does(self, phase):
        self.process.stdin.write(f"{phase}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == f"{phase}\n", self.process.communicate()


@pytest.fixture(params=[pytest.param(True, id="listens"), pytest.param(False, id="enters", marks=enters)])
def ran(request, tmp_path):
    made = Ran(tmp_path, request.param)
    yield made
    made.process.kill()
    made.process.communicate()


def test_a_window_of_a_running_program(ran, tmp_path):
    pid = ran.process.pid
    paused = ctl(tmp_path, "p.spprof", "pause")
    assert (paused.returncode, paused.stdout, paused.stderr) == (0, f"process {pid}: paused\n", "")
    ran.does("unseen")
    resumed = ctl(tmp_path, pid, "resume")
    assert (resumed.returncode, resumed.stdout) == (0, f"process {pid}: resumed\n"), resumed.stderr
    ran.does("seen")
    stopped = ctl(tmp_path, "p.spprof", "stop")
    assert (stopped.returncode, stopped.stdout) == (0, f"process {pid}: stopped\n"), stopped.stderr
    profile = Profile.load(tmp_path / "p.spprof")
    assert profile.end["reason"] == "stop" and not profile.unfinished and ran.process.poll() is None
    found = names(tmp_path / "p.spprof")
    assert "seen" in found and "unseen" not in found
    again = ctl(tmp_path, "p.spprof", "pause")
    assert again.returncode == 2 and "p.spprof: no process writes it any more" in again.stderr
    none = ctl(tmp_path, pid, "pause")
    assert none.returncode == 2 and "no profile is being taken there" in none.stderr
    out, err = ran.process.communicate("end\n", timeout=120)
    assert (ran.process.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize("ran", [pytest.param(True, id="listens")], indirect=True)
def test_another_file_and_what_is_no_file(ran, tmp_path):
    """Of several targets those that can be reached are."""
    (tmp_path / "q.spprof").write_bytes((tmp_path / "p.spprof").read_bytes())
    (tmp_path / "text").write_text("nothing")
    done = ctl(tmp_path, "q.spprof", "text", ran.process.pid, "pause")
    assert done.returncode == 2 and done.stdout == f"process {ran.process.pid}: paused\n"
    assert "q.spprof: no process writes it any more" in done.stderr and "text: not a .spprof file" in done.stderr
    gone = ctl(tmp_path, "gone.spprof", "pause")
    assert gone.returncode == 2 and "spprof: gone.spprof: No such file" in gone.stderr


LISTENS = """
import os, spprof
spprof.listen()
print(os.getpid(), flush=True)
while True: sum([i * i for i in range(500)])
"""


def test_what_attach_takes_is_attachs_to_stop(tmp_path):
    """The one that began it waits for its end."""
    (tmp_path / "program.py").write_text(LISTENS)
    ran = subprocess.Popen([sys.executable, "program.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        pid = int(ran.stdout.readline())
        command = [*ATTACH, str(pid), "-o", "a.spprof"]
        with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as attached:
            assert "is being profiled" in attached.stderr.readline()
            paused, refused = ctl(tmp_path, "a.spprof", "pause"), ctl(tmp_path, "a.spprof", "stop")
            attached.kill()
        assert paused.returncode == 0, paused.stderr
        assert refused.returncode == 2 and "is stopped by what began it" in refused.stderr
    finally:
        ran.kill()
        ran.communicate()


def test_many_are_asked_with_few_descriptors():
    import resource

    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        ran = subprocess.run(
            [sys.executable, "-m", "spprof", "ctl", *[str(other.pid)] * 200, "pause"],
            capture_output=True,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)),
        )
        other.communicate()
    assert ran.returncode == 2 and ran.stderr.count(f"process {other.pid} runs no Python") == 200, ran.stderr
