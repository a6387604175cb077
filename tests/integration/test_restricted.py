"""Systems that refuse: calls barred by seccomp as in containers, no /proc, disks that are full or read-only, a memory limit.
Either it works by another way, or it says clearly what is missing; the program goes on."""

import json
import os
import signal
import subprocess
import sys
from errno import ENOSYS, EPERM
from pathlib import Path

import pytest
from refused import CALLS

import spprof
from spprof import _core
from spprof.model import STANDING

pytestmark = pytest.mark.skipif(not CALLS, reason="the numbers of the system calls are not known here")

REFUSE = f"""
import sys
sys.path.insert(0, {str(Path(__file__).resolve().parent.parent)!r})
from refused import refuse
del sys.path[0]
"""
WORK = """
import time
def leaf(n):
    return sum([i * i for i in range(n)])
def work(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:  # it is read when it may have been used up (docs/troubleshooting.md, "Hardly any samples")
        until = time.monotonic() + end - time.thread_time()
        while time.monotonic() < until:
            leaf(200)
def waits(seconds):
    time.sleep(seconds)
"""
# AddressSanitizer reads /proc for itself, and maps what no limit allows.
not_sanitized = pytest.mark.skipif("SPPROF_SANITIZED" in os.environ, reason="AddressSanitizer itself cannot live so")


def stacks_of(profile):
    """The functions seen, after a check that each stack is one that WORK can have."""
    edges = {
        ("<module>", "work"),
        ("later", "work"),
        ("later", "waits"),
        ("<module>", "afterwards"),
        ("afterwards", "work"),
        ("work", "leaf"),
        ("<module>", "waits"),
        ("leaf", "<listcomp>"),
    }
    seen = set()
    for frames in profile.aggregate():
        names = [f.name for f in frames if f.file == "<string>"]
        assert all(edge in edges for edge in zip(names, names[1:])), names
        seen |= set(names)
    return seen


@pytest.mark.parametrize("error", [EPERM, ENOSYS])
@pytest.mark.parametrize(
    "refused, clock",
    [
        (["perf_event_open"], "timer"),
        (["process_vm_readv"], None),
        (["perf_event_open", "process_vm_readv"], "timer"),
        (["timer_create"], None),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else None,
)
@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_calls_that_are_refused(run_python, tmp_path, mode, refused, clock, error):
    if "timer_create" in refused:
        try:
            _core.choose_clock("perf-user")
        except OSError:
            pytest.skip("the system refuses the other clocks")
    ran = run_python("-c", REFUSE + WORK + f"""
import json
refuse({refused}, {error})
import spprof
from spprof.model import STANDING
spprof.start(1, {mode!r}, {str(tmp_path / "out.spprof")!r})
work(0.4)
for _ in range(5):
    waits(0.05)  # a machine that stands still may lose one
work(0.2)
while spprof.stats()["taken"] + spprof.stats()["repeated"] <= 30:
    work(0.05)
spprof.stop()
print(json.dumps(spprof.stats()))
""")  # fmt: skip
    stats = ran.json
    assert stats["clock"] == clock or clock is None
    assert stats["expected"] == stats["taken"] + stats["repeated"] + sum(stats["losses"].values())
    assert stats["taken"] + stats["repeated"] > 30
    seen = stacks_of(ran.profile)
    assert {"work", "leaf"} <= seen and (mode == "cpu" or "waits" in seen), stats
    # work() spends its time in leaf(), and 1 us in 10 in a system call. A tick must not wait for that. (The kernel may, before it
    # gives the processor to others: time off it is not asked.)
    weights = {"leaf": 0, "work": 0}
    for sample in ran.profile:
        for name in weights.keys() & {f.name for f in sample.frames if not sample.flags & STANDING}:
            weights[name] += sample.weight_ns
    assert weights["leaf"] > weights["work"] / 2, weights


def test_no_clock_at_all_is_refused_clearly(run_python, tmp_path):
    ran = run_python("-c", REFUSE + WORK + f"""
refuse({sorted(CALLS)})
import spprof
from spprof.model import STANDING
for mode in ("cpu", "wall"):
    try:
        spprof.start(1, mode, {str(tmp_path / "out.spprof")!r})
    except spprof.SpprofError as error:
        print(type(error).__name__, error)
    assert not spprof.is_active()
""")  # fmt: skip
    assert ran.out.count("Unsupported") == ran.out.count("timer_create") == 2, ran.out
    assert not ran.path.exists()


def in_namespace(commands, *python):
    """Runs shell commands as the root of a mount namespace of its own, then Python."""
    if os.getuid() != 0:
        pytest.skip("needs root, for a mount namespace of its own")
    line = " && ".join([*commands, 'exec "$@"'])
    ran = subprocess.run(["unshare", "--mount", "--propagation", "private", "sh", "-c", line, "sh", sys.executable, *python],
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)  # fmt: skip
    if "unshare" in ran.stderr or "mount:" in ran.stderr:
        pytest.skip(f"no mount namespace here: {ran.stderr.strip()[:100]}")
    return ran


def test_the_first_process_of_a_container_goes_on_after_sigterm(tmp_path):
    """As without spprof: the kernel keeps the signal from it, unless it has a handler."""
    if os.getuid() != 0:
        pytest.skip("needs root, for a process namespace of its own")
    ran = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", sys.executable, "-c", WORK + f"""
import os, signal, spprof
assert os.getpid() == 1
spprof.start(1, "cpu", {str(tmp_path / "out.spprof")!r})
work(0.2)
os.kill(1, signal.SIGTERM)
def later(): work(0.3)
later()
spprof.flush()
spprof.stop()
"""], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)  # fmt: skip
    if "unshare" in ran.stderr:
        pytest.skip(f"no process namespace here: {ran.stderr.strip()[:100]}")
    assert ran.returncode == 0, ran.stderr
    profile = spprof.Profile.load(tmp_path / "out.spprof")
    assert profile.end["reason"] == "stop" and any("later" in [f.name for f in s.frames] for s in profile.samples())


def test_flush_ends_where_sigterm_ended_the_profile_and_not_the_program(run_python, tmp_path):
    text = """
import os, signal, spprof, time
spprof.start(1, "cpu", "out.spprof")
os.kill(os.getpid(), signal.SIGTERM)
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # while the file is being finished
for _ in range(50):
    spprof.flush()
    time.sleep(0.01)
spprof.stop()
print("went on")
"""
    for _ in range(10):
        ran = run_python("-c", text, ok=False, timeout=60)
        if ran.code != -signal.SIGTERM:  # else the file was finished before the program ignored the signal
            break
    assert (ran.code, ran.out) == (0, "went on\n"), ran.err


def test_a_profile_that_cannot_be_written_is_refused_as_such(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(spprof.CannotWrite, match="cannot be written: No space left"):
            spprof.start(output_path="/dev/full")
    assert len(os.listdir("/proc/self/fd")) == before and not spprof.is_active()


@not_sanitized
@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_without_proc_the_threads_that_python_knows_are_sampled(tmp_path, mode):
    out = tmp_path / "out.spprof"
    ran = in_namespace(["mount -t tmpfs none /proc"], "-c", WORK + f"""
import os, spprof, threading
assert not os.path.exists("/proc/self")
over = threading.Event()
def works():
    while not over.is_set(): leaf(200)
def follows():
    while not over.is_set(): leaf(200)
before = threading.Thread(target=works)
before.start()
spprof.start(1, {mode!r}, {str(out)!r})
after = threading.Thread(target=follows)
after.start()
work(1.0)
over.set()
before.join()
after.join()
spprof.stop()
""")  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    shares = {function.name: function.total_weight_ns for function in spprof.Profile.load(out).functions()}
    assert {"<module>", "works", "follows"} <= shares.keys() and shares["leaf"] > 0.5e9, shares


def test_a_full_disk_is_told_and_costs_the_program_nothing(tmp_path):
    """A file system of 16 KiB; the recording wants more."""
    folder = tmp_path / "small"
    folder.mkdir()
    ran = in_namespace([f"mount -t tmpfs -o size=16k none {folder}"], "-c", WORK + f"""
import json, spprof
spprof.start(0.1, "cpu", {str(folder / "out.spprof")!r})
spaces, n = [], 0
while not spprof.stats()["write_error"]:
    n += 1
    space = dict()
    exec(f"def made_{{n}}(k):\\n    return sum([i for i in range(k)])", space)
    spaces.append(space)
    space[f"made_{{n}}"](3000)
try:
    profile = spprof.stop()
    print(json.dumps([spprof.stats()["write_error"], profile.warning, sum(1 for _ in profile.samples())]))
except spprof.SpprofError as error:
    print(json.dumps([spprof.stats()["write_error"], str(error), -1]))
work(0.1)
print("the program went on")
""")  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.endswith("the program went on\n"), ran.stdout
    error, warning, samples = json.loads(ran.stdout.splitlines()[0])
    assert error == os.strerror(28) and warning, (error, warning)
    assert samples > 100


@pytest.mark.parametrize("removed", ["file", "folder"])
def test_an_output_that_is_removed_meanwhile(run_python, tmp_path, removed):
    folder = tmp_path / "gone"
    folder.mkdir()
    ran = run_python("-c", WORK + f"""
import os, shutil, spprof
spprof.start(0.1, "cpu", {str(folder / "out.spprof")!r})
work(0.2)
os.unlink({str(folder / "out.spprof")!r}) if {removed == "file"} else shutil.rmtree({str(folder)!r})
work(0.3)
while spprof.stats()["taken"] <= 100:
    work(0.05)
try:
    print(sum(1 for _ in spprof.stop().samples()))
except spprof.SpprofError as error:
    print("error", error)
work(0.1)
""")  # fmt: skip
    assert ran.out.split()[0] == "error" or int(ran.out) > 100, ran.out


def test_a_read_only_folder_is_refused_before_anything_starts(tmp_path):
    folder = tmp_path / "fixed"
    folder.mkdir()
    ran = in_namespace([f"mount -t tmpfs -o ro none {folder}"], "-c", WORK + f"""
import spprof
from spprof.model import STANDING
try: spprof.start(1, "cpu", {str(folder / "out.spprof")!r})
except spprof.CannotWrite as error: print("refused", error)
assert not spprof.is_active()
""")  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("refused") and "fixed" in ran.stdout


@not_sanitized
@pytest.mark.parametrize("spare", [1, 8, 64])
def test_a_memory_limit(run_python, tmp_path, spare):
    """Hardly any memory left, in MiB: start refuses, or what does not fit is counted. The program's own use decides nothing."""
    ran = run_python("-c", WORK + f"""
import resource, spprof
refusals = (spprof.SpprofError, MemoryError)
spprof.start, spprof.stop, spprof.stats  # loaded: what the limit does to an import is not the question
used = int(open("/proc/self/statm").read().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + ({spare} << 20), -1))
try:
    spprof.start(0.1, "cpu", {str(tmp_path / "out.spprof")!r})
except refusals as error:
    print("refused", error)
else:
    for n in range(300):
        space = dict()
        exec(f"def made_{{n}}(k):\\n    return sum([i for i in range(k)])", space)
        space[f"made_{{n}}"](3000)
    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
    spprof.stop()
    stats = spprof.stats()
    assert stats["expected"] == stats["taken"] + sum(stats["losses"].values())
    print("ran")
work(0.1)
""")  # fmt: skip
    assert ran.out.split()[0] in ("refused", "ran")


@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_a_program_that_closes_every_descriptor(run_python, tmp_path, mode, named):
    """As daemons do. Its own files then get the numbers; nothing of ours is written there, nothing of theirs closed."""
    ran = run_python("-c", WORK + f"""
import json, os, threading, spprof
def later(seconds):
    waits(0.3); work(seconds)
def afterwards(seconds):
    work(seconds)
spprof.start(1, {mode!r}, {str(tmp_path / "out.spprof") if named else None!r})
other = threading.Thread(target=later, args=[0.3])
other.start()
work(0.2)
os.closerange(3, 4096)
files = []
for i in range(100):
    files.append(open(f"own.{{i}}", "w+"))
afterwards(0.8)
other.join()
problem = None
try:
    spprof.stop()
except spprof.CannotWrite as error:
    problem = str(error)
for file in files:
    file.write("mine")
    file.close()
print(json.dumps([problem, spprof.stats()]))
""", cwd=tmp_path)  # fmt: skip
    problem, stats = ran.json
    assert [(tmp_path / f"own.{i}").read_text() for i in range(100)] == ["mine"] * 100
    assert stats["expected"] == stats["taken"] + stats["repeated"] + sum(stats["losses"].values())
    if not named:
        assert "output_path" in problem and stats["write_error"]
        return
    assert problem is None and stats["write_error"] is None
    assert (
        {"work", "leaf"} <= stacks_of(ran.profile) <= {"<module>", "work", "leaf", "waits", "later", "afterwards", "<listcomp>"}
    )
    after = sum(total.samples for frames, total in ran.profile.aggregate().items() if any(f.name == "afterwards" for f in frames))
    assert after > 30, "no samples after the descriptors were closed"


@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_ticks_of_a_closed_event_are_not_another_thread_s(run_python, tmp_path, mode):
    """Where ticks come with a descriptor's number, that may be another thread's by now (no SIGTRAP: as before Linux 6.16). What
    was closed is missed after 85 ms or two, later where others compute."""
    ran = run_python("-c", WORK + f"""
import json, os, signal, threading, spprof
signal.signal(signal.SIGTRAP, lambda *_: None)
def of_main(): work(1.5)
def of_newborn(): work(1.5)
spprof.start(1, {mode!r}, {str(tmp_path / "out.spprof")!r})
work(0.1)
os.closerange(3, 4096)
newborn = threading.Thread(target=of_newborn, name="newborn")
newborn.start()
of_main()
newborn.join()
spprof.stop()
print(json.dumps(spprof.stats()))
""", cwd=tmp_path)  # fmt: skip
    stats = ran.json
    assert stats["expected"] == stats["taken"] + stats["repeated"] + sum(stats["losses"].values())
    seen = {(s.thread_name, f.name) for s in ran.profile.samples() for f in s.frames if f.name in ("of_main", "of_newborn")}
    assert seen == {("MainThread", "of_main"), ("newborn", "of_newborn")}


def test_threads_beyond_the_limit_of_timers_are_named_once(run_python, tmp_path):
    """Timers count as pending signals of the user (getrlimit(2), RLIMIT_SIGPENDING). A thread that gets none is tried again and
    again, and is in the profile when it has one."""
    ran = run_python("-c", f"""
import json, re, resource, threading, time
import spprof
used = int(re.search(r"SigQ:\\s+(\\d+)", open("/proc/self/status").read())[1])
resource.setrlimit(resource.RLIMIT_SIGPENDING, (used + 10, used + 10))
spprof.start(1, "cpu", {str(tmp_path / "out.spprof")!r}, clock="timer")
def spins():
    end = time.monotonic() + 0.5
    while time.monotonic() < end: pass
threads = [threading.Thread(target=spins) for _ in range(40)]
for thread in threads: thread.start()
for thread in threads: thread.join()
spprof.stop()
print(json.dumps(spprof.stats()))
""")  # fmt: skip
    tids = [thread.tid for thread in ran.profile.threads]
    assert len(tids) == len(set(tids)) > 1
