"""An output that takes nothing: nobody waits for it but a second at the most, what waits for it has a bound, and what is lost
meanwhile is counted. A FIFO whose reader does not read stands for all of them, a file system of the network that hangs too."""

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import spprof

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such files")

# Functions with long names of their own, each of which gets a tick, so that the bound is reached in a second or so.
FIFO = """
import json, os, random, signal, subprocess, sys, threading, time, warnings, spprof
warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside our thread
os.mkfifo("fifo")
reader = os.open("fifo", os.O_RDONLY | os.O_NONBLOCK)
os.set_blocking(reader, True)
def burn(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end: sum(range(300))
def ticks():
    stats = spprof.stats()
    return stats["taken"], stats["repeated"], stats["losses"]["writer_behind"]
def one_tick():
    before = ticks()
    while ticks() == before: sum(range(300))
def fill(seconds=150):
    late = time.monotonic() + seconds
    while spprof.stats()["losses"]["writer_behind"] < 50 and time.monotonic() < late:
        name = "f" + "".join(random.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=20000))
        space = {}
        exec(f"def {name}(one_tick): one_tick()", space)
        space[name](one_tick)
def adds_up(stats): return stats["expected"] == stats["taken"] + stats["repeated"] + sum(stats["losses"].values())
"""


@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_a_program_goes_on_forks_and_stops_though_its_output_takes_nothing(run_python, tmp_path, mode):
    ran = run_python("-c", FIFO + f"""
spprof.start(0.2, {mode!r}, "fifo")
fill()
pid = os.fork()  # this hung: the thread that wrote could not be waited for
if pid == 0: os._exit(7)
said = [os.waitpid(pid, 0)[1] >> 8]
try: spprof.flush()
except spprof.CannotWrite: said.append("flush")
try: spprof.stop()
except spprof.CannotWrite as error: said.append(str(error)[:24])
stats = spprof.stats()
said += [adds_up(stats), stats["losses"]["writer_behind"] >= 50, stats["write_error"], spprof.is_active()]
# The thread that was left writes the rest, as soon as somebody reads.
parts = []
while chunk := os.read(reader, 1 << 16): parts.append(chunk)
profile = spprof.Profile(b"".join(parts))
said += [profile.warning, profile.end is not None]
spprof.start(output_path="out.spprof")
spprof.stop()
print(json.dumps(said))
""", timeout=200)  # fmt: skip
    assert ran.json == [7, "flush", "the output takes nothing", True, True, os.strerror(errno.ETIMEDOUT), False, None, True]
    assert ran.profile.warning is None


@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_a_reader_that_comes_back_has_a_whole_file_with_a_gap(run_python, tmp_path, mode):
    """What was lost is counted, and no stack afterwards lacks a frame that was not written."""
    ran = run_python("-c", FIFO + f"""
asleep = threading.Event()
def sleeper(): asleep.wait()
thread = threading.Thread(target=sleeper)
thread.start()
spprof.start(0.2, {mode!r}, "fifo")
fill()
def outer(most): inner(most)
def inner(most):
    before, late = spprof.stats()["taken"], time.monotonic() + 60
    while spprof.stats()["taken"] < before + most and time.monotonic() < late: sum(range(300))
kept = open("kept", "wb")
cat = subprocess.Popen(["cat"], stdin=reader, stdout=kept)
os.close(reader)
late = time.monotonic() + 60
while True:  # cat needs a processor, and nobody waits for it but a second
    try: spprof.flush()
    except spprof.CannotWrite:
        if time.monotonic() > late: raise
    else: break
spprof.flush()  # the drain thread's next turn: from here on stacks are kept again
lost = spprof.stats()["losses"]["writer_behind"]
outer(50)
asleep.set()
thread.join()
spprof.stop()
cat.wait()
stats = spprof.stats()
print(json.dumps([adds_up(stats), stats["taken"] + stats["repeated"], lost >= 50, stats["write_error"]]))
""", timeout=200)  # fmt: skip
    adds_up, kept, lost, error = ran.json
    profile = spprof.Profile.load(tmp_path / "kept")
    assert (adds_up, lost, error, profile.warning) == (True, True, None, None)
    assert sum(profile.column("count")) == kept and profile.end["reason"] == "stop"
    stacks = {tuple(frame.name[:1000] for frame in sample.frames) for sample in profile if sample.frames}
    inner = [stack for stack in stacks if "inner" in stack]
    assert inner and all(stack[stack.index("inner") - 2 :][:2] == ("<module>", "outer") for stack in inner)
    # Frames of a thread begin where its thread does, before and after the gap.
    assert {stack[0] for stack in stacks} <= {"<module>", "_bootstrap", "[no Python frames]", "[unknown stack]"}


def test_sigterm_ends_a_process_whose_output_takes_nothing(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", FIFO + """
spprof.start(0.2, "cpu", "fifo")
fill()
os.kill(os.getpid(), signal.SIGTERM)
while True: time.sleep(1)
"""], cwd=tmp_path)  # fmt: skip
    try:
        assert process.wait(timeout=200) == -signal.SIGTERM
    finally:
        process.kill()


def test_a_start_whose_output_takes_nothing_is_refused(run_python, tmp_path):
    ran = run_python("-c", FIFO + """
writing = os.open("fifo", os.O_WRONLY | os.O_NONBLOCK)
try:
    while True: os.write(writing, b"x" * 512)
except BlockingIOError: pass
try:
    while True: os.write(writing, b"x")
except BlockingIOError: pass
before = sorted(os.listdir("/dev/fd"))
try: spprof.start(output_path="fifo")
except spprof.CannotWrite as error: said = [str(error), spprof.is_active()]
pid = os.fork()  # a child has nothing of the thread that waits
if pid == 0: os._exit(0 if sorted(os.listdir("/dev/fd")) == before else 1)
said.append(os.waitpid(pid, 0)[1])
parts = 0
while parts < 65536: parts += len(os.read(reader, 65536))
spprof.start(output_path="out.spprof")
spprof.stop()
print(json.dumps(said))
""", timeout=60)  # fmt: skip
    assert ran.json == ["the profile cannot be written: the output took nothing for a second", False, 0]
    assert ran.profile.warning is None and json.dumps(ran.profile.stats["write_error"]) == "null"


def writes(pid):
    for one in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):  # it has ended
            if (one / "comm").read_text() == "spprof-writer\n":
                return True
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc for the writer's thread")
def test_a_process_that_was_stopped_has_not_waited_for_its_output(tmp_path):
    """Ctrl-Z and fg, a debugger, a frozen container: clocks go on meanwhile. It is stopped in the midst of a start, and somebody
    reads when it goes on."""
    os.mkfifo(tmp_path / "fifo")
    reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    text = """
import os, spprof
writing = os.open("fifo", os.O_WRONLY | os.O_NONBLOCK)
for size in (512, 1):
    try:
        while True: os.write(writing, b"x" * size)
    except BlockingIOError: pass
spprof.start(output_path="fifo")
os._exit(0)
"""
    process = subprocess.Popen([sys.executable, "-c", text], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        while not writes(process.pid):
            assert process.poll() is None
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        time.sleep(1.1)  # longer than an output may take nothing
        process.send_signal(signal.SIGCONT)
        while process.poll() is None:
            try:
                os.read(reader, 65536)
            except BlockingIOError:
                time.sleep(0.001)
        assert (process.returncode, process.stderr.read()) == (0, "")
    finally:
        process.kill()
        process.communicate()
        os.close(reader)


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc what is resident")
def test_names_that_wait_for_an_output_have_a_bound(run_python):
    """Those of threads that come and go, for hours: here a few long ones."""
    ran = run_python("-c", FIFO + """
from spprof import _core
spprof.start(0.2, "cpu", "fifo")
fill()
def resident(): return int(open("/proc/self/statm").read().split()[1]) * 4096
before, tid = resident(), threading.get_native_id()
for n in range(300):
    _core.name_threads([(tid, str(n % 10) * 500_000)])
    if n % 20 == 0: burn(0.1)
print(json.dumps(resident() - before))
os._exit(0)
""", timeout=200)  # fmt: skip
    assert ran.json < 60 << 20  # of 150 MB
