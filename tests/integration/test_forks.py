"""Forked children: none keeps what is its parent's, and each may take a profile of its own, whoever forked it."""

import json
import os
import subprocess
import sys

import pytest
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
