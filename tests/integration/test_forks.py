"""Forked children: none keeps what is its parent's, and each may take a profile of its own, whoever forked it."""

import json
import os
import platform
import subprocess
import sys

import pytest
from ran import TARGETS
from switches import switch

import spprof

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at descriptors by /proc")


def test_a_child_that_begins_its_own_profile_as_soon_as_it_is_forked(run_python):
    """By a handler that the program registered before it took its first profile, as a pre-fork server's program may."""
    ran = run_python("-W", "ignore", "-c", """
import json, os, spprof
def in_child():
    spprof.start(output_path="child.spprof")
os.register_at_fork(after_in_child=in_child)
spprof.start(output_path="out.spprof")
reading, writing = os.pipe()
pid = os.fork()
if pid == 0:
    said = [spprof.is_active()]
    try: said.append(spprof.stop().header["pid"] == os.getpid())
    except spprof.NotActive as error: said.append(str(error))
    spprof.start()
    spprof.stop()
    os.write(writing, json.dumps(said).encode())
    os._exit(0)
os.waitpid(pid, 0)
spprof.stop()
print(os.read(reading, 1000).decode())
""", timeout=120)  # fmt: skip
    assert ran.json == [True, True]
    assert ran.profile.warning is None and ran.profile.end["reason"] == "stop"


@linux
def test_a_child_of_c_code_keeps_neither_the_file_nor_its_lock(run_python, tmp_path):
    """Python's own handlers do not run there: the C library's daemon(), say. The parent is killed, and gives nothing back."""
    run_python("-W", "ignore", "-c", """
import ctypes, json, os, signal, time, spprof
from spprof.files.writing import is_being_written
spprof.start(output_path="out.spprof")
reading, writing = os.pipe()
if ctypes.PyDLL(None).fork() == 0:
    os.close(writing)
    os.read(reading, 1)  # the parent ends
    late = time.monotonic() + 60
    while is_being_written("out.spprof") and time.monotonic() < late: pass
    links = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
    said = [is_being_written("out.spprof"), os.path.abspath("out.spprof") in links]
    spprof.start(output_path="out.spprof")
    said.append(spprof.stop().header["pid"] == os.getpid())
    with open("said.part", "w") as file: json.dump(said, file)
    os.rename("said.part", "said.json")
    os._exit(0)
os.kill(os.getpid(), signal.SIGKILL)
""", ok=False, timeout=120)  # fmt: skip
    assert json.loads((tmp_path / "said.json").read_text()) == [False, False, True]


@linux
def test_the_first_process_of_a_namespace_in_another_one(tmp_path):
    """Both are number 1: what is the parent's is not told by that."""
    if os.getuid() != 0:
        pytest.skip("needs root, for process namespaces of its own")
    code = """
import ctypes, os, spprof
CLONE_NEWPID = 0x20000000
spprof.start()
if ctypes.CDLL(None).unshare(CLONE_NEWPID) != 0: print("unshare")
pid = os.fork()
if pid == 0:
    spprof.start(output_path="out.spprof")
    spprof.stop()
    os._exit(0)
print(os.getpid(), os.waitpid(pid, 0)[1])
"""
    ran = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-W", "ignore", "-c", code],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60, cwd=tmp_path)  # fmt: skip
    if "unshare" in ran.stderr + ran.stdout:
        pytest.skip(f"no process namespace here: {ran.stderr.strip()[:100]}")
    assert ran.stdout == "1 0\n", ran.stderr
    assert spprof.Profile.load(tmp_path / "out.spprof").header["pid"] == 1


@linux
def test_a_child_forked_while_a_profile_is_about_to_begin(run_python):
    """The file is open and locked then, and nothing else has been done yet."""
    ran = run_python("-W", "ignore", "-c", """
import json, os, spprof, spprof.recording.api
reading, writing = os.pipe()
children = []
opened = spprof.recording.api._open_output
def and_forked(path):
    output, pid = opened(path), os.fork()
    if pid == 0:
        links = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
        os.write(writing, json.dumps(os.path.abspath("out.spprof") in links).encode())
        os._exit(0)
    children.append(pid)
    return output
spprof.recording.api._open_output = and_forked
spprof.start(output_path="out.spprof")
spprof.stop()
os.waitpid(children[0], 0)
print(os.read(reading, 100).decode())
""", timeout=120)  # fmt: skip
    assert ran.json is False
    assert ran.profile.end["reason"] == "stop"


@pytest.mark.skipif(switch("SPPROF_SANITIZED"), reason="a child has the locks of AddressSanitizer's own allocator")
@pytest.mark.parametrize("forks", [20, pytest.param(200, marks=pytest.mark.stress)])
def test_children_forked_while_native_frames_are_prepared(run_python, forks):
    """Another thread asks the dynamic loader meanwhile: no child may have its lock."""
    if not spprof.native_unwinding_available():
        pytest.skip("no native frames here")
    ran = run_python("-W", "ignore", "-c", f"""
import collections, json, os, signal, spprof, threading, time
import spprof.files.profile
spprof.start(native=True)
spprof.stop()
over = False
def begins():
    while not over:
        try:
            spprof.start(native=True)
            spprof.stop()
        except spprof.SpprofError: pass
threads = [threading.Thread(target=begins) for _ in range(2)]
for thread in threads: thread.start()
codes = collections.Counter()
for n in range({forks}):
    time.sleep(n % 10 * 0.001)
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # it waits for ever
        spprof.start()
        spprof.stop()
        os._exit(0)
    codes[os.waitpid(pid, 0)[1]] += 1
    if codes[0] != sum(codes.values()): break
over = True
for thread in threads: thread.join()
print(json.dumps(codes))
""", timeout=400)  # fmt: skip
    assert ran.json == {"0": forks}


CHAINS = {
    "thread": ("forks", "by_fork", "child", "of_the_child"),
    "grandchild": ("<module>", "main", "by_grandchild", "by_fork", "child", "of_the_child"),
}


def check_child(path, way):
    """Each of its stacks is one that the child had: what it calls is known. A file that cannot be read whole is an error."""
    chain = CHAINS.get(way, ("<module>", "main", f"by_{way}", "child", "of_the_child"))
    profile = spprof.Profile.load(path)
    assert profile.warning is None and profile.end["reason"] == "stop", path
    stacks = {
        tuple(f.name for f in sample.frames if f.file.endswith("forker.py") or f.file == "<string>")
        for sample in profile.samples()
    }
    assert stacks, path
    assert {stack for stack in stacks if stack != chain[: len(stack)]} == set(), path


def fork_beside_threads(run_python, tmp_path, way, threads=4, children=3, mode="cpu", rate=1000, seed=1):
    arguments = (way, threads, children, mode, rate, seed)
    ran = run_python("-W", "ignore", TARGETS / "forker.py", tmp_path / "out", *arguments, timeout=280)
    assert ran.json == [[number, 0] for number in range(children)]
    for number in range(children):
        check_child(tmp_path / f"out.{number}.spprof", way)


WAYS = ["fork", "forkpty", "thread", "grandchild", "c"] + (["system_call"] if platform.machine() == "x86_64" else [])


@linux
@pytest.mark.skipif(switch("SPPROF_SANITIZED"), reason="a child has the locks of AddressSanitizer's own allocator")
@pytest.mark.parametrize("way", WAYS)
def test_a_child_has_nothing_of_the_threads_of_its_parent(way, run_python, tmp_path):
    """They run code that is made and dies all the time; no child runs any of it."""
    fork_beside_threads(run_python, tmp_path, way, mode="wall" if way in ("fork", "c") else "cpu")


@linux
@pytest.mark.stress
@pytest.mark.parametrize("rate", [1000, 10000])
@pytest.mark.parametrize("mode", ["cpu", "wall"])
@pytest.mark.parametrize("way", WAYS)
def test_children_forked_at_any_instant_beside_twenty_busy_threads(way, mode, rate, run_python, tmp_path):
    fork_beside_threads(run_python, tmp_path, way, threads=20, children=25, mode=mode, rate=rate, seed=os.getpid())


ALONE = pytest.mark.skipif(sys.version_info < (3, 12), reason="Python counts no threads at a fork before 3.12")
FORKS = """
import multiprocessing, os, subprocess, sys, spprof
def forks():
    pid = os.fork()
    if pid == 0: os._exit(7)
    print(os.WEXITSTATUS(os.waitpid(pid, 0)[1]))
    pid, fd = os.forkpty()
    if pid == 0: os._exit(8)
    print(os.WEXITSTATUS(os.waitpid(pid, 0)[1]))
    print(subprocess.run([sys.executable, "-S", "-c", ""], preexec_fn=lambda: None).returncode)
    process = multiprocessing.get_context("fork").Process(target=print, args=("by multiprocessing",))
    process.start()
    process.join()
if len(sys.argv) > 1: spprof.start(output_path="out.spprof", mode=sys.argv[1], clock=sys.argv[2])
for i in range(5): forks()
if len(sys.argv) > 1: spprof.stop()
"""


@linux
@ALONE
@pytest.mark.parametrize("mode, clock", [("cpu", "auto"), ("wall", "auto"), ("wall", "signal")])
def test_a_program_of_one_thread_is_not_warned_of_forks(mode, clock, run_python):
    """Where warnings are errors, they would end the program (3.15) or be printed."""
    alone = run_python("-W", "error", "-c", FORKS)
    ran = run_python("-W", "error", "-c", FORKS, mode, clock)
    assert (ran.out, ran.err) == (alone.out, alone.err) and alone.err == ""
    assert ran.profile.warning is None and ran.profile.end["reason"] == "stop"


@linux
@ALONE
def test_a_program_of_two_threads_is_warned_of_forks(run_python):
    """For its own sake: nothing of that is hidden."""
    ran = run_python("-W", "always", "-c", """
import os, threading, warnings, spprof
spprof.start(output_path="out.spprof")
over = threading.Event()
thread = threading.Thread(target=over.wait)
thread.start()
pid = os.fork()
if pid == 0: os._exit(0)
os.waitpid(pid, 0)
over.set()
thread.join()
spprof.stop()
""")  # fmt: skip
    assert "is multi-threaded" in ran.err


@linux
def test_what_was_sampled_before_os_exit_is_in_the_file(run_python):
    """Jobs of a worker are often shorter than the time between two writes, and end so."""
    ran = run_python("-c", """
import os, spprof
def job():
    while spprof.stats()["taken"] < 3:
        sum(range(1000))
spprof.start(output_path="out.spprof")
job()
os._exit(3)
""", ok=False)  # fmt: skip
    assert ran.code == 3
    assert ran.profile.end["reason"] == "_exit" and ran.profile.warning is None
    assert "job" in {frame.name for sample in ran.profile.samples() for frame in sample.frames}
    assert ran.profile.stats["taken"] == len(list(ran.profile.samples()))


@linux
def test_what_was_sampled_before_exec_is_in_the_file(run_python):
    ran = run_python("-c", """
import os, sys, spprof
def job():
    while spprof.stats()["taken"] < 3:
        sum(range(1000))
spprof.start(output_path="out.spprof")
job()
os.execv(sys.executable, [sys.executable, "-S", "-c", "print(7)"])
""")  # fmt: skip
    assert ran.json == 7
    assert "job" in {frame.name for sample in ran.profile.samples() for frame in sample.frames}


@linux
@pytest.mark.skipif(not hasattr(os, "unshare"), reason="before 3.12 Python has no such call")
def test_calls_that_demand_a_process_of_one_thread(run_python):
    """The kernel refuses a namespace of users to a process with threads."""
    code = """
import os, sys, spprof
if len(sys.argv) > 1: spprof.start(output_path="out.spprof")
try: print(os.unshare(os.CLONE_NEWUSER))
except OSError as error: print(error)
if len(sys.argv) > 1: spprof.stop()
"""
    assert run_python("-c", code, "profiled").out == run_python("-c", code).out
