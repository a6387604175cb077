"""Systems that refuse: calls barred by seccomp as in containers, no /proc, disks that are full or read-only, a memory limit.
Either it works by another way, or it says clearly what is missing; the program goes on."""

import errno
import json
import os
import signal
import subprocess
import sys
from errno import ENOSYS, EPERM
from pathlib import Path

import pytest
from refused import CALLS, MORE
from switches import switch
from test_calls import compiled

import spprof
from spprof.model import OFF_CPU

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
def until(more):  # so many ticks more are taken: all of them in what calls this
    import spprof
    before = spprof.stats()["taken"]
    while spprof.stats()["taken"] < before + more:
        work(0.005)
def in_file(path, *names, thread=None):  # whether the profile that is being written has them
    import spprof
    spprof.flush()
    seen = {f.name for s in spprof.Profile.load(path) if thread in (None, s.thread_name) for f in s.frames}
    return seen.issuperset(names)
def until_seen(path, *names, by, seconds=100, thread=None):  # a limit that only a hang reaches
    late = time.monotonic() + seconds
    while not in_file(path, *names, thread=thread) and time.monotonic() < late:
        by()
"""
# AddressSanitizer reads /proc for itself, and maps what no limit allows.
not_sanitized = pytest.mark.skipif(switch("SPPROF_SANITIZED"), reason="AddressSanitizer itself cannot live so")


def stacks_of(profile):
    """The functions seen, after a check that each stack is one that WORK can have."""
    edges = {
        ("<module>", "work"),
        ("<module>", "until"),
        ("<module>", "until_seen"),
        ("<module>", "in_file"),
        ("<module>", "later"),
        ("<module>", "afterwards"),
        ("<module>", "waits"),
        ("<module>", "<lambda>"),
        ("until_seen", "in_file"),
        ("until_seen", "<lambda>"),
        ("until_seen", "afterwards"),
        ("<lambda>", "waits"),
        ("<lambda>", "work"),
        ("in_file", "<setcomp>"),
        ("until", "work"),
        ("later", "work"),
        ("later", "waits"),
        ("afterwards", "work"),
        ("work", "leaf"),
        ("leaf", "<listcomp>"),
    }
    seen = set()
    for frames in profile.aggregate():
        # One below the other: between are other modules', and those of dataclasses and named tuples have our file's name, too.
        ours = [(a, b) for a, b in zip(frames, frames[1:]) if a.file == b.file == "<string>"]
        assert all((a.name, b.name) in edges for a, b in ours), [f.name for f in frames]
        seen |= {f.name for f in frames if f.file == "<string>"}
    return seen


REFUSED = pytest.mark.parametrize(
    "refused, clock",
    [
        (["perf_event_open"], "signal"),
        (["process_vm_readv"], None),
        (["perf_event_open", "process_vm_readv"], "signal"),
        (["timer_create"], "signal"),
    ],
    ids=lambda value: "+".join(value) if isinstance(value, list) else None,
)


def ran_with_calls_refused(run_python, tmp_path, mode, refused, clock, error, seconds):
    out = tmp_path / "out.spprof"
    ran = run_python("-c", REFUSE + WORK + f"""
import json
refuse({refused}, {error})
import spprof
spprof.start(1, {mode!r}, {str(out)!r})
work({seconds})
until(30)
until_seen({str(out)!r}, "work", "leaf", by=lambda: work(0.02))
if {mode!r} == "wall": until_seen({str(out)!r}, "waits", by=lambda: waits(0.05))
spprof.stop()
print(json.dumps(spprof.stats()))
""")  # fmt: skip
    stats = ran.json
    assert stats["clock"] == clock or clock is None
    assert stats["expected"] == stats["taken"] + stats["repeated"] + sum(stats["losses"].values())
    assert stats["taken"] >= 30
    assert stacks_of(ran.profile) >= {"work", "leaf", *(["waits"] if mode == "wall" else [])}
    return ran


@pytest.mark.parametrize("error", [EPERM, pytest.param(ENOSYS, marks=pytest.mark.stress)])
@REFUSED
@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_calls_that_are_refused(run_python, tmp_path, mode, refused, clock, error):
    ran_with_calls_refused(run_python, tmp_path, mode, refused, clock, error, 0)


@pytest.mark.statistical("less than 1 in a million by chance: of 100 samples half would have to fall into a tenth of the time")
@REFUSED
@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_ticks_do_not_wait_for_a_system_call_where_calls_are_refused(run_python, tmp_path, mode, refused, clock):
    """work() spends its time in leaf(), and 1 us in 10 in a system call. A tick must not wait for that. (The kernel may,
    before it gives the processor to others: time off it is not asked.)"""
    ran = ran_with_calls_refused(run_python, tmp_path, mode, refused, clock, EPERM, 0.6)
    weights = {"leaf": 0, "work": 0}
    for sample in ran.profile:
        for name in weights.keys() & {f.name for f in sample.frames if not sample.flags & OFF_CPU}:
            weights[name] += sample.weight
    assert weights["leaf"] > weights["work"] / 2, weights


def test_no_clock_at_all_is_refused_clearly(run_python, tmp_path):
    ran = run_python("-c", REFUSE + WORK + f"""
refuse({["perf_event_open", "rt_tgsigqueueinfo", "timer_create"]})
import spprof
from spprof.model import OFF_CPU
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
until(3)
os.kill(1, signal.SIGTERM)
def later(): until(10)
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
    for _ in range(100):
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


def weights_without_proc(tmp_path, mode, seconds):
    out = tmp_path / "out.spprof"
    ran = in_namespace(["mount -t tmpfs none /proc"], "-c", WORK + f"""
import os, spprof, threading
assert not os.path.exists("/proc/self")
over = threading.Event()
def works():
    while not over.is_set(): leaf(200)
def follows():
    while not over.is_set(): leaf(200)
def seen_all(): return in_file({str(out)!r}, "<module>", "works", "follows", "leaf")
before = threading.Thread(target=works)
before.start()
spprof.start(1, {mode!r}, {str(out)!r})
after = threading.Thread(target=follows)
after.start()
late = time.monotonic() + 100
while not seen_all() and time.monotonic() < late: work(0.05)
work({seconds})
over.set()
before.join()
after.join()
spprof.stop()
""")  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return {function.name: function.total_weight for function in spprof.Profile.load(out).functions()}


@not_sanitized
@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_without_proc_the_threads_that_python_knows_are_sampled(tmp_path, mode):
    assert {"<module>", "works", "follows", "leaf"} <= weights_without_proc(tmp_path, mode, 0).keys()


@not_sanitized
@pytest.mark.statistical("none by chance; on a full machine half of a second's weight would have to be missing")
@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_without_proc_the_weights_are_right(tmp_path, mode):
    weights = weights_without_proc(tmp_path, mode, 1.0)
    assert weights["leaf"] > 0.5e9, weights


@not_sanitized
@pytest.mark.statistical("none by chance; nothing says that the thread waits for the sampler: 3 of 100 samples were taken")
def test_without_proc_a_thread_on_the_samplers_processor_is_sampled(tmp_path):
    ran = in_namespace(["umount -l /proc"], "-c", WORK + f"""
import json, os, spprof
os.sched_setaffinity(0, {{min(os.sched_getaffinity(0))}})
spprof.start(1, "cpu", {str(tmp_path / "out.spprof")!r}, clock="signal")
work(0.5)
spprof.stop()
print(json.dumps(spprof.stats()))
""")  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    stats = json.loads(ran.stdout)
    assert stats["taken"] > stats["expected"] / 2


def test_a_full_disk_is_reported_and_costs_the_program_nothing(tmp_path):
    """A file system of 16 KiB; the recording wants more."""
    folder = tmp_path / "small"
    folder.mkdir()
    ran = in_namespace([f"mount -t tmpfs -o size=16k none {folder}"], "-c", WORK + f"""
import json, spprof
spprof.start(0.1, "cpu", {str(folder / "out.spprof")!r})
until(10)
spprof.flush()  # these have a place
spaces, n = [], 0
while not spprof.stats()["write_error"]:
    n += 1
    space = dict()
    exec(f"def made_{{n}}(k):\\n    return sum([i for i in range(k)])", space)
    spaces.append(space)
    space[f"made_{{n}}"](3000)
try:
    profile = spprof.stop()
    print(json.dumps([spprof.stats()["write_error"], profile.unfinished, sum(1 for _ in profile.samples())]))
except spprof.SpprofError as error:
    print(json.dumps([spprof.stats()["write_error"], str(error), -1]))
print("the program went on")
""")  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.endswith("the program went on\n"), ran.stdout
    error, warning, samples = json.loads(ran.stdout.splitlines()[0])
    assert error == os.strerror(28) and "the disk is full" in warning, (error, warning)
    assert samples >= 10


limited = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit of a file's size")
FILLS = (
    WORK
    + """
import json, os, resource, signal, sys, spprof
def limit(size):
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # which ends the process, if one of its threads gets it
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, -1))
def fill(enough):
    spaces = []
    while not enough():
        space, name = dict(), "made_" + os.urandom(100).hex()
        exec(f"def {name}(k): return sum([i for i in range(k)])", space)
        spaces.append(space)
        space[name](3000)
"""
)
STOPPED = "the recording stopped early: the limit on the size of files was reached (ulimit -f)"


def check_stopped(profile, size=None):
    """Whole up to where it stops; every tick is in the file or said to be missing."""
    stats, end = profile.stats, profile.end
    assert profile.warning is None and end["write_error"] == errno.EFBIG and "cut" not in end
    assert profile.unfinished.startswith(STOPPED) and f"{end['unwritten']:,} ticks are lost" in profile.unfinished
    assert stats["write_error"] == os.strerror(errno.EFBIG)
    assert stats["losses"]["not_written"] == end["unwritten"] > 0
    assert sum(profile.column("count")) == stats["taken"] + stats["repeated"]
    assert stats["expected"] == stats["taken"] + stats["repeated"] + sum(stats["losses"].values())
    assert size is None or len(profile.raw()) <= size


@limited
@pytest.mark.parametrize("more", [1, 100, 4096, 65536])
@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_a_limit_on_the_size_of_files_during_a_run(run_python, tmp_path, mode, more):
    """What fails may be any block. Wherever it stops, it is whole, and ends with why: the names are longer than that."""
    ran = run_python("-c", FILLS + f"""
path = {str(tmp_path / "out.spprof")!r}
spprof.start(0.1, {mode!r}, path)
fill(lambda: spprof.stats()["taken"] >= 20)
spprof.pause()
spprof.flush()
size = os.path.getsize(path) + {more}
limit(size)
spprof.resume()
fill(lambda: spprof.stats()["write_error"])
profile = spprof.stop()
print(json.dumps([size, profile.unfinished, len(profile)]))
""")  # fmt: skip
    size, unfinished, samples = ran.json
    profile = spprof.Profile.load(tmp_path / "out.spprof")
    check_stopped(profile, size)
    assert unfinished == profile.unfinished and samples == len(profile)


@limited
@pytest.mark.parametrize("size", [0, 200])
def test_a_profile_without_space_for_its_header_is_refused(run_python, tmp_path, size):
    ran = run_python("-c", FILLS + f"""
limit({size})
try: spprof.start(output_path={str(tmp_path / "out.spprof")!r})
except spprof.CannotWrite as error: print(json.dumps(str(error)))
assert not spprof.is_active()
""")  # fmt: skip
    assert ran.json == f"the profile cannot be written: {os.strerror(errno.EFBIG)}"


def recorded(tmp_path, text, *options):
    (tmp_path / "program.py").write_text(text)
    command = [sys.executable, "-m", "spprof", "run", "--interval", "0.1", *options, "-o", "out.spprof", "program.py"]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, cwd=tmp_path)


@limited
@pytest.mark.parametrize("more", [None, 1, 4096, 65536])
def test_spprof_run_says_what_stopped_the_recording(tmp_path, more):
    """A program that is over the limit is ended by its own write alone, not by one of ours. `more`: than the file has already;
    None: the limit is 0, and no end of the profile fits."""
    ran = recorded(tmp_path, FILLS + f"""
spprof.flush()
limit(0 if {more} is None else os.path.getsize("out.spprof") + {more})
fill(lambda: spprof.stats()["write_error"])
try: spprof.flush()
except spprof.CannotWrite as error: print(error)
print(resource.getrlimit(resource.RLIMIT_FSIZE)[0], flush=True)
with open("own", "wb", 0) as own:
    while True: own.write(bytes(100000))  # the first one may be cut short
""")  # fmt: skip
    error, size = ran.stdout.splitlines()
    assert error.endswith(os.strerror(errno.EFBIG)) and (tmp_path / "own").stat().st_size == int(size)
    assert ran.returncode == -signal.SIGXFSZ
    profile = spprof.Profile.load(tmp_path / "out.spprof")
    if more is None:
        assert f"({signal.SIGXFSZ.name})" in profile.unfinished
    else:
        assert profile.unfinished.startswith(STOPPED)
    assert f"Warning: {profile.unfinished}." in ran.stderr and "incomplete)." in ran.stderr


@limited
@pytest.mark.parametrize("more", [4096, 65536])
def test_spprof_run_says_how_many_ticks_were_lost_to_a_limit(tmp_path, more):
    ran = recorded(tmp_path, FILLS + f"""
spprof.pause()
spprof.flush()
limit(os.path.getsize("out.spprof") + {more})
spprof.resume()
fill(lambda: spprof.stats()["write_error"])
""")  # fmt: skip
    assert ran.returncode == 0
    profile = spprof.Profile.load(tmp_path / "out.spprof")
    check_stopped(profile)
    assert f"Warning: {profile.unfinished}." in ran.stderr and "incomplete)." in ran.stderr
    command = [sys.executable, "-m", "spprof", "report", tmp_path / "out.spprof"]
    report = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    assert report.stdout.startswith(f"Warning: {profile.unfinished}.\n")


@pytest.mark.parametrize("removed", ["file", "folder"])
def test_an_output_that_is_removed_meanwhile(run_python, tmp_path, removed):
    folder = tmp_path / "gone"
    folder.mkdir()
    ran = run_python("-c", WORK + f"""
import os, shutil, spprof
spprof.start(0.1, "cpu", {str(folder / "out.spprof")!r})
until(20)
os.unlink({str(folder / "out.spprof")!r}) if {removed == "file"} else shutil.rmtree({str(folder)!r})
while spprof.stats()["taken"] <= 100:
    work(0.01)
try:
    print(sum(1 for _ in spprof.stop().samples()))
except spprof.SpprofError as error:
    print("error", error)
""")  # fmt: skip
    assert ran.out.split()[0] == "error" or int(ran.out) > 100, ran.out


def test_a_read_only_folder_is_refused_before_anything_starts(tmp_path):
    folder = tmp_path / "fixed"
    folder.mkdir()
    ran = in_namespace([f"mount -t tmpfs -o ro none {folder}"], "-c", WORK + f"""
import spprof
from spprof.model import OFF_CPU
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
    waits(seconds); work(seconds)
def afterwards(seconds=0.02):
    work(seconds)
spprof.start(1, {mode!r}, {str(tmp_path / "out.spprof") if named else None!r})
other = threading.Thread(target=later, args=[0.1])
other.start()
until(10)
numbers = set()
for fd in range(3, 100):
    try: numbers.add((os.fstat(fd).st_dev, os.fstat(fd).st_ino))
    except OSError: pass
os.closerange(3, 4096)
files = []
again = []
for i in range(100):
    files.append(open(f"own.{{i}}", "w+"))
    own = os.fstat(files[i].fileno())
    if (own.st_dev, own.st_ino) in numbers: again.append(i)
afterwards(0.1)
if {named}: until_seen({str(tmp_path / "out.spprof")!r}, "afterwards", "work", "leaf", by=afterwards)
other.join()
problem = None
try:
    spprof.stop()
except spprof.CannotWrite as error:
    problem = str(error)
for file in files:
    file.write("mine")
    file.close()
print(json.dumps([problem, spprof.stats(), again]))
""", cwd=tmp_path)  # fmt: skip
    problem, stats, again = ran.json
    assert again == [], "a file of the program's has the number that was the profile's, and is taken for it"
    assert [(tmp_path / f"own.{i}").read_text() for i in range(100)] == ["mine"] * 100
    assert stats["expected"] == stats["taken"] + stats["repeated"] + sum(stats["losses"].values())
    if not named:
        assert "output_path" in problem and stats["write_error"]
        return
    assert problem is None and stats["write_error"] is None
    assert stacks_of(ran.profile) >= {"work", "leaf", "afterwards"}, "no samples after the descriptors were closed"


@pytest.mark.skipif(sys.platform != "linux", reason="finds descriptors by /proc")
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
def test_a_program_that_closes_one_of_the_outputs_descriptors(run_python, tmp_path, named, which):
    """By a mistake of its own, one that it no longer has. There are two, and with either of them the profile is whole."""
    ran = run_python("-c", WORK + f"""
import json, os, spprof
spprof.start(1, "cpu", {str(tmp_path / "out.spprof") if named else None!r})
def leads(fd): return os.path.realpath(f"/proc/self/fd/{{fd}}").endswith(("out.spprof", "(deleted)"))
ours = sorted(int(fd) for fd in os.listdir("/proc/self/fd") if leads(fd))
os.close(ours[{which}])
def later(): until(10)
later()
try: profile = spprof.stop()
except spprof.CannotWrite: profile = None
names = profile and [f.name for s in profile.samples() for f in s.frames]
print(json.dumps([len(ours), spprof.stats()["write_error"], profile and "later" in names, profile and profile.warning]))
""")  # fmt: skip
    # Without a name there is no other way to it than Python's own, the first one.
    read = [None, None] if not named and which == 0 else [True, None]
    assert ran.json == [2, None, *read]


NO_TABLES = pytest.mark.skipif(sys.platform != "linux", reason="no tables of descriptors of threads")


@NO_TABLES
@pytest.mark.parametrize("which", ["both", 0, 1])
def test_a_file_that_the_program_closed_once_is_out_of_its_reach(run_python, tmp_path, which):
    """What it has of it afterwards is Python's descriptor, or none; nobody else gets the file, and all of it is written."""
    ran = run_python("-c", WORK + f'''
import json, os, spprof, subprocess, sys
path, which = {str(tmp_path / "out.spprof")!r}, {which!r}
spprof.start(1, "cpu", path)
def ours():
    links = [(int(fd), os.path.realpath(f"/proc/self/fd/{{fd}}")) for fd in os.listdir("/proc/self/fd")]
    return sorted(fd for fd, link in links if link == path)
before = ours()
own = [os.dup(1) for fd in before]
for fd, number in zip(own, before):
    if which == "both" or number == before[which]: os.dup2(fd, number)  # its own now
    os.close(fd)
spprof.flush()
after = ours()
still = [os.fstat(fd).st_ino == os.fstat(1).st_ino for fd in before if fd not in after]
other = """
import spprof, sys
try: spprof.start(output_path=sys.argv[1])
except spprof.CannotWrite: print("refused")
"""
refused = subprocess.run([sys.executable, "-c", other, path], stdout=subprocess.PIPE, text=True).stdout
def later(): until(10)
later()
if which != "both": os.closerange(3, 4096)
spprof.flush()
until(3)
profile = spprof.stop()
names = [f.name for s in profile.samples() for f in s.frames]
print(json.dumps([[len(before), len(after)], still, refused, "later" in names, profile.warning, profile.end["reason"]]))
''')  # fmt: skip
    left = {"both": 0, 0: 1, 1: 1}[which]
    assert ran.json == [[2, left], [True] * (2 - left), "refused\n", True, None, "stop"]


def test_a_lock_that_is_let_go_late_is_waited_for(run_python, tmp_path):
    """Of a descriptor that the program closed: the kernel lets go of it later, a child that is just being made later still. It is
    waited for half a second; a try in which the machine let it go later says nothing."""
    if not hasattr(os, "fork"):
        pytest.skip("a lock of Windows goes with its handle")
    ran = run_python("-c", WORK + f"""
import fcntl, json, os, spprof, threading
path = {str(tmp_path / "out.spprof")!r}
def locked():
    os.dup2(os.open(path, os.O_RDONLY), 3)
    os.closerange(4, 4096)
    closed = time.monotonic()
    try: fcntl.flock(3, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError: return None  # it has its lock again already
    return closed
def let_go():
    fcntl.flock(3, fcntl.LOCK_UN)
    let.append(time.monotonic())
def later(): until(10)
while True:
    spprof.start(1, "cpu", path)
    closed, let = locked(), []
    if closed is None:
        spprof.stop()
        continue
    timer = threading.Timer(0.03, let_go)
    timer.start()
    spprof.flush()
    timer.join()
    if let[0] - closed < 0.4: break
    try: spprof.stop()
    except spprof.CannotWrite: pass
later()
profile = spprof.stop()
print(json.dumps(["later" in [f.name for s in profile.samples() for f in s.frames], profile.end["reason"], profile.warning]))
""")  # fmt: skip
    assert ran.json == [True, "stop", None]


@pytest.mark.skipif(os.name == "nt", reason="Windows writes by a handle")
def test_nothing_that_c_code_prints_goes_into_the_profile(run_python, tmp_path):
    """Where standard output and error are closed, the next file that is opened has their numbers."""
    run_python("-c", WORK + f"""
import os, spprof
os.close(1)
os.close(2)
spprof.start(1, "cpu", {str(tmp_path / "out.spprof")!r})
for _ in range(5):
    until(3)
    for fd in (1, 2):
        try: os.write(fd, b"a library prints this")
        except OSError: pass
    spprof.flush()
spprof.stop()
os._exit(0)
""")  # fmt: skip
    profile = spprof.Profile.load(tmp_path / "out.spprof")
    assert profile.warning is None and profile.end["reason"] == "stop" and len(list(profile.samples())) > 0


def closes_every_descriptor_again_and_again(run_python, tmp_path, seconds):
    """What nothing ticked for is counted."""
    ran = run_python("-c", WORK + f"""
import json, os, time, spprof
try: spprof.start(0.1, "cpu", {str(tmp_path / "out.spprof")!r}, clock="perf")
except spprof.Unsupported: print("null"); os._exit(0)
late = time.monotonic() + 100
while time.thread_time() < {seconds} or (not spprof.stats()["losses"]["no_trigger"] and time.monotonic() < late):
    until = time.monotonic() + 0.001
    while time.monotonic() < until: sum(range(50))
    os.closerange(3, 4096)
spprof.stop()
print(json.dumps(spprof.stats()))
""", cwd=tmp_path)  # fmt: skip
    stats = ran.json
    if stats is None:
        pytest.skip("no perf events here")
    assert stats["losses"]["no_trigger"] > 0
    assert stats["expected"] == stats["taken"] + stats["repeated"] + sum(stats["losses"].values())
    return stats


def test_a_program_that_closes_every_descriptor_again_and_again(run_python, tmp_path):
    closes_every_descriptor_again_and_again(run_python, tmp_path, 0.1)


@pytest.mark.statistical("none by chance; a full machine may shift a tenth of half a second, how often was not measured")
def test_what_nothing_ticked_for_is_counted_in_full(run_python, tmp_path):
    stats = closes_every_descriptor_again_and_again(run_python, tmp_path, 0.6)
    assert stats["expected"] * stats["interval_ns"] == pytest.approx(stats["cpu_ns"], rel=0.1)


@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_ticks_of_a_closed_event_are_not_another_thread_s(run_python, tmp_path, mode):
    """Where ticks come with a descriptor's number, that may be another thread's by now (no SIGTRAP: as before Linux 6.16). What
    was closed is missed after 85 ms or two, later where others compute."""
    ran = run_python("-c", WORK + f"""
import json, os, signal, threading, spprof
signal.signal(signal.SIGTRAP, lambda *_: None)
over = threading.Event()
def all_seen():
    path = {str(tmp_path / "out.spprof")!r}
    return in_file(path, "of_main", thread="MainThread") and in_file(path, "of_newborn", thread="newborn")
def of_main():
    late = time.monotonic() + 100
    while time.monotonic() < late and not all_seen(): work(0.1)
def of_newborn():
    while not over.is_set(): work(0.02)
spprof.start(1, {mode!r}, {str(tmp_path / "out.spprof")!r})
work(0.1)
os.closerange(3, 4096)
newborn = threading.Thread(target=of_newborn, name="newborn")
newborn.start()
of_main()
over.set()
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
    again, and is in the profile when it has one. Other processes of the user's come and go: the limit goes with them."""
    ran = run_python("-c", WORK + f"""
import json, re, resource, threading, time
import spprof
most = resource.getrlimit(resource.RLIMIT_SIGPENDING)[1]
with spprof.Profiler(1): pass  # what reads a profile is imported before so many threads want the GIL
def limit():
    used = int(re.search(r"SigQ:\\s+(\\d+)", open("/proc/self/status").read())[1])
    resource.setrlimit(resource.RLIMIT_SIGPENDING, (used + 4, most))
late = time.monotonic() + 100
while not spprof.is_active():
    limit()
    try: spprof.start(1, "cpu", {str(tmp_path / "out.spprof")!r}, clock="timer")
    except (OSError, spprof.SpprofError):
        if time.monotonic() > late: raise
over = False
def spins():
    while not over: leaf(200)
threads = [threading.Thread(target=spins) for _ in range(12)]
for thread in threads: thread.start()
def threads_seen():
    spprof.flush()
    return {{thread.tid for thread in spprof.Profile.load({str(tmp_path / "out.spprof")!r}).threads}}
while len(threads_seen()) < 2 and time.monotonic() < late:
    limit()
    time.sleep(0.05)
over = True
for thread in threads: thread.join()
spprof.stop()
print(json.dumps(spprof.stats()))
""")  # fmt: skip
    tids = [thread.tid for thread in ran.profile.threads]
    assert len(tids) == len(set(tids)) > 1


def test_a_start_that_fails_leaves_what_was_in_the_file(run_python, tmp_path):
    """It may fail at any of its steps, the last of which is a thread that the system refuses."""
    ran = run_python("-c", f"""
import json, os, spprof
from pathlib import Path
file = Path({str(tmp_path / "precious.spprof")!r})
file.write_text("precious" * 100)
def refused(**options):
    try: spprof.start(output_path=file, **options)
    except (spprof.SpprofError, RuntimeError) as error: return type(error).__name__, file.read_text() == "precious" * 100
import resource
resource.setrlimit(resource.RLIMIT_AS, (int(open("/proc/self/statm").read().split()[0]) * 4096 + (6 << 20), -1))
made = [refused(), refused(mode="wall")]  # no space for a thread's stack
file.unlink()
try: spprof.start(output_path=file)
except (spprof.SpprofError, RuntimeError): made.append(["gone", not file.exists()])
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
file.write_text("precious" * 100)
made += [refused(mode="neither"), refused(clock="none")]
print(json.dumps(made))
""")  # fmt: skip
    assert [kept for _, kept in ran.json] == [True] * 5, ran.json


@pytest.mark.skipif(sys.platform != "linux", reason="by a library that is preloaded")
@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_a_start_for_which_the_system_refuses_a_thread(run_python, tmp_path, mode):
    """Each of them in turn, the one that writes too: what was in the file is still there."""
    library = compiled(tmp_path, "no_thread")
    ran = run_python("-c", f"""
import ctypes, json, os, spprof, time
from pathlib import Path
library = ctypes.CDLL({str(library)!r})
file = Path("precious.spprof")
spprof.start(mode={mode!r})
spprof.stop()
def left(): return len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
def is_left(wanted):  # a thread that was waited for is in the folder until the kernel has done with it
    late = time.monotonic() + 10
    while left() != wanted and time.monotonic() < late: time.sleep(0.001)
    return left() == wanted
before, failed = left(), []
while left() != before: before = left()
for n in range(20):
    file.write_text("precious")
    library.grant(n)
    try: spprof.start(output_path=file, mode={mode!r})
    except spprof.SpprofError: failed.append([file.read_text(), is_left(before)])
    library.grant(-1)
    if spprof.is_active(): break
spprof.stop()
print(json.dumps(failed))
""", env={"LD_PRELOAD": str(library)}, timeout=60)  # fmt: skip
    assert len(ran.json) > 1 and ran.json == [["precious", True]] * len(ran.json)


@pytest.mark.parametrize("options", ["", "native=True", "clock='signal', native=True", "mode='wall'", "mode='wall', native=True"])
def test_threads_with_descriptors_of_their_own_do_not_call_the_programs_allocator(run_python, tmp_path, options):
    """One that is preloaded may open files (tcmalloc walks stacks by libunwind, which makes a pipe), in their table of
    descriptors: by those numbers it wrote to the program's standard output."""
    if "asan" in os.environ.get("LD_PRELOAD", ""):
        pytest.skip("under sanitizers our memory is malloc's")
    ran = run_python("-c", WORK + f"""
import ctypes, json, threading, time, spprof
library = ctypes.CDLL(None)
library.caller.restype = ctypes.c_char_p
def each():
    for i in range(20):
        exec(f"def f{{i}}(n): return sum(k for k in range(n))\\nf{{i}}(20000)")
        time.sleep(0.002)
with spprof.Profiler(0.2, {options}) as p:
    for n in range(8):
        threads = [threading.Thread(target=each) for _ in range(4)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
    until(20)
callers = {{}}
for name in iter(lambda: library.caller(len(callers)), None): callers[name.decode()] = library.calls(len(callers))
print(json.dumps([p.profile.stats["taken"], callers]))
""", env={"LD_PRELOAD": str(compiled(tmp_path, "allocator"))}, timeout=120)  # fmt: skip
    taken, callers = ran.json
    assert taken >= 20
    assert callers == {}


def test_a_second_profile_to_the_same_file_is_refused(run_python, tmp_path):
    """Of another process, however it names the file; not when the first one is done."""
    ran = run_python("-c", WORK + '''
import json, os, subprocess, sys, spprof
path = "out.spprof"
other = """
import spprof, sys
try: spprof.start(output_path=sys.argv[1])
except spprof.CannotWrite as error: print(error)
else: spprof.stop()
"""
def asks(name="out.spprof"):
    return subprocess.run([sys.executable, "-c", other, name], stdout=subprocess.PIPE, text=True).stdout
os.symlink("out.spprof", "link.spprof")
spprof.start(1, output_path=path)
until(10)
said = [asks(), asks("link.spprof")]
spprof.flush()
said.append(len(spprof.Profile.load(path)) > 0 and "readers ask nothing")
profile = spprof.stop()
said += [profile.warning, profile.header["pid"] == os.getpid()]
child = subprocess.Popen(["sleep", "60"], close_fds=False)
said.append(asks())
child.kill()
spprof.start(output_path="/dev/null")
said.append(asks("/dev/null"))
spprof.stop()
print(json.dumps(said))
''')  # fmt: skip
    said = ran.json
    where = f"cannot write {tmp_path}/%s: another profile is being written to it\n"
    assert said[:2] == [where % "out.spprof", where % "link.spprof"]
    assert said[2:] == ["readers ask nothing", None, True, "", ""]


def test_a_file_is_taken_no_longer_than_its_process_writes(run_python):
    """Killed, or forked: the child has none of it, and may not write there while its parent does."""
    if not hasattr(os, "fork"):
        pytest.skip("Windows has no fork")
    ran = run_python("-c", WORK + """
import json, os, signal, time, spprof
def child(body):
    pid = os.fork()
    if pid == 0:
        try: body()
        except spprof.CannotWrite: os._exit(7)
        os._exit(0)
    return os.waitpid(pid, 0)[1]
def begins(): spprof.start(output_path="out.spprof")
def ends():
    begins()
    os.kill(os.getpid(), signal.SIGKILL)
said = [child(ends)]
spprof.start(output_path="out.spprof")
said += [child(begins) >> 8]
reading, writing = os.pipe()
pid = os.fork()  # it lives on, as a daemon does
if pid == 0:
    os.close(writing)
    os.read(reading, 1)
    os._exit(0)
spprof.stop()
for _ in range(3):
    begins()
    spprof.stop()
os.close(writing)
os.waitpid(pid, 0)
print(json.dumps(said + [spprof.Profile.load("out.spprof").end["reason"]]))
""")  # fmt: skip
    assert ran.json == [9, 7, "stop"]


def test_a_file_that_somebody_looks_at_is_waited_for(run_python):
    """Looking has the file locked for a moment. It is waited for a quarter of a second. A try says nothing if the machine let the
    file go later, or wrote nothing for a second."""
    if not hasattr(os, "fork"):
        pytest.skip("nothing is looked at there")
    ran = run_python("-c", """
import fcntl, json, os, spprof, time
open("out.spprof", "w").close()
while True:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        file = open("out.spprof")
        fcntl.flock(file, fcntl.LOCK_SH)
        os.write(writing, b"locked".ljust(32))
        time.sleep(0.03)
        fcntl.flock(file, fcntl.LOCK_UN)
        os.write(writing, str(time.monotonic()).encode().ljust(32))
        os._exit(0)
    os.read(reading, 32)
    began, refused = time.monotonic(), None
    try: spprof.start(output_path="out.spprof")
    except spprof.CannotWrite as error: refused = str(error)
    else: spprof.stop()
    let = float(os.read(reading, 32))
    os.waitpid(pid, 0)
    if began < let < began + 0.2: break
print(json.dumps(refused))
""", timeout=120)  # fmt: skip
    assert ran.json is None


@pytest.mark.stress
def test_a_check_whether_a_file_is_being_written_is_in_nobodys_way(run_python):
    """Looking has the file locked for a moment."""
    if not hasattr(os, "fork"):
        pytest.skip("nothing is looked at there")
    ran = run_python("-c", """
import os, signal, spprof
from spprof.files.writing import is_being_written
open("out.spprof", "w").close()
pid = os.fork()
if pid == 0:
    while True: is_being_written("out.spprof")
begun = 0
try:
    for _ in range(60):
        spprof.start(output_path="out.spprof")
        begun += 1
        spprof.stop()
except spprof.CannotWrite as error: print(error)
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
print(begun)
""", timeout=120)  # fmt: skip
    assert ran.json == 60, ran.out


# Of a thread of Python's that computes, and ends.
COMPUTES = ["futex", "mmap", "munmap", "mprotect", "madvise", "brk", "sched_yield", "exit", "clock_gettime", "rt_sigprocmask"]


def calls_on_threads_of_the_program():
    text = (Path(__file__).resolve().parent.parent.parent / "csrc" / "README.md").read_text()
    rows = [line.split("|")[2] for line in text.splitlines() if line.startswith(("| handler, on the", "| a program's thread"))]
    assert len(rows) == 2
    return sorted({word.strip("`") for row in rows for word in row.split() if word.startswith("`")})


@not_sanitized
@pytest.mark.skipif(not MORE, reason="the numbers of the system calls are not known here")
@pytest.mark.parametrize("mode, clock, native", [
    ("cpu", "auto", False), ("wall", "auto", False), ("cpu", "signal", False), ("wall", "timer", False), ("cpu", "auto", True),
])  # fmt: skip
def test_a_sandbox_meets_no_call_that_is_not_listed(mode, clock, native, run_python, monkeypatch):
    """It ends the program for any other, on the thread that put it on: code is made there and dies all the time. (glibc's heap of
    a thread opens a file of /proc when it shrinks, without spprof too; the heap of all threads does not.)"""
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    ran = run_python("-c", REFUSE + """
import json, threading, refused, spprof
listed, mode, clock, native = json.loads(sys.argv[1])
def sandboxed():
    refused.allow_only(listed)
    while spprof.stats()["taken"] < wanted:
        exec("def made(n): return sum(range(n))\\nmade(3000)", {})
spprof.start(output_path="out.spprof", mode=mode, clock=clock, native=native, rate=5000)
wanted = spprof.stats()["taken"] + 200
thread = threading.Thread(target=sandboxed)
thread.start()
thread.join()
spprof.stop()
""", json.dumps([sorted({*COMPUTES, *calls_on_threads_of_the_program()}), mode, clock, native]), ok=False)  # fmt: skip
    assert ran.code == 0, ran.err[-2000:]
    assert "sandboxed" in {frame.name for sample in ran.profile.samples() for frame in sample.frames}


# ---- filters that the program puts on all its threads, ours too


@not_sanitized
@pytest.mark.parametrize("mode", ["cpu", "wall"])
@pytest.mark.parametrize("refused, kill", [
    (["process_vm_readv", "perf_event_open", "timer_create"], True), (["process_vm_readv"], False),
    (["openat", "timer_create", "timer_settime"], False),
])  # fmt: skip
def test_a_filter_for_all_threads_ends_nobody(mode, refused, kill, run_python):
    """A profile is over before a filter that would end our threads, and says so; the program, its threads and its forked child
    live on. One by which our calls only fail where there is another way ends nothing."""
    ran = run_python("-c", REFUSE + WORK + f"""
import json, os, threading, warnings, spprof
spprof.Profile  # its module, which may not be read later; 3.15 reads `warnings` at a fork
spprof.start(1, {mode!r}, "out.spprof")
over = False
def back():
    while not over: leaf(200)
thread = threading.Thread(target=back)
thread.start()
until(20)
refuse({refused}, kill={kill}, all_threads=True)
before = spprof.stats()["taken"]
if {kill}: work(0.05)
else: until(20)
exec("def made(n): return sum(range(n))\\nmade(3000)", {{}})
pid = os.fork()
if pid == 0:
    leaf(1000)
    os._exit(5)
code = os.waitpid(pid, 0)[1] >> 8
over = True
thread.join()
went_on = spprof.stats()["taken"] > before
spprof.stop()
again = False
if {kill}:
    try: spprof.start(output_path="again.spprof")
    except (spprof.SpprofError, RuntimeError): again = True
print(json.dumps([code, again, went_on]))
""", timeout=120)  # fmt: skip
    code, refused_again, went_on = ran.json
    assert code == 5 and refused_again is kill
    assert ran.profile.end["reason"] == ("seccomp" if kill else "stop")
    assert went_on is not kill
    assert ("filter of system calls" in (ran.profile.unfinished or "")) is kill
    assert "leaf" in {frame.name for sample in ran.profile.samples() for frame in sample.frames}


@not_sanitized
@pytest.mark.parametrize("clock", ["perf", "signal"])
def test_a_filter_of_what_one_clock_alone_needs(clock, run_python):
    """The handler of perf events changes their period by an ioctl, for which the filter ends the program."""
    ran = run_python("-c", REFUSE + WORK + f"""
import json, threading, spprof
try: spprof.start(1, output_path="out.spprof", clock={clock!r})
except spprof.SpprofError as error: print(json.dumps(None)); sys.exit()
def confined():
    until(20)
    refuse(["ioctl"], kill=True)
    before = spprof.stats()["taken"]
    if {clock == "signal"}: until(20)
    else: work(0.05)
    went_on.append(spprof.stats()["taken"] > before)
went_on = []
thread = threading.Thread(target=confined)
thread.start()
thread.join()
spprof.stop()
print(json.dumps(went_on[0]))
""", ok=False)  # fmt: skip
    assert ran.code == 0, ran.err[-2000:]
    if ran.json is None:
        pytest.skip("this clock does not work here")
    assert ran.profile.end["reason"] == ("seccomp" if clock == "perf" else "stop")
    assert ran.json is (clock == "signal")


@not_sanitized
@pytest.mark.parametrize("refused", ["timer_settime", "perf_event_open"])
def test_a_filter_of_what_the_handler_can_do_without_is_noted(refused, run_python):
    """timer_settime() brings samples of calls late; perf_event_open() is no call on threads of the program."""
    ran = run_python("-c", REFUSE + f"""
import json, spprof
try: spprof.start(1, output_path="out.spprof", clock="signal")
except spprof.SpprofError as error: print(json.dumps(None)); sys.exit()
before = spprof.stats()["confined"]
refuse([{refused!r}])
after = spprof.stats()["confined"]
spprof.stop()
print(json.dumps([before, after, spprof.stats()["confined"]]))
""")  # fmt: skip
    if ran.json is None:
        pytest.skip("this clock does not work here")
    noted = int(refused == "timer_settime")
    assert ran.json == [0, noted, noted]


@not_sanitized
@pytest.mark.parametrize("way", ["fork", "exec"])
def test_children_of_a_confined_thread_are_not_profiled_and_live(way, tmp_path):
    """The filter is theirs too, and ours would be ended by it: in the parent after a fork, in the child, in what it executes."""
    program = tmp_path / "program.py"
    program.write_text(REFUSE + WORK + f"""
import os, spprof
until(20)
refuse(["process_vm_readv", "perf_event_open", "timer_create"], kill=True)
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        work(0.02)
        if {way!r} == "exec": os.execv(sys.executable, [sys.executable, "-c", "sum(range(3000000)); raise SystemExit(5)"])
        os._exit(5)
    print(os.waitpid(pid, 0)[1] >> 8)
work(0.05)
until(20)
""")  # fmt: skip
    ran = subprocess.run(
        [sys.executable, "-m", "spprof", "run", "--subprocesses", "-o", "out.spprof", program],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout) == (0, "5\n" * 3), ran.stderr
    assert ran.stderr.count("is not profiled") == 3, ran.stderr
    assert spprof.Profile.load(tmp_path / "out.spprof").end["reason"] == "stop"
