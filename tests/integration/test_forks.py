"""Forked children: none keeps what is its parent's, and each may take a profile of its own, however it was forked."""

import json
import os
import platform
import shutil
import subprocess
import sys

import pytest
from judging import until_seen
from ran import TARGETS
from switches import core_of_linux, switch
from test_calls import compiled

import spprof

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
linux = pytest.mark.skipif(sys.platform != "linux", reason="looks at descriptors by /proc")
wrapped = pytest.mark.skipif(not core_of_linux(), reason="calls are wrapped on Linux alone")


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
    """Both are number 1: so the number does not identify the parent's."""
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


@linux
@pytest.mark.parametrize("opened", ["open", "named", "unnamed"])
def test_a_child_forked_while_another_thread_begins_the_first_profile(opened, run_python):
    """Within the call that begins it, which imports gc, by the program's own `__import__`."""
    ran = run_python("-W", "ignore", "-c", f"""
import builtins, json, os, signal, threading, spprof
from spprof.recording import api, options
imports, codes = builtins.__import__, []
def forks():
    builtins.__import__ = imports
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # it waits for ever
        spprof.start()
        spprof.stop()
        os._exit(7)
    codes.append(os.waitpid(pid, 0)[1])
def and_forks(name, *rest, **more):
    if name == "gc":
        thread = threading.Thread(target=forks)
        thread.start()
        thread.join()
    return imports(name, *rest, **more)
builtins.__import__ = and_forks
if {opened!r} == "open":
    api.end(api.begin_into(options.Options(), os.open("out.spprof", os.O_RDWR | os.O_CREAT)))
else:
    spprof.start(output_path="out.spprof" if {opened!r} == "named" else None)
    spprof.stop()
print(json.dumps(codes))
""", timeout=120)  # fmt: skip
    assert ran.json == [7 << 8]


# A profile takes a second to begin, and then fails: its output takes nothing.
BEGINS = """
import os, threading, spprof
os.mkfifo("fifo")
reader = os.open("fifo", os.O_RDONLY | os.O_NONBLOCK)
writer = os.open("fifo", os.O_WRONLY | os.O_NONBLOCK)
try:
    while True: os.write(writer, b"x" * 4096)
except BlockingIOError: pass
def begins():
    try: spprof.start(output_path="fifo")
    except spprof.CannotWrite: pass
thread = threading.Thread(target=begins, daemon=True)
thread.start()
while thread.is_alive() and len(os.listdir("/proc/self/task")) < 3: pass  # the first thread of spprof's
"""


@linux
@pytest.mark.skipif(platform.machine() != "x86_64", reason="forks by the number of the system call")
@pytest.mark.skipif(switch("SPPROF_SANITIZED"), reason="a child has the locks of AddressSanitizer's own allocator")
@pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(),
    reason="a child has the locks of types and dicts that its parent's other threads use",
)
def test_a_child_that_nobody_saw_waits_for_no_thread_of_its_parents(run_python):
    """No thread may ask for the GIL as the child is made: the child would wait for it to take the GIL, profiled or not."""
    ran = run_python("-W", "ignore", "-c", BEGINS + """
import ctypes, json, signal, sys
sys.setswitchinterval(1000)
fork, codes = ctypes.PyDLL(None).syscall, []
while thread.is_alive():
    pid = fork(57)
    if pid == 0:
        signal.alarm(60)  # it waits for ever
        os._exit(7)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    if codes[-1] != 7: break
print(json.dumps([len(codes) > 0, sorted(set(codes))]))
""", timeout=120)  # fmt: skip
    assert ran.json == [True, [7]]


@linux
@pytest.mark.parametrize("collects", [True, False])
@pytest.mark.parametrize("reads", [True, False])
def test_a_program_ends_though_a_thread_is_about_to_begin_a_profile(run_python, reads, collects):
    """At the end of the interpreter that thread gets no GIL any more, whether its profile begins or not."""
    cat = "['sh', '-c', 'sleep 0.3; exec cat >/dev/null'], stdin=reader"
    reads = f"import subprocess\nos.set_blocking(reader, True)\nsubprocess.Popen({cat})" if reads else ""
    collects = "" if collects else "import gc\ngc.disable()"
    ran = run_python("-W", "ignore", "-c", f"{BEGINS}\n{reads}\n{collects}\nos.close(writer)", timeout=60)
    assert (ran.out, ran.err) == ("", "")


@pytest.mark.skipif(switch("SPPROF_SANITIZED"), reason="a child has the locks of AddressSanitizer's own allocator")
@pytest.mark.skipif(
    sys.version_info < (3, 14) and not getattr(sys, "_is_gil_enabled", lambda: True)(),
    reason="a child of 3.13t has the locks of dicts that its parent's other threads use",
)
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


@pytest.mark.parametrize("profile", ["begun", "over"])
def test_a_child_waits_for_no_import_of_its_parents_other_threads(profile, run_python):
    """Nobody ends one there. What a child forgets of a profile asks the module gc, which the program need not have imported."""
    ran = run_python("-W", "ignore", "-c", """
import importlib._bootstrap, json, os, signal, sys, threading, time, spprof
spprof.start(output_path="out.spprof")
if sys.argv[1] == "over": spprof.stop()
imports, over = threading.Event(), threading.Event()
def other():
    with importlib._bootstrap._ModuleLockManager("gc"):
        imports.set()
        over.wait()
thread = threading.Thread(target=other)
thread.start()
imports.wait()
sys.modules.pop("gc", None)
pid, late = os.fork(), time.monotonic() + 60  # a limit that only a hang reaches
if pid == 0: os._exit(7)
while os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None and time.monotonic() < late: time.sleep(0.01)
os.kill(pid, signal.SIGKILL)
over.set()
thread.join()
print(json.dumps(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
""", profile, timeout=120)  # fmt: skip
    assert ran.json == 7


CHAINS = {
    "thread": ("forks", "by_fork", "child", "of_the_child"),
    "grandchild": ("<module>", "main", "by_grandchild", "by_fork", "child", "of_the_child"),
}


def check_child(path, way):
    """Each of its stacks is one of the child's: what it calls is known. A file that cannot be read whole is an error."""
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
    library = [compiled(tmp_path, "forks")] if way in ("c", "system_call") else []
    arguments = (way, threads, children, mode, rate, seed, *library)
    ran = run_python("-W", "ignore", TARGETS / "forker.py", tmp_path / "out", *arguments, timeout=280)
    errors = tmp_path / "out.errors"
    assert ran.json == [[number, 0] for number in range(children)], errors.read_text() if errors.exists() else ""
    for number in range(children):
        check_child(tmp_path / f"out.{number}.spprof", way)


# Elsewhere than on Linux the C library alone forks.
WAYS = [
    "fork",
    "forkpty",
    "thread",
    "grandchild",
    "c",
    *(["system_call"] if core_of_linux() and platform.machine() == "x86_64" else []),
]


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


def off_by(folder, profiles, rate):
    """Of each thread of each process what its profile has less than its own clock, in ms; and the bound of that: two periods, of
    which the last one may lack, and a kernel's tick where the clock is one of the kernel's ticks."""
    off, bounds = {}, set()
    for file in sorted(folder.glob("*.json")):
        reported = json.loads(file.read_text())
        profile = profiles[reported["pid"]]
        on_cpu = {}
        for sample in profile:
            if not sample.flags & 4:
                on_cpu[sample.thread] = on_cpu.get(sample.thread, 0) + sample.weight
        tids = {thread.tid: thread.id for thread in profile.threads}
        others = {thread.tid for thread in profile.threads if thread.samples} - {reported["pid"], *map(int, reported["counted"])}
        assert not others, f"{file.stem} has samples of threads of other processes"
        for tid, ns in reported["counted"].items():
            off[file.stem, int(tid)] = (ns - on_cpu.get(tids.get(int(tid)), 0)) / 1e6
        bounds.add(2000 / rate + (4 if profile.clock in ("perf", "signal") else 10))
    assert len(off) >= 4, off
    return off, max(bounds)


SUMS = "none in 60 tries; a machine so full that ticks are lost may take them anywhere"


@linux
@pytest.mark.skipif(switch("SPPROF_SANITIZED"), reason="a child has the locks of AddressSanitizer's own allocator")
@pytest.mark.statistical(SUMS)
@pytest.mark.parametrize("mode, rate", [("cpu", 1000), ("cpu", 10_000), ("wall", 1000)])
def test_the_weights_of_parent_and_children_are_what_each_counted_itself(mode, rate, run_python, tmp_path):
    run_python("-W", "ignore", TARGETS / "fork_sums.py", mode, rate, os.getpid(), timeout=120)
    profiles = {profile.header["pid"]: profile for profile in map(spprof.Profile.load, tmp_path.glob("*.spprof"))}
    assert len(profiles) == 4 and not any(profile.warning for profile in profiles.values())
    off, bound = off_by(tmp_path, profiles, rate)
    assert {thread: ms for thread, ms in off.items() if abs(ms) > bound} == {}
    assert abs(sum(off.values())) <= bound * len(off) / 2


@linux
@pytest.mark.skipif(switch("SPPROF_SANITIZED"), reason="a child has the locks of AddressSanitizer's own allocator")
@pytest.mark.statistical(SUMS)
def test_the_weights_of_children_of_spprof_run_are_what_each_counted_itself(tmp_path):
    command = [sys.executable, "-m", "spprof", "run", "-q", "--subprocesses", "-o", "p.spprof", str(TARGETS / "fork_sums.py")]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120, stdin=subprocess.DEVNULL)
    profiles = {profile.header["pid"]: profile for profile in map(spprof.Profile.load, tmp_path.glob("*.spprof"))}
    assert len(profiles) == 4 and not any(profile.warning for profile in profiles.values())
    off, bound = off_by(tmp_path, profiles, 1000)
    assert {thread: ms for thread, ms in off.items() if abs(ms) > bound} == {}


CHILDREN_OF_C = r"""
#include <spawn.h>
#include <sys/types.h>
#include <unistd.h>
pid_t by_vfork(char *path, char **argv, char **env) {
    pid_t pid = vfork();
    if (pid == 0) {
        execve(path, argv, env);
        _exit(127);
    }
    return pid;
}
pid_t by_spawn(char *path, char **argv, char **env) {
    pid_t pid = -1;
    return posix_spawn(&pid, path, 0, 0, argv, env) == 0 ? pid : -1;
}
pid_t by_failing(char *path, char **argv, char **env) { /* _exit in the memory of the parent */
    return by_vfork("/nowhere", argv, env);
}
"""


@linux
@pytest.mark.parametrize("mode", ["cpu", "wall"])
@pytest.mark.parametrize("way, code", [("by_vfork", 7), ("by_spawn", 7), ("by_failing", 127)])
def test_children_of_c_that_share_its_memory_leave_the_profile_whole(way, code, mode, run_python, tmp_path):
    """`vfork` runs no handler, and the child has the parent's memory, threads' clocks and descriptors until it calls exec."""
    if not (shutil.which("cc") and shutil.which("sh")):
        pytest.skip("needs a C compiler")
    (tmp_path / "children.c").write_text(CHILDREN_OF_C)
    subprocess.run(["cc", "-w", "-shared", "-fPIC", "-o", "children.so", "children.c"], cwd=tmp_path, check=True)
    ran = run_python("-W", "ignore", "-c", """
import ctypes, json, os, sys, threading, spprof
way, mode = sys.argv[1:]
call = getattr(ctypes.CDLL("./children.so"), way)
call.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p]
words = (ctypes.c_char_p * 4)(b"sh", b"-c", b"exit 7", None)
none = (ctypes.c_char_p * 1)(None)
over = False
def busy():
    while not over: sum(range(500))
threads = [threading.Thread(target=busy) for _ in range(3)]
spprof.start(output_path="out.spprof", mode=mode, rate=10000)
for thread in threads: thread.start()
codes = [os.WEXITSTATUS(os.waitpid(call(b"/bin/sh", words, none), 0)[1]) for _ in range(50)]
before = spprof.stats()["taken"]
while spprof.stats()["taken"] < before + 20: sum(range(500))
over = True
for thread in threads: thread.join()
active = spprof.is_active()
profile = spprof.stop()
print(json.dumps([sorted(set(codes)), active, profile.stats["taken"]]))
""", way, mode, timeout=120)  # fmt: skip
    codes, active, taken = ran.json
    assert (codes, active) == ([code], True)
    profile = ran.profile
    assert profile.warning is None and profile.end["reason"] == "stop"
    assert {frame.name for sample in profile for frame in sample.frames} >= {"busy"}
    assert profile.stats["taken"] == taken


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
@pytest.mark.parametrize("mode, clock", [("cpu", "auto"), ("wall", "auto"), *([("wall", "signal")] if core_of_linux() else [])])
def test_a_program_of_one_thread_is_not_warned_of_forks(mode, clock, run_python):
    """Where warnings are errors, they would end the program (3.15) or be printed; 3.13.0 says nothing of them then."""
    for action in ("always", "error"):
        alone = run_python("-W", action, "-c", FORKS)
        ran = run_python("-W", action, "-c", FORKS, mode, clock)
        assert (ran.out, ran.err) == (alone.out, alone.err) and "multi-threaded" not in alone.err
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


@wrapped
@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_namespaces_of_another_process(mode, run_python):
    """The kernel lets no process with threads into another's namespace of users, and none whose threads share its folders into
    one of mounts. What follows is sampled."""
    code = """
import ctypes, os, sys, spprof
libc = ctypes.CDLL(None, use_errno=True)
USER, MOUNTS = 0x10000000, 0x00020000
def enters(name, flags):
    reading, writing = os.pipe()
    over, ends = os.pipe()
    other = os.fork()
    if other == 0:
        os.close(ends)
        os.write(writing, b"%d" % libc.unshare(flags))
        os.read(over, 1)
        os._exit(0)
    print(os.read(reading, 9), end=" ")
    fd = os.open(f"/proc/{other}/ns/{name}", os.O_RDONLY)
    print(name, libc.setns(fd, 0), os.strerror(ctypes.get_errno()))
    os.close(ends)
    os.waitpid(other, 0)
def afterwards():
    before = spprof.stats()["taken"]
    while spprof.stats()["taken"] < before + 5: sum(range(1000))
if len(sys.argv) > 1: spprof.start(output_path="out.spprof", mode=sys.argv[1])
enters("user", USER)
enters("mnt", USER | MOUNTS)
if len(sys.argv) > 1: afterwards(); spprof.stop()
"""
    ran = run_python("-W", "ignore", "-c", code, mode)
    assert ran.out == run_python("-W", "ignore", "-c", code).out
    assert ran.profile.end["reason"] == "stop" and ran.profile.warning is None
    assert "afterwards" in {frame.name for sample in ran.profile for frame in sample.frames}


@wrapped
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


@wrapped
def test_a_call_that_demands_one_thread_waits_for_a_slow_one_of_ours(run_python):
    """Longer than a fork does, of which Python would only warn. Here ours is in a write, and its reader comes late."""
    code = """
import ctypes, json, os, sys, time, spprof
THREAD = 0x00010000  # it changes nothing: unshare() only looks whether there are others
if ctypes.CDLL(None).unshare(THREAD) != 0:
    print("null")
    sys.exit()
fifo = f"fifo{os.getpid()}"
os.mkfifo(fifo)
file = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
reading, writing = os.pipe()
reported, says = os.pipe()
if os.fork() == 0:
    os.close(writing)
    os.set_blocking(file, True)
    os.read(reading, 1)
    time.sleep(0.3)
    os.write(says, str(time.monotonic()).encode())
    while os.read(file, 1 << 16): pass
    os._exit(0)
spprof.start(output_path=fifo)
full = os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
for most in 512, 1:
    try:
        while os.write(full, bytes(most)): pass
    except BlockingIOError: pass
os.close(full)
try: spprof.flush()
except spprof.CannotWrite: pass  # so it is in a write
begin = time.monotonic()
os.write(writing, b"x")
result = ctypes.CDLL(None).unshare(THREAD)
print(json.dumps([result, float(os.read(reported, 99)) - begin]))
sys.stdout.flush()
os._exit(0)
"""
    seen = set()
    for _ in until_seen(seen, {"waited"}, limit=60):
        ran = run_python("-c", code).json
        if ran is None:
            pytest.skip("the system refuses the call to anybody")
        seen |= {"waited"} if ran[0] == 0 and ran[1] > 0.1 else set()
