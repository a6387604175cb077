"""`spprof attach` by an interpreter of the process's own version, and of a process that does not see what we see."""

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from attached import ATTACH, Program

import spprof
from spprof import Profile
from spprof.launching import otherwise

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="spprof attaches on Linux alone")
TEXT = """
import os
def hot(n): return sum([i * i for i in range(n)])
print(os.getpid(), flush=True)
while True: hot(500)
"""
# An interpreter that takes itself for one of another version.
OTHER = """
import sys
from spprof.launching import connecting
connecting.own_version = lambda: "another"
from spprof.cli import main
sys.exit(main())
"""
BAD = OTHER.replace("import connecting\n", "import connecting, otherwise\notherwise._interpreter = lambda *_: ({!r}, {{}})\n")
LIMITS = "otherwise._ANSWER_S = otherwise._END_S = 0.1\n"
# A mount namespace where neither our package nor our temporary files are.
HIDES = 'mount -t tmpfs none /tmp && { [ ! -d "$0" ] || mount -t tmpfs none "$0"; } && cd / && exec "$1" -c "$2"'


def is_profiled(command, pid, folder, known_as):
    path = folder / "p.spprof"
    done = subprocess.run(
        [*command, str(pid), "--duration", "0.2", "--force", "-q", "-o", path],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    profile = Profile.load(path)
    assert (profile.header["pid"], profile.end["reason"]) == (known_as, "stop") and not profile.warning


@pytest.fixture
def program(tmp_path):
    ran = Program(TEXT, tmp_path)
    yield ran
    ran.process.kill()
    ran.process.communicate()


def test_by_another_interpreter_of_its_version(program, tmp_path):
    command = [sys.executable, "-c", OTHER, "attach"]
    is_profiled(command, program.pid, tmp_path, program.pid)
    before = program.idle_state()
    is_profiled(command, program.pid, tmp_path, program.pid)
    assert program.idle_state() == before
    assert sorted(os.listdir(tmp_path)) == ["p.spprof", "program.py"]


def test_an_interpreter_that_does_not_work_changes_nothing(program, tmp_path):
    (tmp_path / "bad").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bad").chmod(0o755)
    bad = BAD.format(str(tmp_path / "bad"))
    before = program.state()
    done = subprocess.run(
        [sys.executable, "-c", bad, "attach", str(program.pid)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "bad does not work as Python" in done.stderr, done.stderr
    assert program.state() == before and sorted(os.listdir(tmp_path)) == ["bad", "program.py"]


STUCK = {
    "silent": ("exec sleep 1000", "bad, by which process {} is to be entered, has not answered within 0.1 s"),
    "endless": ("exec cat /dev/zero", "bad does not work as Python"),
    "without a line": ("printf '{{'; exec sleep 1000", "has not answered within 0.1 s"),
    "no end": ('read word; echo \'{{"error": "so"}}\'; exec sleep 1000', "so\n"),
}


@pytest.mark.parametrize("does", STUCK)
def test_an_interpreter_that_is_stuck_is_not_waited_for(does, program, tmp_path):
    """Its process, which writes its number, is not there any more when the command has ended."""
    text, said = STUCK[does]
    (tmp_path / "bad").write_text(f"#!/bin/sh\necho $$ > number\n{text.format()}\n")
    (tmp_path / "bad").chmod(0o755)
    bad = BAD.format(str(tmp_path / "bad")).replace("connecting.own", LIMITS + "connecting.own")
    before = program.state()
    done = subprocess.run(
        [sys.executable, "-c", bad, "attach", str(program.pid)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2 and said.format(program.pid) in done.stderr, done.stderr
    assert not os.path.exists(f"/proc/{int((tmp_path / 'number').read_text())}")
    assert program.state() == before and sorted(os.listdir(tmp_path)) == ["bad", "number", "program.py"]


def test_root_runs_no_file_that_others_could_have_written(tmp_path):
    (tmp_path / "python3").write_text("")
    os.chmod(tmp_path / "python3", 0o777)
    assert not otherwise._is_roots(str(tmp_path / "python3"))
    if os.stat("/bin/sh").st_uid == 0:
        assert otherwise._is_roots(os.path.realpath("/bin/sh"))


def test_in_another_container(tmp_path):
    if (
        os.geteuid() != 0
        or shutil.which("unshare") is None
        or subprocess.run(["unshare", "-mpf", "true"], check=False).returncode
    ):
        pytest.skip("namespaces can be made by root alone")
    python = os.path.realpath(getattr(sys, "_base_executable", sys.executable))  # an environment of its own may be in /tmp
    if python.startswith("/tmp/"):
        pytest.skip("the interpreter is among the files that are hidden")
    package = os.path.dirname(spprof.__file__)
    command = ["unshare", "-mpf", "--mount-proc", "sh", "-c", HIDES, package, python, TEXT]
    pid = None
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as namespace:
        try:
            assert namespace.stdout.readline() == "1\n"
            with open(f"/proc/{namespace.pid}/task/{namespace.pid}/children") as file:
                (pid,) = map(int, file.read().split())
            assert not os.path.exists(f"/proc/{pid}/root{package}/__init__.py")
            for way in (ATTACH, ATTACH, [sys.executable, "-c", OTHER, "attach"]):  # the second time its first copy is gone
                is_profiled(way, pid, tmp_path, 1)
                late = time.monotonic() + 60  # a limit that only a hang reaches
                while os.listdir(f"/proc/{pid}/root/tmp"):
                    assert time.monotonic() < late
        finally:
            namespace.kill()
            if pid is not None:
                os.kill(pid, signal.SIGKILL)


def test_ctrl_c_is_heard_before_the_answer_of_another_interpreter(program, tmp_path):
    """One that never answers. What is waited for afterwards is its end."""
    os.mkfifo(tmp_path / "asked")
    (tmp_path / "bad").write_text("#!/bin/sh\nread word; echo > asked; exec sleep 1000\n")
    (tmp_path / "bad").chmod(0o755)
    bad = BAD.format(str(tmp_path / "bad")).replace(
        "connecting.own", "otherwise._ANSWER_S, otherwise._END_S = 1e6, 0.1\nconnecting.own"
    )
    before = program.state()
    attached = subprocess.Popen(
        [sys.executable, "-c", bad, "attach", str(program.pid)], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    (tmp_path / "asked").read_text()
    attached.send_signal(signal.SIGINT)
    said = attached.communicate(timeout=120)[1]
    assert (attached.returncode, said) == (130, "spprof: nothing was recorded\n")
    assert program.state() == before and sorted(os.listdir(tmp_path)) == ["asked", "bad", "program.py"]
