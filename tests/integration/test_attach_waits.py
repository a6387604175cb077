"""`spprof attach` while a program's main thread is in a call, for as long as the test wants, before it comes to Python again."""

import glob
import os
import platform
import signal
import subprocess
import sys
import time

import pytest
from attached import ATTACH, Program, names, status

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

SLOW = """
import os, sys, time
def late(event, arguments):
    if event == "os.remove" and "/spprof-" in str(arguments[0]): time.sleep(2.5)
def hot(n): return sum([i * i for i in range(n)])
sys.addaudithook(late)
print(os.getpid(), flush=True)
while True: hot(500)
"""


@pytest.fixture
def started(tmp_path):
    """A program in poll()."""
    programs = []

    def start(text):
        programs.append(Program(text, tmp_path))
        late = time.monotonic() + 60  # a limit that only a hang reaches
        while text in (PROGRAM, STARVED) and not is_in_poll(programs[-1]):
            assert time.monotonic() < late
        return programs[-1]

    yield start
    for one in programs:
        one.process.kill()
        one.process.communicate()


@pytest.fixture
def ran(started):
    return started(PROGRAM)


_POLLS = ("7", "219", "73")  # x86_64, also taken up again after a stop; ppoll of aarch64


def is_in_poll(one):
    """One of its threads."""
    for tid in os.listdir(f"/proc/{one.pid}/task"):
        with open(f"/proc/{one.pid}/task/{tid}/syscall") as file:
            if file.read().split()[0] in _POLLS:
                return True
    return False


def go_on(one):
    one.process.stdin.write("\n")
    one.process.stdin.flush()


def profiled(attached, one):
    """Ends the attachment when it profiles the program; what it says then. On a busy machine it may say before that it waits."""
    said = ""
    while f"spprof: process {one.pid} is being profiled; Ctrl-C ends it\n" not in said:
        line = attached.stderr.readline()
        assert line, said
        said += line
    attached.send_signal(signal.SIGINT)
    return attached.stderr.read()


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


@pytest.mark.skipif(hasattr(sys, "remote_exec"), reason="with 3.14's own way it is not known that it has begun")
def test_what_it_has_begun_is_waited_for(started, tmp_path):
    """The thread that runs the script comes late: after more than the patience with the main thread."""
    ran = started(SLOW)
    done = ran.attach("--duration", "0.1", "-o", "p.spprof")
    assert done.returncode == 0 and "has run what it was given" in done.stderr and "hot" in names(tmp_path / "p.spprof"), (
        done.stderr
    )


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


# A thread that is not the main one keeps the GIL in C code until there is a line of input, so that the main thread waits for it.
STARVED = (
    PROGRAM.split("print(")[0]
    + """
import threading
print(os.getpid(), flush=True)
threading.Thread(target=ctypes.PyDLL(None).poll, args=(ctypes.byref(one), 1, -1), daemon=True).start()
while True: hot(500)
"""
)


@pytest.mark.skipif(VERSION.endswith("t"), reason="it has no GIL")
def test_a_main_thread_that_waits_for_the_gil(started, tmp_path):
    ran = started(STARVED)
    before = ran.state()
    with subprocess.Popen([*ATTACH, str(ran.pid), "-o", "p.spprof"], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as attached:
        said = attached.stderr.readline()
        assert f"the main thread of process {ran.pid} " in said and "waiting until it runs Python code" in said
        assert "C code that does not end" not in said
        assert ran.state()[0] == before[0]
        go_on(ran)
        said = profiled(attached, ran)
        assert attached.wait(60) == 0, said
    ran.process.kill()
    assert ran.process.communicate() == ("", "")


def test_a_stopped_process_is_profiled_when_it_goes_on(started, tmp_path):
    ran = started(PROGRAM.replace("ctypes.CDLL(None).poll(ctypes.byref(one), 1, -1)", ""))
    ran.process.send_signal(signal.SIGSTOP)
    late = time.monotonic() + 60
    while not status(ran.pid, ran.pid)["State"].startswith("T"):
        assert time.monotonic() < late
    with subprocess.Popen([*ATTACH, str(ran.pid), "-o", "p.spprof"], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as attached:
        said = attached.stderr.readline()
        assert f"the main thread of process {ran.pid} is stopped, until `kill -CONT`: waiting" in said
        assert status(ran.pid, ran.pid)["State"].startswith("T")
        ran.process.send_signal(signal.SIGCONT)
        said = profiled(attached, ran)
        assert attached.wait(60) == 0, said
    assert ran.process.poll() is None and sorted(os.listdir(tmp_path)) == ["p.spprof", "program.py"]


def test_a_process_whose_main_thread_has_ended_is_said_to_be_one(started):
    ran = started(
        PROGRAM.split("print(")[0]
        + "import threading\nthreading.Thread(target=lambda: [hot(500) for _ in iter(int, 1)]).start()\n"
        + "print(os.getpid(), flush=True)\nctypes.CDLL(None).syscall(60, 0)  # exit, of this thread alone\n"
    )
    late = time.monotonic() + 60
    while not status(ran.pid, ran.pid)["State"].startswith("Z"):
        assert time.monotonic() < late
    done = ran.attach()
    assert done.returncode == 2, done.stderr
    assert done.stderr == (
        f"spprof: nothing can be run in process {ran.pid}: its main thread has ended, and other threads go on\n"
    )
    assert ran.process.poll() is None


# What 3.14 calls no main thread: before the program's first line, and after its last.
@pytest.mark.skipif(not hasattr(sys, "remote_exec"), reason="before 3.14 the main thread is found there")
@pytest.mark.parametrize("when", ["atexit", "finalization"])
def test_a_program_that_is_over_is_said_to_be(when, started):
    last = "def last(*_, ready=lambda: print(os.getpid(), flush=True), hot=hot):\n    ready()\n    while True: hot(500)\n"
    more = {"atexit": "import atexit\natexit.register(last)\n", "finalization": "class Last: __del__ = last\nkept = Last()\n"}
    ran = started(PROGRAM.split("print(")[0] + last + more[when])
    done = ran.attach("--duration", "0.1")
    why = {"atexit": "its main thread runs what comes before or after the program", "finalization": "Python is at its end there"}
    assert done.returncode == 2 and f"nothing can be run in process {ran.pid}: {why[when]}" in done.stderr, done.stderr
    assert ran.process.poll() is None
