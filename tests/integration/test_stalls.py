"""`--on-stall` of `run` and `attach`, `start(on_stall=S)`: what hangs is reported, once, and what only waits for work is not."""

import os
import signal
import subprocess
import sys
import sysconfig
import textwrap
import time

import pytest

if sys.platform != "linux":
    pytest.skip("spprof reads other processes on Linux alone", allow_module_level=True)

import spprof
from spprof.errors import BadOption, SpprofError
from spprof.launching import stalls as launching
from spprof.outside import stalls
from spprof.outside.dump import Dump, TaskReader, Thread, dump
from spprof.outside.proc import descendants
from spprof.outside.stalls import Watch

LATE_S = 60  # a limit that only a hang reaches
BEGIN = "import asyncio, concurrent.futures, os, queue, signal, socket, sys, threading, time\nprint(os.getpid(), flush=True)\n"

STALLS = {
    "deadlock": ("a deadlock of 2 threads", """
locks, begin = [threading.Lock(), threading.Lock()], threading.Barrier(2)
def takes(first, second):
    with first:
        begin.wait()
        with second: pass
threads = [threading.Thread(target=takes, args=each) for each in (locks, locks[::-1])]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""),
    "gil": ("keeps the GIL, and another thread waits for it", """
threading.Thread(target=time.sleep, args=(0.1,)).start()
sum(range(1 << 62))
"""),
    "left": ("and no thread is left to release it", """
lock = threading.Lock()
threading.Thread(target=lock.acquire).start()
with lock: pass
"""),
    "loop": ("the event loop of", """
async def blocks(): time.sleep(1000)
asyncio.run(blocks())
"""),
}  # fmt: skip
IDLE = {
    "accept": "socket.create_server(('127.0.0.1', 0)).accept()\n",
    "pool": "items = queue.Queue()\nfor _ in range(3): threading.Thread(target=items.get).start()\nitems.get()\n",
    "executor": """
signal.signal(signal.SIGUSR1, lambda *of: None)
executor = concurrent.futures.ThreadPoolExecutor(2)
executor.submit(abs, 1).result()
threading.Event().wait()
""",
    "simple": """
signal.signal(signal.SIGUSR1, lambda *of: None)
threading.Thread(target=queue.SimpleQueue().get).start()
threading.Event().wait()
""",
    "joined": "items = queue.Queue()\nthreading.Thread(target=items.get).start()\n",
    "event": "signal.signal(signal.SIGUSR1, lambda *of: None)\nthreading.Event().wait()\n",
    "loop": "async def waits(): await asyncio.get_running_loop().create_future()\nasyncio.run(waits())\n",
    "leader": """
server, lock = socket.create_server(('127.0.0.1', 0)), threading.Lock()
def serves():
    with lock: server.accept()
for _ in range(3): threading.Thread(target=serves).start()
serves()
""",
    "naps": "async def naps():\n    while True: time.sleep(0.05); await asyncio.sleep(0)\nasyncio.run(naps())\n",
    "short": """
loop, calls = asyncio.new_event_loop(), 0
def short():
    global calls
    calls += 1
    end = time.perf_counter() + 0.00005
    if calls % 2: time.sleep(0.00005)
    while time.perf_counter() < end: pass
    loop.call_soon(short)
loop.call_soon(short)
loop.run_forever()
""",
    "sleep": "time.sleep(1000)\n",
    "turns": """
def naps():
    while True: time.sleep(0.0005)
threading.Thread(target=naps).start()
while True: pass
""",
    "busy": "def f():\n    while True: pass\nfor _ in range(2): threading.Thread(target=f).start()\nf()\n",
}  # fmt: skip


class Programs:
    """Of a program's text: the number of its process, which says it first."""

    def __init__(self):
        self.running = []

    def __call__(self, text, **how):
        self.running.append(subprocess.Popen([sys.executable, "-c", BEGIN + text], stdout=subprocess.PIPE, text=True, **how))
        assert int(self.line()) == self.running[-1].pid
        return self.running[-1].pid

    def line(self):
        """What the latest says next."""
        return self.running[-1].stdout.readline()

    def says(self, text):
        """To the latest."""
        self.running[-1].stdin.write(text)
        self.running[-1].stdin.flush()


@pytest.fixture
def start():
    programs = Programs()
    yield programs
    for program in programs.running:
        program.kill()
        program.communicate()


if sysconfig.get_config_var("Py_GIL_DISABLED"):
    del STALLS["gil"]


@pytest.mark.parametrize("kind", STALLS)
def test_a_stall_is_reported_once(start, kind):
    why, text = STALLS[kind]
    watch = Watch(start(text), 0.4)
    found, end, looks = [], time.monotonic() + LATE_S, 0
    while time.monotonic() < end and looks < 10:
        stall = watch.look(time.monotonic())
        found += [stall] if stall is not None else []
        looks += bool(found)
        time.sleep(watch.step_s)
    assert len(found) == 1 and why in found[0].why, found
    assert {thread.tid for thread in found[0].dump.threads} >= {watch.pid}


@pytest.mark.parametrize("kind", IDLE)
def test_what_waits_for_work_does_not_stall(start, kind):
    watch = Watch(start(IDLE[kind]), 0.4)
    for _ in range(30):
        assert watch.look(time.monotonic()) is None
        time.sleep(watch.step_s)


def test_it_is_written_beside_the_profile_and_said(tmp_path):
    """And the program goes on: here until it is killed."""
    command = [sys.executable, "-m", "spprof", "run", "-o", "out.spprof", "--on-stall", "0.5", "-c", BEGIN + STALLS["left"][1]]
    program = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert int(program.stdout.readline()) == program.pid
        line = program.stderr.readline()
        path = tmp_path / "out.stalls.txt"
        assert "and no thread is left to release it: what each thread does is in " in line and str(path) in line
        text = path.read_text()
        assert text.startswith("After ") and f"process {program.pid}, Python" in text and "<module> (<string>:" in text
        assert program.poll() is None
    finally:
        program.send_signal(signal.SIGKILL)
        program.communicate()
    assert os.listdir(tmp_path)


def test_the_file_of_an_earlier_run_is_kept(tmp_path):
    """Unless --force says otherwise."""
    stem, earlier = str(tmp_path / "out"), tmp_path / "out.stalls.txt"
    earlier.write_text("of an earlier run")
    (tmp_path / "out.stalls.2.txt").symlink_to("nowhere")  # what is there may be anything
    assert launching._begin(stem, False) == f"{stem}.stalls.3.txt"
    assert launching._begin(stem, False) == f"{stem}.stalls.4.txt"
    assert earlier.read_text() == "of an earlier run" and not (tmp_path / "nowhere").exists()
    assert launching._begin(stem, True) == str(earlier) and earlier.read_text() == ""
    assert launching._begin(str(tmp_path / "new"), False) == str(tmp_path / "new.stalls.txt")


@pytest.mark.parametrize("options, why", [(["--live"], "--live"), (["--on-stall", "0"], "--on-stall")])
def test_what_cannot_be_is_refused(tmp_path, options, why):
    command = [sys.executable, "-m", "spprof", "run", "--on-stall", "1", *options, "-c", "pass"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 2 and why in ran.stderr


@pytest.mark.parametrize("waits, turns, is_stall", [("100", "777", True), ("111", "789", False), ("000", "777", False)])
def test_a_thread_keeps_the_gil_as_long_as_it_has_not_changed_hands(monkeypatch, waits, turns, is_stall):
    """One that waits for it wakes now and then to ask: it need not be seen to wait at each look."""
    used = iter(range(100))

    def seen(*_, **options):
        look = min(int(clock), 2)
        keeps = Thread(1, "keeps", "runs", True, [], "", True, False, 0, "", False, (), int(turns[look]))
        kind = "gil" if waits[look] == "1" else ""
        return Dump(1, "3.9", [keeps, Thread(2, "asks", "", False, [], "", True, True, 0, kind, False, ())], [])

    monkeypatch.setattr(stalls, "dump", seen)
    watch = Watch(1, 2.0)
    monkeypatch.setattr(watch, "_used_by", lambda tid: float(next(used)))
    found = []
    for clock in (0.0, 1.0, 2.0, 3.0):
        found += [stall for stall in [watch.look(clock)] if stall is not None]
    assert [stall.why for stall in found] == ["keeps (1) keeps the GIL, and another thread waits for it"] * is_stall


def test_a_look_reads_no_tasks(start):
    """Of which there may be many: they are in what is reported."""
    pid = start(IDLE["loop"])
    while not dump(pid).tasks.loops:
        time.sleep(0.05)
    assert dump(pid, with_tasks=False).tasks.loops == []
    read = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TaskReader, "tasks", lambda *of: read.append(of))
        assert Watch(pid, 0.4).look(time.monotonic()) is None
    assert read == []


def test_what_cannot_be_read_for_a_moment_is_watched_on(monkeypatch, capsys):
    """Such as a program that is just replaced by another one."""
    answers = [None, SpprofError("runs no Python"), None, *[SpprofError("runs no Python")] * 3]
    clock, looked = iter(range(0, 1000, 4)), []

    def look(_):
        looked.append(answers[len(looked)])
        if looked[-1] is not None:
            raise looked[-1]

    monkeypatch.setattr(launching.time, "monotonic", lambda: float(next(clock)))
    watched = launching._Watched(os.getpid(), "p.spprof", launching.Stalls(1.0, False))
    monkeypatch.setattr(watched._watch, "look", look)
    for _ in range(5):
        watched.look(0)
        assert watched._watch is not None or len(looked) == 5
    assert watched._watch is None and capsys.readouterr().err.count("--on-stall does not work here") == 1


def said_of(path):
    """What was written there, as soon as something is."""
    late = time.monotonic() + LATE_S
    while not path.exists() or not path.read_text().endswith("\n\n"):
        assert time.monotonic() < late
        time.sleep(0.02)
    return path.read_text()


FORKS = "first = os.fork()\nif first: os.waitpid(first, 0)\nelse:\n" + textwrap.indent(STALLS["left"][1], "    ")


def test_child_processes_that_are_recorded_are_watched_too(tmp_path):
    """Each beside its own profile. The parent waits for its child, and does not stall."""
    words = ["-m", "spprof", "run", "-o", "out.spprof", "--subprocesses", "--on-stall", "0.5", "-c", BEGIN + FORKS]
    pipe = subprocess.PIPE
    program = subprocess.Popen([sys.executable, *words], cwd=tmp_path, stdout=pipe, stderr=pipe)
    child = 0
    try:
        program.stdout.readline()
        while not child:
            child = next(iter(descendants(program.pid)), 0)
        assert f"process {child}, Python" in said_of(tmp_path / f"out.{child}.stalls.txt")
        assert [path.name for path in tmp_path.glob("*.stalls*.txt")] == [f"out.{child}.stalls.txt"]
    finally:
        if child:
            os.kill(child, signal.SIGKILL)
        program.kill()
        program.communicate()


@pytest.mark.parametrize("kind", ["deadlock", "left"])
def test_a_program_that_runs_already(start, tmp_path, kind):
    """The thread in it that waits for the end of its profile is spprof's own: it is none that is left to go on."""
    pid = start("import spprof\nspprof.listen()\n" + STALLS[kind][1])
    command = [sys.executable, "-m", "spprof", "attach", str(pid), "-o", "out.spprof", "-q", "--on-stall", "0.5"]
    attached = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        assert STALLS[kind][0] in said_of(tmp_path / "out.stalls.txt")
        attached.send_signal(signal.SIGINT)
        said = attached.communicate(timeout=LATE_S)[1]
        assert attached.returncode == 0 and str(tmp_path / "out.stalls.txt") in said, said
    finally:
        attached.kill()
        attached.communicate()


STARTS = "import spprof\nspprof.start(output_path='out.spprof', on_stall=0.5)\n"


def beside(pid):
    """The processes that look at this one for `on_stall`."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if str(pid).encode() in words and any(b"spprof.launching.watching" in word for word in words):
            found.append(int(name))
    return found


def all_gone(pids):
    late = time.monotonic() + LATE_S
    while not all(map(launching.has_gone, pids)):
        assert time.monotonic() < late
        time.sleep(0.02)
    return True


def test_a_program_that_started_its_profile_itself(start, tmp_path, monkeypatch):
    """The process beside it ends with the program, though that is killed."""
    monkeypatch.chdir(tmp_path)
    pid = start(STARTS + STALLS["deadlock"][1])
    assert "a deadlock of 2 threads" in said_of(tmp_path / "out.stalls.txt")
    watches = beside(pid)
    assert len(watches) == 1
    os.kill(pid, signal.SIGKILL)
    assert all_gone(watches)


LOOKS_AT_ITSELF = """
def opened(): return sorted(os.listdir("/proc/self/fd"))
import spprof
before = opened()
spprof.start(output_path="first.spprof")
during = opened()
spprof.stop()
assert opened() == before
spprof.start(output_path="out.spprof", on_stall=0.5)
assert opened() == during, (opened(), during)
try: os.waitpid(-1, os.WNOHANG)
except ChildProcessError: print("no child", flush=True)
sys.stdin.readline()
spprof.stop()
try: spprof.start(output_path="no/such/folder/out.spprof", on_stall=0.5)
except spprof.CannotWrite: print("not begun", flush=True)
signal.pause()
"""


def test_the_program_has_nothing_of_it_but_its_profile(start, tmp_path, monkeypatch):
    """No child, no descriptor; and what looks at it ends with the profile, or if that has not begun."""
    monkeypatch.chdir(tmp_path)
    pid = start(LOOKS_AT_ITSELF, stdin=subprocess.PIPE)
    assert start.line() == "no child\n"
    watches = beside(pid)
    assert len(watches) == 1
    start.says("\n")
    assert start.line() == "not begun\n" and all_gone({*watches, *beside(pid)})
    assert sorted(os.listdir(tmp_path)) == ["first.spprof", "out.spprof"]


@pytest.mark.parametrize("options, why", [({"on_stall": 0}, "on_stall=0"), ({"on_stall": 1}, "output_path")])
def test_what_cannot_be_watched_is_refused(options, why):
    with pytest.raises(BadOption, match=why):
        spprof.start(**options)
    assert not spprof.is_active()


def test_where_no_process_can_be_started(tmp_path, monkeypatch):
    """Nothing is recorded then."""
    for executable, why in (("", "sys.executable"), (str(tmp_path / "none"), "No such file"), ("/bin/true", "ended")):
        monkeypatch.setattr(sys, "executable", executable)
        with pytest.raises(spprof.Unsupported, match=why):
            spprof.start(output_path=tmp_path / "out.spprof", on_stall=1)
    assert not spprof.is_active() and os.listdir(tmp_path) == []
