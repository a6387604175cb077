"""Why threads wait: programs whose threads wait for known reasons, for known times."""

import json
import os
import sys
import sysconfig

import pytest
from ran import TARGETS
from switches import core_of_linux

import spprof
from spprof import Profile
from spprof.cli import main
from spprof.report.waits import waits

pytestmark = pytest.mark.skipif(not core_of_linux(), reason="only Linux says what a thread waits for")
GIL = not sysconfig.get_config_var("Py_GIL_DISABLED")
REASONS = {
    "waits_sleep": "sleep",
    "waits_select": "sleep",
    "waits_lock": "lock",
    "waits_event": "lock",
    "waits_queue": "lock",
    "waits_pipe": "io",
    "waits_select_pipe": "io",
    "waits_socket": "io",
    "waits_poll": "io",
    "waits_unix": "io",
    "waits_accept": "idle",
    "waits_select_server": "idle",
    "waits_poll_server": "idle",
    "waits_child": "child",
    "waits_epoll": "idle",
    "pool_0": "idle",
}
# What the machine and the interpreter do to any thread, whatever it asked for. `unknown`: the sampler did not run.
ANY = {"running", "ready", "gil", "kernel", "unknown"}


@pytest.fixture(scope="module", params=["python", "native"])
def waiting(request, run_once):
    ran = run_once("waiting", request.param)
    return ran.json, ran.profile, ran.path


def times_of(profile):
    """(thread's name, reason) -> ns."""
    found = {}
    for sample, reason in zip(profile.samples(), profile.column("reason")):
        key = sample.thread_name, profile.reasons[reason]
        found[key] = found.get(key, 0) + sample.weight
    return found


NAPS = """
import json, os, sys, time
import spprof
def counted():  # at least, at most: it may lose the processor between two clocks
    since = time.monotonic_ns()
    ran, ready = map(int, open("/proc/thread-self/schedstat").read().split()[:2])
    return {"ready": (ready, ready), "sleep": (since - ran - ready, time.monotonic_ns() - ran - ready)}
pid = os.getpid()
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
if os.fork() == 0:
    while os.getppid() == pid: sum(range(1000))
    os._exit(0)
outside = counted()
spprof.start(mode="wall", output_path="p.spprof")
inside = counted()
while (now := counted())["ready"][0] - inside["ready"][0] < 1.5e9:
    time.sleep(0.001)
    sum(range(20_000))
spprof.stop()
last = counted()
print(json.dumps({reason: (now[reason][0] - inside[reason][1], last[reason][1] - outside[reason][0]) for reason in now}))
"""
# A sample of at most 80 ms has one reason; a wait for a processor is counted when it ends, within 10 ms.
NEAR = 80_000_000 + 10_000_000


@pytest.mark.skipif(not os.path.exists("/proc/self/schedstat"), reason="the kernel does not count the time in run queues")
def test_a_nap_is_over_when_the_thread_is_ready(run_python, tmp_path):
    """A machine that is busy makes no nap longer: what the thread then waits for is a processor. The kernel counts both."""
    truth = json.loads(run_python("-c", NAPS, cwd=tmp_path).out)
    profile = Profile.load(tmp_path / "p.spprof")
    times = {reason: ns for (name, reason), ns in times_of(profile).items() if name == "MainThread"}
    unknown = times.get("unknown", 0)  # the sampler had no processor itself
    for reason, (least, most) in truth.items():  # start() and stop() are in part of the profile
        assert least - NEAR - unknown <= times[reason] <= most + NEAR + unknown, (times, truth)


@pytest.mark.parametrize("thread", REASONS)
def test_a_thread_waits_for_what_it_waits_for(waiting, thread):
    """It waits for one thing from before the start to after the end. Nothing else that it could have asked for is seen."""
    _, profile, _ = waiting
    times = {reason: ns for (name, reason), ns in times_of(profile).items() if name == thread}
    assert REASONS[thread] in times
    assert set(times) <= ANY | {REASONS[thread]}


def test_what_a_thread_waits_on_has_its_name(waiting):
    on, profile, _ = waiting
    strings = profile._columns()["strings"]
    found = {}
    for sample, reason, number in zip(profile.samples(), profile.column("reason"), profile.column("waits_on")):
        if profile.reasons[reason] in ("io", "idle") and sample.thread_name in on:
            found.setdefault(sample.thread_name, set()).add(strings[number - 1] if number else "")
    assert found == {name: {text} for name, text in on.items()}


def test_threads_that_compute_wait_for_nothing_that_they_did_not_ask_for(waiting):
    times = times_of(waiting[1])
    own = set() if GIL else {"lock"}  # of their list, and of the interpreter that stops all threads
    for thread in ("spins_0", "spins_1"):
        assert {reason for name, reason in times if name == thread} <= ANY | own


@pytest.mark.skipif(not GIL, reason="the GIL is there only while a module is imported that needs it")
def test_the_gil_is_waited_for(waiting):
    """Of two threads that compute one has it."""
    waited = {name for name, reason in times_of(waiting[1]) if reason == "gil"}
    assert waited >= {"spins_0", "spins_1"}


def test_the_rows_of_a_thread_add_up_to_its_time(waiting, capsys):
    _, profile, path = waiting
    assert main(["report", str(path), "--waits", "-f", "json"]) == 0
    sums = {}
    for row in json.loads(capsys.readouterr().out)["rows"]:
        sums[row["thread"], row["tid"]] = sums.get((row["thread"], row["tid"]), 0) + row["ns"]
    assert sums == {(thread.name, thread.tid): thread.weight for thread in profile.threads if thread.samples}


def test_a_part_is_of_one_reason(waiting, tmp_path, capsys):
    _, profile, path = waiting
    part = tmp_path / "part.spprof"
    assert main(["convert", str(path), "--waiting", "sleep", "--waiting", "child", "-o", str(part)]) == 0
    times = times_of(spprof.Profile.load(part))
    assert times == {key: ns for key, ns in times_of(profile).items() if key[1] in ("sleep", "child")}
    assert {name for name, _ in times} >= {"waits_sleep", "waits_select", "waits_child"}


PARTS = """
import json, os, subprocess, sys, threading, time
import spprof

reads, writes = os.pipe()
lock, wanted = threading.Lock(), threading.Semaphore(0)
took = {"sleep": 0, "io": 0, "lock": 0, "child": 0}
done = False

def other():
    while True:
        wanted.acquire()
        if done: return
        time.sleep(0.04)
        os.write(writes, b"x")
        wanted.acquire()
        with lock:
            held.set()
            time.sleep(0.04)

def timed(reason, call, *args):
    begun = time.monotonic_ns()
    call(*args)
    took[reason] += time.monotonic_ns() - begun

thread = threading.Thread(target=other)
thread.start()
spprof.start(1, "wall", sys.argv[1])
begun = time.monotonic_ns()
for _ in range(15):
    held = threading.Event()
    timed("sleep", time.sleep, 0.04)
    wanted.release()
    timed("io", os.read, reads, 1)
    wanted.release()
    while not held.is_set(): pass
    timed("lock", lock.acquire)
    lock.release()
    child = subprocess.Popen(["sleep", "0.04"])
    timed("child", child.wait)
whole = time.monotonic_ns() - begun
spprof.stop()
done = True
wanted.release()
thread.join()
print(json.dumps([took, whole]))
"""


@pytest.mark.statistical(
    "each part is off by a tick at both ends of its 15 waits of 40 ms at most: a point, unless the sampler gets no processor"
)
def test_shares_are_those_of_the_clock(run_python, tmp_path):
    out = tmp_path / "out.spprof"
    ran = run_python("-c", PARTS, out)
    took, whole = ran.json
    main_thread = next(one for one in waits([ran.profile]) if one.what["tid"] == ran.profile.header["pid"])
    for reason, ns in took.items():
        rows = [row for row in main_thread.rows if row.reason == reason]
        share = main_thread.whole.share(sum(row.ns for row in rows))
        assert abs(share.value - ns / whole) < 0.01 or share.low <= ns / whole <= share.high, (reason, main_thread, took, whole)


@pytest.mark.statistical("of 2.5 s all but what start() and stop() take themselves, 3 ms, unless their thread gets no processor")
def test_the_reasons_of_a_thread_add_up_to_its_time(run_python, tmp_path):
    ran = run_python("-c", PARTS, tmp_path / "out.spprof")
    whole = ran.json[1]
    every = sum(ns for (name, _), ns in times_of(ran.profile).items() if name == "MainThread")
    assert every == pytest.approx(whole, rel=0.005)


@pytest.mark.statistical("while one of them has the GIL the other one waits: 400 turns of 5 ms, unless the sampler does not run")
@pytest.mark.skipif(not GIL, reason="there is no GIL")
def test_two_hogs_wait_for_the_gil_in_turn(run_python, tmp_path):
    out = tmp_path / "out.spprof"
    ran = run_python("-c", """
import sys, threading, time
import spprof
def hog():
    end = time.monotonic() + 2
    while time.monotonic() < end: sum(range(200))
spprof.start(1, "wall", sys.argv[1])
threads = [threading.Thread(target=hog, name="hog") for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
spprof.stop()
""", out)  # fmt: skip
    times = times_of(ran.profile)
    every = sum(ns for (name, _), ns in times.items() if name == "hog")
    waiting, ready = times["hog", "gil"] / every, times.get(("hog", "ready"), 0) / every  # the latter on a full machine
    assert waiting < 0.55 and waiting + ready > 0.4, times


def test_what_cannot_be_read_is_unknown(run_python, tmp_path):
    """The process may open no file any more, as in a sandbox."""
    out = tmp_path / "out.spprof"
    ran = run_python("-c", """
import json, resource, sys, threading, time
import spprof
naps = [0]
done = False
def nap():
    while not done:
        time.sleep(0.003)
        naps[0] += 1
thread = threading.Thread(target=nap, name="naps")
thread.start()
spprof.start(1, "wall", sys.argv[1])
while spprof.stats()["threads"] < 2: time.sleep(0.01)
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
before = naps[0]
while naps[0] < before + 2: time.sleep(0.003)
now, taken = time.monotonic_ns(), spprof.stats()["taken"]
while spprof.stats()["taken"] < taken + 200: time.sleep(0.003)
until = time.monotonic_ns()
resource.setrlimit(resource.RLIMIT_NOFILE, limits)
done = True
thread.join()
spprof.stop()
print(json.dumps([now, until]))
""", out)  # fmt: skip
    now, until = ran.json
    samples = zip(ran.profile.samples(), ran.profile.column("reason"))
    mine = [
        ran.profile.reasons[reason] for each, reason in samples if each.thread_name == "naps" and now < each.timestamp_ns <= until
    ]
    assert "unknown" in mine and set(mine[1:]) <= {"unknown", "running"}  # the first may be of a look before


def test_where_the_reason_is_unknown_the_report_says_so(tmp_path, capsys):
    """As on systems that do not say it, and in older files."""
    sys.path.insert(0, str(TARGETS.parent / "unit"))
    from spprof_file import Writer

    writer = Writer(mode="wall")
    stack = [("f", "f", "a.py", 1, 2)]
    writer.sample(stack, 6_000, 1_000)
    writer.sample(stack, 9_000, 3_000, count=3, flags=4)
    writer.flush()
    path = tmp_path / "old.spprof"
    path.write_bytes(writer.data)
    assert main(["report", str(path), "--waits"]) == 0
    text = capsys.readouterr().out
    assert "3.00 ms" in text and "unknown" in text and text.count("Why threads waited is unknown") == 1
