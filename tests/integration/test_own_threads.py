"""spprof's own threads that run Python: no profile has them."""

import os
import subprocess
import sys

import pytest
from attached import Program

from spprof import Profile
from spprof.listening import ours, start_ours

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="spprof attaches on Linux alone")
WAITS = "import os, sys, time\nprint(os.getpid(), flush=True)\nsys.stdin.readline()\n"
# Before a run, and in one: each is to have a thread that waits.
IN_A_RUN = """
import os, time, spprof
%s
spprof.start(output_path="p.spprof", mode="wall")
%s
def threads(): return len(os.listdir("/proc/self/task"))
while spprof.stats()["expected"] < 50: time.sleep(0.01)
spprof.stop()
print(threads())
"""


@pytest.fixture
def waiting(tmp_path):
    made = []

    def make(text, **how):
        made.append(Program(text, tmp_path, **how))
        return made[-1]

    yield make
    for one in made:
        one.process.kill()
        one.process.communicate()


def tids(path):
    return [thread.tid for thread in Profile.load(path).threads]


@pytest.mark.parametrize("listens", ["0", "1"])
def test_the_thread_that_serves_an_attachment_is_in_no_profile(listens, waiting, tmp_path):
    ran = waiting(
        WAITS.replace("sys.stdin.readline()", "while True: time.sleep(0.001)"),
        environment={**os.environ, "SPPROF_LISTEN": listens},
    )
    for _ in range(2):  # the system gives ids of threads again late, but `ours` may keep what has gone
        done = ran.attach("--duration", "0.3", "--mode", "wall", "-q", "--force", "-o", "p.spprof")
        assert done.returncode == 0, done.stderr
        assert tids(tmp_path / "p.spprof") == [ran.pid]


@pytest.mark.parametrize("when", ["before", "in"])
def test_a_thread_that_listens_is_in_no_profile(when, tmp_path):
    places = ("spprof.listen()", "") if when == "before" else ("", "spprof.listen()")
    done = subprocess.run(
        [sys.executable, "-c", IN_A_RUN % places], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
    assert len(tids(tmp_path / "p.spprof")) == 1


# Ours is announced, and held until the drain thread has long seen a thread that it does not know; so is one of the program's.
HELD = """
import _thread, os, threading, time, spprof
from spprof.listening import start_ours
spprof.start(output_path="p.spprof", mode="wall")
gate, entered, over = (_thread.allocate_lock() for _ in range(3))
for lock in (gate, entered, over): lock.acquire()
def held(function, given): _thread.start_new_thread(lambda: (gate.acquire(), function(*given)), ())
start_ours(held, lambda: (entered.release(), over.acquire()))
other = threading.Thread(target=over.acquire)
other.start()
def ticks(): return spprof.stats()["expected"]
def wait(more):
    until = ticks() + more
    while ticks() < until: time.sleep(0.005)
wait(300)
gate.release()
entered.acquire()
wait(300)
spprof.stop()
print(other.native_id, flush=True)
os._exit(0)
"""


def test_a_thread_is_no_programs_before_it_can_say_so(tmp_path):
    done = subprocess.run([sys.executable, "-c", HELD], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    threads = Profile.load(tmp_path / "p.spprof").threads
    assert [thread.name for thread in threads[:1]] == ["MainThread"] and len(threads) == 2
    assert int(done.stdout) in [thread.tid for thread in threads], "one of the program's was not found"


@pytest.mark.parametrize("fails", [RuntimeError, KeyboardInterrupt])
def test_a_thread_that_could_not_be_started_is_not_waited_for(fails):
    def start(*_):
        raise fails

    before = set(ours)
    with pytest.raises(fails):
        start_ours(start, print)
    assert ours == before


def test_one_that_listens_under_spprof_run_is_in_no_profile(tmp_path):
    (tmp_path / "program.py").write_text(
        "import os, time\nfor _ in range(100): time.sleep(0.002)\nprint(len(os.listdir('/proc/self/task')) > 1)\n"
    )
    command = [sys.executable, "-m", "spprof", "run", "--mode", "wall", "-q", "-o", "p.spprof", "program.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "SPPROF_LISTEN": "1"}, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
    assert len(tids(tmp_path / "p.spprof")) == 1
