"""`spprof dump PID` of programs that hang in known ways: the stacks are those that the programs were written to have, and they go
on as if nobody had looked. Of this Python and, from this one, of all others at hand."""

import os
import platform
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from attached import SUSPENDED, Program, go_on, status, suspended

from spprof.errors import SpprofError

if sys.platform != "linux":
    pytest.skip("spprof reads other processes on Linux alone", allow_module_level=True)

from spprof.outside import stopping
from spprof.outside.dump import dump
from spprof.outside.stopping import let_go, stopped

ROOT = Path(__file__).resolve().parents[2]
OWN = "{}.{}{}".format(*sys.version_info[:2], getattr(sys, "abiflags", ""))
LATE_S = 60  # a limit that only a hang reaches

BEGIN = """
import os, sys, threading, time
print(os.getpid(), flush=True)
"""
# The lines that the main thread is in have #0, #1, ... from the leaf on.
HANGS = {
    "sleep": ("sleeps", "def f():\n    time.sleep(1e6)  #0\ndef g():\n    f()  #1\ng()  #2\n"),
    "pipe": ("waits in read of descriptor 0, a pipe", "def f(n):\n    if n:\n        return f(n - 1)  #1 #2 #3\n"
             "    return os.read(0, 1)  #0\nanswer = f(3)  #4\nprint(answer, flush=True)\n"),
    "busy": ("runs", "def f():\n    while True: pass  #0\ndef g():\n    return [f() for _ in (1,)]  #1\ng()  #2\n"),
    "generator": ("waits in read of", "def f():\n    yield 1\n    yield os.read(0, 1)  #0\ndef g():\n    yield from f()  #1\n"
                  "def h():\n    return list(g())  #2\nanswer = h()[1]  #3\nprint(answer, flush=True)\n"),
    "native": ("runs", "def f():\n    return sum(range(1 << 62))  #0\nf()  #1\n"),
    "lock": ("waits for the lock at", "lock = threading.Lock()\ndef f():\n    with lock:\n        with lock:  #0\n"
             "            pass\nf()  #1\n"),
    "join": ("waits", "def f():\n    threading.Event().wait()\n"
             "thread = threading.Thread(target=f)\nthread.start()\ndef g():\n    thread.join()  #last1\ng()  #last0\n"),
    "child": ("waits for a child process", "import subprocess\nchild = subprocess.Popen(['cat'])\ndef f():\n"
              "    os.waitpid(child.pid, 0)  #0\nf()  #1\nprint(b'', flush=True)\n"),
}  # fmt: skip


def others():
    """The other interpreters at hand: {'3.9': path}."""
    install = Path(os.environ.get("SPPROF_SHARED") or ROOT.parent / "shared", "pythons", "install")
    if not install.exists():
        return {}
    printed = subprocess.run(["bash", str(install)], check=True, capture_output=True, text=True).stdout
    return {name: path for name, path in (line.split(None, 1) for line in printed.splitlines()) if name != OWN}


PYTHONS = {OWN: sys.executable, **others()}
each_python = pytest.mark.parametrize("python", PYTHONS)


@pytest.fixture
def start(tmp_path):
    """start(text, python): the process, when it has begun."""
    made = []

    def run(text, python=OWN):
        (tmp_path / "hang.py").write_text(BEGIN + text)
        process = subprocess.Popen(
            [PYTHONS[python], str(tmp_path / "hang.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        made.append(process)
        assert int(process.stdout.readline()) == process.pid
        return process

    yield run
    for process in made:
        process.kill()
        process.communicate()


def expected(text):
    """(function, line) of each frame that has a mark, from the leaf on."""
    found, function = {}, []
    for number, line in enumerate((BEGIN + text).splitlines(), 1):
        indent = len(line) - len(line.lstrip())
        function = [one for one in function if one[0] < indent]
        if line.lstrip().startswith("def "):
            function.append((indent, line.split("def ")[1].split("(")[0]))
        for mark in re.findall(r"#(\d+)", line):
            found[int(mark)] = (function[-1][1] if function else "<module>", number)
    return [found[mark] for mark in sorted(found)]


def frames_of(thread):
    return [(frame.name, frame.line) for frame in thread.frames if not frame.name.endswith("<listcomp>")]


def switches(pid):
    """How often the main thread was woken. (Others may not have come to their waits yet.)"""
    with open(f"/proc/{pid}/task/{pid}/status") as file:
        return [line for line in file if "ctxt_switches" in line or line.startswith(("TracerPid", "State"))]


def until(pid, wanted, **how):
    """The dump, as soon as the main thread is as wanted."""
    late = time.monotonic() + LATE_S
    while True:
        found = dump(pid, **how)
        main = next(thread for thread in found.threads if thread.tid == pid)
        if wanted(main):
            return found
        assert time.monotonic() < late, found


@each_python
@pytest.mark.parametrize("kind", HANGS)
def test_a_hang_is_named(kind, python, start):
    does, text = HANGS[kind]
    process = start(text, python)
    frames = expected(text.replace("#last", "#"))

    def is_there(main):
        if kind == "join":  # frames of threading itself lie below
            return main.does.startswith(does) and frames_of(main)[-len(frames) :] == frames[::-1]
        return main.does.startswith(does) and frames_of(main) == frames

    until(process.pid, is_there)
    waits = does != "runs"
    before = switches(process.pid) if waits else None
    for _ in range(5):
        found = dump(process.pid)
        assert all(thread.sure and not thread.cut for thread in found.threads), found
        main = next(thread for thread in found.threads if thread.tid == process.pid)
        assert is_there(main), main
        assert {frame.file for frame in main.frames} >= {process.args[1]}
        has_gil = "t" not in python
        assert main.holds_gil == (has_gil and kind == "native") or kind == "busy", main
    if waits:
        assert switches(process.pid) == before, "it was woken"
        if kind in ("pipe", "generator"):
            assert process.communicate(b"x", timeout=LATE_S) == (b"b'x'\n", b"") and process.returncode == 0


def threads_when(process, wanted):
    """The dump, and the threads by these functions of theirs, as soon as all of them wait for a lock of the program's own."""
    late = time.monotonic() + LATE_S
    while True:
        found = dump(process.pid)
        threads = {frame.name: thread for thread in found.threads for frame in thread.frames if frame.name in wanted}
        own = [thread for thread in threads.values() if thread.frames[0].file == process.args[1]]
        if len(own) == len(wanted) and all(thread.does.startswith("waits for the lock") for thread in own):
            return found, threads
        assert time.monotonic() < late, found


CYCLE = """
locks = [threading.Lock(), threading.{}(), threading.Lock()]
begin = threading.Barrier(3)
def take(mine, other):
    with mine:
        begin.wait()
        with other:
            pass
def first(): take(locks[0], locks[1])
def second(): take(locks[1], locks[2])
def third(): take(locks[2], locks[0])
for one in (first, second, third): threading.Thread(target=one, daemon=True).start()
"""


@each_python
@pytest.mark.parametrize("kind", ["Lock", "RLock"])
def test_a_cycle_of_locks_is_named(kind, python, start):
    process = start(CYCLE.format(kind) + "os.read(0, 1)\n", python)
    found, threads = threads_when(process, ("first", "second", "third"))
    first, second, third = (threads[name].tid for name in ("first", "second", "third"))
    owners = {thread.tid: thread.owner for thread in found.threads if thread.owner}
    assert owners == {first: second, second: third, third: first}
    (cycle,) = found.cycles
    assert sorted(cycle) == sorted(owners) and all(owners[one] == cycle[(i + 1) % 3] for i, one in enumerate(cycle))


@each_python
def test_an_owner_is_one_that_is_in_the_block_now(python, start):
    """Not one that was, nor one that took the lock in a way that leaves no trace."""
    process = start(
        "once, twice, done = threading.Lock(), threading.Lock(), threading.Event()\n"
        "def was():\n    with once:\n        pass\n    done.set()\n    os.read(0, 1)\n"
        "def alone():\n    with once:\n        pass\n"
        "def itself():\n    with twice:\n        with twice:\n            pass\n"
        "threading.Thread(target=was, daemon=True).start()\ndone.wait()\nonce.acquire()\n"
        "for one in (alone, itself): threading.Thread(target=one, daemon=True).start()\nos.read(0, 1)\n",
        python,
    )
    found, threads = threads_when(process, ("alone", "itself"))
    assert {thread.tid: thread.owner for thread in found.threads if thread.owner} == {
        threads["itself"].tid: threads["itself"].tid
    }
    assert found.cycles == [[threads["itself"].tid]]


def test_an_import_lock_whose_thread_the_fork_left_behind(start, tmp_path):
    (tmp_path / "slow.py").write_text("import os, __main__\n__main__.begun.set()\nos.read(0, 1)\n")
    process = start(
        "begun = threading.Event()\ndef importer():\n    import slow\n"
        "threading.Thread(target=importer, daemon=True).start()\nbegun.wait()\nchild = os.fork()\n"
        "if child:\n    print(child, flush=True)\n    os.read(0, 1)\nelse:\n    import slow\n"
    )
    child = int(process.stdout.readline())
    try:
        does = "waits for the import lock of slow, and no other thread is there to release it"
        found = until(child, lambda main: main.does == does)
        assert not found.cycles
    finally:
        os.kill(child, signal.SIGKILL)


@each_python
def test_a_thread_that_waits_for_the_gil(python, start):
    if "t" in python:
        pytest.skip("it has no GIL")
    text = "def f():\n    while True: os.getpid()\nthreading.Thread(target=f, daemon=True).start()\nsum(range(1 << 62))\n"
    process = start(text, python)
    late = time.monotonic() + LATE_S
    while True:
        found = dump(process.pid).threads
        if [(thread.does, thread.holds_gil) for thread in found] == [("runs", True), ("waits for the GIL", False)]:
            break
        assert time.monotonic() < late, found


@each_python
def test_a_stopped_process_stays_stopped(python, start):
    process = start("def f():\n    while True: pass  #0\nf()  #1\n", python)
    until(process.pid, lambda main: len(main.frames) == 2)
    process.send_signal(signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)
    found = dump(process.pid).threads[0]
    assert (found.does, found.sure) == ("is stopped by a signal", True)
    assert frames_of(found) == expected("def f():\n    while True: pass  #0\nf()  #1\n")
    with open(f"/proc/{process.pid}/stat") as file:
        assert file.read().split(") ")[1][0] == "T"
    process.send_signal(signal.SIGCONT)
    until(process.pid, lambda main: main.does == "runs")


def test_signals_that_come_while_it_is_stopped_are_not_lost(start):
    """A stop may find the thread with a signal: it must get it."""
    process = start(
        "import signal\nseen = 0\ndef count(*_):\n    global seen\n    seen += 1\n"
        "signal.signal(signal.SIGUSR1, count)\nprint('on', flush=True)\n"
        "while seen < 200:\n    before = seen\n    print(seen, flush=True)\n    while seen == before: pass\n"
    )
    assert process.stdout.readline() == b"on\n"
    for number in range(200):
        assert process.stdout.readline() == b"%d\n" % number
        process.send_signal(signal.SIGUSR1)
        dump(process.pid)
    assert process.wait(LATE_S) == 0


def test_a_stop_does_not_wait_for_the_processor(start):
    """Where we may have it first; and afterwards we are one of all again."""
    before = os.sched_getscheduler(0), os.sched_getparam(0).sched_priority
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError as error:
        may, why = False, error
    else:
        may, why = True, None
        os.sched_setscheduler(0, before[0], os.sched_param(before[1]))
    process = start(HANGS["busy"][1])
    with stopped(process.pid) as is_stopped:
        assert is_stopped and os.sched_getscheduler(0) == (os.SCHED_FIFO if may else before[0]), why
    assert (os.sched_getscheduler(0), os.sched_getparam(0).sched_priority) == before


def test_a_thread_that_stops_late_is_let_go(tmp_path):
    ran = Program(SUSPENDED, tmp_path)
    try:
        tid = suspended(ran)
        with stopped(tid) as is_stopped:
            assert not is_stopped
        assert status(ran.pid, tid)["TracerPid"] == str(os.getpid())
        go_on(ran)
        late = time.monotonic() + LATE_S
        while os.path.exists(f"/proc/{ran.pid}/task/{tid}"):  # it has only this to do, then it ends
            let_go()
            assert time.monotonic() < late
    finally:
        go_on(ran)
        ran.process.kill()
        ran.process.communicate()


@pytest.fixture
def too_late(monkeypatch):
    """too_late(n): the first n waits for a stop end just before it; those that follow wait as long as it takes."""

    def waits(count):
        left = [None] * count

        def wait(tid):
            late = time.monotonic() + LATE_S
            while left or (signal := stopping._look(tid)) is None:
                if left and "\nState:\tt" in Path(f"/proc/{tid}/status").read_text():
                    return left.pop()
                assert time.monotonic() < late
            return signal

        monkeypatch.setattr(stopping, "_wait", wait)

    return waits


def test_a_late_stop_is_no_debuggers(start, too_late):
    process = start(HANGS["busy"][1])
    until(process.pid, lambda main: frames_of(main) == expected(HANGS["busy"][1]))
    too_late(2)  # one for the stop, and one at its end
    (found,) = dump(process.pid).threads
    assert (found.does, found.sure) == ("runs", True)


def test_nothing_stays_stopped_after_a_dump(start, too_late, monkeypatch):
    """Where no stop was in time: what prints the dump may wait for as long as it likes."""
    process = start(HANGS["busy"][1])
    until(process.pid, lambda main: frames_of(main) == expected(HANGS["busy"][1]))
    too_late(2 * LATE_S)
    monkeypatch.setattr(stopping, "_look", lambda tid: None)
    dump(process.pid)
    late = time.monotonic() + LATE_S
    while True:  # the kernel lets go soon after our thread was joined
        now = status(process.pid, process.pid)
        if (now["TracerPid"], now["State"][0]) == ("0", "R"):
            break
        assert time.monotonic() < late, now


def test_nonblocking_says_what_it_cannot_be_sure_of(start):
    process = start(HANGS["busy"][1])
    found = until(process.pid, lambda main: frames_of(main) == expected(HANGS["busy"][1]), may_stop=False)
    assert not found.threads[0].sure


def test_the_command(start):
    process = start(HANGS["pipe"][1])
    until(process.pid, lambda main: main.does.startswith("waits in read"))
    done = subprocess.run([sys.executable, "-m", "spprof", "dump", str(process.pid)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    first, *rest = done.stdout.splitlines()
    assert first.endswith(f"hang.py: process {process.pid}, Python {sys.version.split()[0]}, 1 thread") or sys.version_info < (
        3,
        11,
    )
    assert re.fullmatch(rf".* \({process.pid}\): waits in read of descriptor 0, a pipe", rest[1])
    shown = [re.fullmatch(r"    (\S+) \(.*hang\.py:(\d+)\)", line).groups() for line in rest[2:]]
    assert [(name, int(line)) for name, line in shown] == expected(HANGS["pipe"][1])


def test_the_command_names_a_deadlock(start):
    process = start(CYCLE.format("Lock") + "os.read(0, 1)\n")
    threads_when(process, ("first", "second", "third"))
    done = subprocess.run([sys.executable, "-m", "spprof", "dump", str(process.pid)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    title, cycle = (part.splitlines() for part in done.stdout.split("\n\n")[:2])
    assert len(title) == 1 and cycle.pop(0) == "Deadlock:"
    assert len(cycle) == 3 and all(
        re.fullmatch(r"    .* \(\d+\) waits for .* \(\d+\) at take \(.*hang\.py:10\)", one) for one in cycle
    )


def test_ps_lists_it(start):
    process = start(HANGS["pipe"][1])
    done = subprocess.run([sys.executable, "-m", "spprof", "ps"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    line = next(line for line in done.stdout.splitlines() if line.split()[0] == str(process.pid))
    assert line.split()[1].startswith("{}.{}".format(*sys.version_info[:2])) and "hang.py" in line
    assert line.split()[2] == ("yes" if sys.version_info >= (3, 14) or platform.machine() == "x86_64" else "no:")


def test_what_is_no_python_is_refused():
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        with pytest.raises(SpprofError, match=f"process {process.pid} runs no Python"):
            dump(process.pid)
        process.stdin.close()
    with pytest.raises(SpprofError, match=f"there is no process {process.pid}"):
        dump(process.pid)
