"""`spprof attach` while a program's main thread is in a call, for as long as the test wants, before it comes to Python again."""

import glob
import os
import platform
import signal
import subprocess
import sys
import time

import pytest
from attached import ATTACH, Program, names

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or (platform.machine() != "x86_64" and not hasattr(sys, "remote_exec")),
    reason="spprof enters processes on Linux alone, before 3.14 on x86_64",
)
VERSION = "{}.{}{}".format(*sys.version_info[:2], "t" if "t" in getattr(sys, "abiflags", "") else "")
# Its main thread is in a call of a library's, without the GIL, until there is a line of input, which it leaves for the end.
PROGRAM = """
import ctypes, os, sys
def hot(n): return sum([i * i for i in range(n)])
class Poll(ctypes.Structure):
    _fields_ = (("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short))
one = Poll(0, 1, 0)
print(os.getpid(), flush=True)
ctypes.CDLL(None).poll(ctypes.byref(one), 1, -1)
while True: hot(500)
"""


@pytest.fixture
def ran(tmp_path):
    one = Program(PROGRAM, tmp_path)
    late = time.monotonic() + 60  # a limit that only a hang reaches
    while not is_in_poll(one):
        assert time.monotonic() < late
    yield one
    one.process.kill()
    one.process.communicate()


def is_in_poll(one):
    with open(f"/proc/{one.pid}/syscall") as file:
        return file.read().split()[0] in ("7", "219", "73")  # x86_64, also taken up again after a stop; ppoll of aarch64


def go_on(one):
    one.process.stdin.write("\n")
    one.process.stdin.flush()


def test_it_is_profiled_when_it_comes(ran, tmp_path):
    command = [*ATTACH, str(ran.pid), "-o", "p.spprof"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as attached:
        said = attached.stderr.readline()
        assert f"the main thread of process {ran.pid} waits in " in said and "waiting until it runs Python code" in said
        assert f"`spprof dump {ran.pid}`" in said and "Ctrl-C gives up" in said
        go_on(ran)
        assert attached.stderr.readline() == f"spprof: process {ran.pid} is being profiled; Ctrl-C ends it\n"
        attached.send_signal(signal.SIGINT)
        said = attached.stderr.read()
        assert attached.wait(60) == 0, said
    assert ran.process.poll() is None and sorted(os.listdir(tmp_path)) == ["p.spprof", "program.py"]


def test_it_is_let_alone_after_ctrl_c(ran, tmp_path):
    """Nothing of the request is run when it comes, and the next attachment finds it as it was."""
    before = ran.state()
    with subprocess.Popen([*ATTACH, str(ran.pid)], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as attached:
        assert "Ctrl-C gives up" in attached.stderr.readline()
        attached.send_signal(signal.SIGINT)
        assert attached.stderr.read() == "spprof: nothing was recorded\n"
    assert attached.returncode == 130 and ran.state() == before
    assert not glob.glob(f"/tmp/spprof-{ran.pid}-*"), "the process may run nothing any more, so nothing is kept for it"
    go_on(ran)
    done = ran.attach("--duration", "0.3", "-q", "-o", "p.spprof")
    assert done.returncode == 0 and "hot" in names(tmp_path / "p.spprof"), done.stderr
    ran.process.kill()
    assert ran.process.communicate() == ("", "")


def test_it_is_not_waited_for_longer_than_it_was_to_be_profiled(ran, tmp_path):
    before = ran.state()
    done = ran.attach("--duration", "0.1")
    assert done.returncode == 2 and f"nothing can be run in process {ran.pid}: its main thread waits in " in done.stderr
    assert ran.state() == before and os.listdir(tmp_path) == ["program.py"]


# Counts how often the process is stopped, a number after each attempt.
COUNTED = """
import sys
from spprof.launching import entering, stopped
count, stop = 0, stopped.Stopped._stop
def counted(self):
    global count
    count += 1
    stop(self)
stopped.Stopped._stop = counted
entered = entering.Entering(int(sys.argv[1]), {version!r}, "script.py")
for _ in sys.stdin:
    does = entered.attempt()
    print(count, entered.begun, does, flush=True)
"""


@pytest.mark.skipif(hasattr(sys, "remote_exec"), reason="3.14 lets others in without a stop")
def test_it_is_not_stopped_again_where_it_was_in_vain(ran, tmp_path):
    (tmp_path / "script.py").write_text("")
    command = [sys.executable, "-c", COUNTED.format(version=VERSION), str(ran.pid)]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as attacher:

        def attempt():
            attacher.stdin.write("\n")
            count, begun, *does = attacher.stdout.readline().split()
            return int(count), begun == "True", " ".join(does)

        first = attempt()
        assert first[0] == 1 and not first[1] and "waits in poll, called by lib" in first[2]
        late = time.monotonic() + 60
        while not is_in_poll(ran):  # again, after the stop
            assert time.monotonic() < late
        assert [attempt() for _ in range(20)] == [first] * 20
        go_on(ran)
        late = time.monotonic() + 60
        while not (now := attempt())[1]:
            assert time.monotonic() < late
        assert now[0] > 1
