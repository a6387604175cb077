"""spprof's own threads that run Python: no profile has them."""

import os
import subprocess
import sys

import pytest
from attached import Program

from spprof import Profile

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


FOUND_FIRST = pytest.mark.statistical(
    "some 1 in 6: one that is found in its first instants, before it says that it is spprof's, is in the profile until all "
    "threads are looked at again"
)


@pytest.mark.parametrize("when", ["before", pytest.param("in", marks=FOUND_FIRST)])
def test_a_thread_that_listens_is_in_no_profile(when, tmp_path):
    places = ("spprof.listen()", "") if when == "before" else ("", "spprof.listen()")
    done = subprocess.run(
        [sys.executable, "-c", IN_A_RUN % places], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr
    assert len(tids(tmp_path / "p.spprof")) == 1


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
