"""`spprof run --live` and `spprof live` in a real terminal (tmux): the screen, keys, the program's output and code; `spprof dump`
beside what CPython says."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest
from hosts import host
from switches import switch

from spprof import _core

PROGRAM = """
import os, sys, threading
def inner():
    return sum(i * i for i in range(300))
def outer():
    inner()
def second():
    while not os.path.exists("stop"):
        sum(range(500))
print("hello, a terminal:", sys.stdout.isatty(), flush=True)
thread = threading.Thread(target=second, name="the \\x1b[31msecond")
thread.start()
while not os.path.exists("stop"):
    outer()
thread.join()
print("good bye", flush=True)
sys.exit(3)
"""


class Terminal:
    """A shell in tmux, under a server of its own."""

    def __init__(self, folder):
        self.tmux = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        environment = {**os.environ, "PS1": "$ ", "ENV": "", "TERM": "screen-256color"}
        subprocess.run([*self.tmux, "new-session", "-d", "-x", "200", "-y", "40", "sh"], check=True, cwd=folder, env=environment)

    def screen(self):
        return subprocess.run([*self.tmux, "capture-pane", "-p"], check=True, capture_output=True, text=True).stdout

    def type(self, *keys):
        subprocess.run([*self.tmux, "send-keys", *keys], check=True)

    def spprof(self, *arguments, more=""):
        self.type("-l", shlex.join([sys.executable, "-m", "spprof", *arguments]) + f"{more}; echo code=$?")
        self.type("Enter")

    def until(self, *patterns):
        """The screen (it may be half drawn) once it shows all of these, or all are true of it; fails if that never comes."""
        end = time.monotonic() + 60
        while True:
            screen = self.screen()
            if all(each(screen) if callable(each) else re.search(each, screen, re.MULTILINE) for each in patterns):
                return screen
            assert time.monotonic() < end, f"{patterns} never came:\n{screen}"
            time.sleep(0.05)

    def close(self):
        subprocess.run([*self.tmux, "kill-server"], check=False)


@pytest.fixture
def terminal(tmp_path):
    host("textual")
    if not shutil.which("tmux"):
        assert not switch("SPPROF_REQUIRE_HOSTS"), "tmux is missing"
        pytest.skip("tmux is not installed")
    (tmp_path / "prog.py").write_text(PROGRAM)
    terminal = Terminal(tmp_path)
    yield terminal
    (tmp_path / "stop").touch()
    terminal.close()


def names(screen):
    """The program's functions in the order of the screen, without what qualifies them (3.9 does not know it)."""
    return re.findall(r"^ *[\d.]+ s +[\d.]+% +[\d.]+ s +[\d.]+% +(?:\S+\.)?(\S+) \(.*prog\.py", screen, re.MULTILINE)


def before(screen, *functions):
    """Whether all of these are on the screen, in this order."""
    return [name for name in names(screen) if name in functions] == list(functions)


def samples(screen):
    """The number of them that the screen shows; -1 if it is half drawn."""
    reported = re.search(r"([\d,]+) samples, by", screen)
    return int(reported.group(1).replace(",", "")) if reported else -1


@pytest.mark.stress
def test_a_run_as_it_happens(terminal, tmp_path):
    terminal.spprof("run", "--live", "-q", "-o", "p.spprof", "prog.py")
    terminal.until(
        r"^prog.py: .* of CPU time, .* samples, by self time",
        r"^running · by function",
        "MainThread",
        r"the \N{REPLACEMENT CHARACTER}\[31msecond",  # a name cannot paint the screen
        r"outer \(.*prog.py:5\)",
    )
    assert "hello" not in terminal.until(lambda screen: before(screen, "<genexpr>", "<module>"))

    terminal.type("t")
    terminal.until("by total time", lambda screen: before(screen, "<module>", "inner", "<genexpr>"))

    terminal.type("f")
    terminal.until("thread name or id")
    terminal.type("-l", "*second")
    terminal.type("Enter")
    terminal.until(
        r"in threads like '\*second'",
        r"threads: \*second",
        lambda screen: "second" in names(screen) and "outer" not in names(screen),
    )

    terminal.type("p")
    terminal.until("PAUSED")
    size = (tmp_path / "p.spprof").stat().st_size
    while (tmp_path / "p.spprof").stat().st_size < size + 2000:  # the program does not wait
        time.sleep(0.05)
    first = samples(terminal.screen())
    terminal.type("l")  # is answered, of the moment that was kept
    assert samples(terminal.until(r"by line", r"second \(.*prog.py:[89]\)")) == first
    terminal.type("p")
    terminal.until(lambda screen: samples(screen) > first + 100)

    terminal.type("o")
    terminal.until("hello, a terminal: True")
    (tmp_path / "stop").touch()
    terminal.until("the program has ended: exit code 3")
    terminal.type("q")
    terminal.until(r"hello, a terminal: True\n(.*\n)*good bye\n(.*\n)*code=3$")  # all that it wrote, and its code


def test_what_the_view_says_of_a_file_cannot_paint_the_screen(terminal):
    header = struct.pack("<II", 2, zlib.crc32(b"H{}")) + b"H{}"  # which says nothing
    with tempfile.TemporaryDirectory() as folder:  # whose name is short: a line of the view ends with the terminal's
        Path(folder, "\x1b[31mred").write_bytes(b"\x89SPPROF\n" + header)
        terminal.type("-l", f"{shlex.quote(sys.executable)} -m spprof live {folder}/*red; echo code=$?")
        terminal.type("Enter")
        terminal.until(r"\N{REPLACEMENT CHARACTER}\[31mred: the header has no 'version'")
        terminal.type("q")
        terminal.until("code=0$")


def test_output_that_goes_elsewhere_is_left_alone_and_the_view_may_be_left(terminal, tmp_path):
    terminal.spprof("run", "--live", "-q", "prog.py", more=" >out 2>err <prog.py")
    terminal.until("by self time", r"outer")
    assert (tmp_path / "out").read_text() == "hello, a terminal: False\n"
    terminal.type("q")
    assert "code=3" not in terminal.until(r"spprof run --live")  # the program goes on
    (tmp_path / "stop").touch()
    terminal.until(r"code=3$")
    assert (tmp_path / "out").read_text().endswith("good bye\n") and (tmp_path / "err").read_text() == ""
    assert list(tmp_path.glob("prog.*.spprof"))


LABELLED = """
import os, threading, spprof
def cart():
    sum(range(300))
def pay():
    sum(range(300))
def serve(work, route):
    while not os.path.exists("stop"):
        with spprof.label(route=route, user="Jane Doe"):
            work()
thread = threading.Thread(target=serve, args=(pay, "/pay"), name="other")
thread.start()
serve(cart, "/cart")
thread.join()
"""


@pytest.mark.stress
def test_labels_choose_what_is_shown(terminal, tmp_path):
    (tmp_path / "prog.py").write_text(LABELLED)
    terminal.spprof("run", "--live", "-q", "-o", "p.spprof", "prog.py")
    terminal.until("by self time", lambda screen: {"cart", "pay"} <= set(names(screen)))
    terminal.type("p")
    terminal.until("PAUSED")
    terminal.type("b")
    terminal.until("labels, as in")
    terminal.type("-l", "route")
    terminal.type("Enter")
    terminal.until("'route' is none: give KEY=VALUE")
    terminal.type("-l", "route=/pay 'user=Jane*'")
    terminal.type("Enter")
    screen = terminal.until(
        r"of CPU time with route=/pay with user=Jane\*, .* samples",
        r"labels: route=/pay user=Jane\*",
        lambda screen: "pay" in names(screen) and "cart" not in names(screen) and "PAUSED" not in screen,
        r"^ *other .* 100\.0%",
        r"MainThread +0\.00 s +0\.0% +0$",
    )
    first = samples(screen)
    terminal.until(lambda screen: samples(screen) > first + 50)  # it goes on
    terminal.type("b")
    terminal.until("route=/pay 'user=Jane")  # as it was typed: above the tables it has no quotes
    terminal.type("C-u")
    terminal.type("Enter")
    terminal.until(lambda screen: {"cart", "pay"} <= set(names(screen)) and "labels:" not in screen)
    (tmp_path / "stop").touch()
    terminal.until("the program has ended")
    terminal.type("q")
    terminal.until(r"code=0$")


@pytest.mark.stress
def test_ctrl_c_is_the_programs(terminal, tmp_path):
    (tmp_path / "prog.py").write_text("import signal\nwhile True:\n    sum(range(100))\n")
    terminal.spprof("run", "--live", "-q", "prog.py")
    terminal.until("by self time", "<module>")
    terminal.type("C-c")
    terminal.until("the program has ended: signal 2")
    terminal.type("q")
    terminal.until("KeyboardInterrupt")
    terminal.type("-l", "echo code=$?")  # a shell that saw SIGINT end a program drops the rest of the line
    terminal.type("Enter")
    terminal.until(r"code=130$")


@pytest.mark.stress
def test_from_another_terminal(terminal, tmp_path):
    command = [sys.executable, "-m", "spprof", "run", "-q", "--mode", "wall", "-o", "p.spprof", "prog.py"]
    program = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE)
    program.stdout.readline()
    terminal.spprof("live", "p.spprof")
    try:
        first = samples(terminal.until(r"^prog.py: .* of threads' time, .* samples, by self time", "^running", r"outer \("))
        first = samples(terminal.until(lambda screen: samples(screen) > first + 200))
        program.send_signal(signal.SIGSTOP)  # it would have as many again before a full machine looks
        terminal.type("z")
        terminal.until(lambda screen: 0 <= samples(screen) < first)
    finally:
        program.kill()
        program.wait()
        program.stdout.close()
    terminal.until(r"^the program had no time to finish the profile \(SIGKILL\); up to 100 ms are missing")
    terminal.type("q")
    terminal.until(r"code=0$")
    terminal.spprof("live", "prog.py")
    terminal.until("spprof: .*prog.py: not a .spprof file", r"code=2$")


def test_another_type_than_time(terminal, tmp_path):
    try:
        _core.choose_events("page-faults")
    except OSError as error:
        pytest.skip(f"the system counts no page faults: {error}")
    command = [sys.executable, "-m", "spprof", "run", "-q", "--event", "time", "--event", "page-faults", "-o", "p.spprof"]
    subprocess.run([*command, "-c", "bytearray(1 << 26)"], cwd=tmp_path, check=True)
    terminal.spprof("live", "p.spprof", "--type", "page-faults")
    terminal.until("^-c: [0-9,]+ faults, [0-9,]+ samples, by self faults", "the profile has ended")
    terminal.type("q")
    terminal.until(r"code=0$")
    terminal.spprof("live", "p.spprof", "--type", "faults")
    terminal.until("has no samples of 'faults', but of time, page-faults", r"code=2$")
    terminal.type("-l", "clear")
    terminal.type("Enter")
    terminal.spprof("run", "-q", "--live", "--event", "page-faults", "-c", "bytearray(1 << 26)")
    terminal.until("^-c: [0-9,]+ faults, [0-9,]+ samples, by self faults", "the program has ended")
    terminal.type("q")
    terminal.until(r"code=0$")


def test_pictures_leave_three_quarters_of_the_time_and_are_of_what_is_new(monkeypatch):
    """By a clock that moves only while a picture is made, 10 s each."""
    host("textual")
    from spprof.live import view

    now, waits, pictures = [0.0], [], []
    news = iter([100, 0, 0, 0, 50, 0, 0])  # what each reading gives; a round ends with none

    class Shown:
        end = None

    following = SimpleNamespace(labels={}, warning=None, path="p", read=lambda: next(news), profile=Shown, is_left=lambda: False)
    live = view.LiveView(following)

    def picture(shown):
        now[0] += 10
        pictures.append(shown)

    def wait(seconds):
        waits.append((seconds, len(pictures)))
        changes = {2: {"sort_by": "total"}, 3: {"paused": True}, 4: {"paused": False}, 5: {"stopping": True}}
        for name, value in changes.get(len(waits), {}).items():
            setattr(live, name, value)

    monkeypatch.setattr(view, "time", SimpleNamespace(monotonic=lambda: now[0]))
    live._picture, live.call_from_thread = picture, lambda *ignored: None
    live.wake = SimpleNamespace(clear=lambda: None, wait=wait)
    live._follow()
    # New samples; nothing; another order of the same; a pause while more comes; that.
    assert waits == [(30.0, 1), (view.PERIOD, 1), (30.0, 2), (view.PERIOD, 2), (30.0, 3)]
    assert pictures[0] is pictures[1] is not pictures[2]


def test_without_a_terminal_it_is_refused(tmp_path):
    host("textual")
    (tmp_path / "p.spprof").write_bytes(b"")
    for arguments, words in (
        (["run", "--live", "-c", "1"], "--live needs a terminal"),
        (["live", "p.spprof"], "needs a terminal"),
    ):
        result = subprocess.run(
            [sys.executable, "-m", "spprof", *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60,
            start_new_session=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert (result.returncode, result.stdout) == (2, "") and words in result.stderr


@pytest.mark.parametrize("arguments", [["run", "--live", "-c", "print(1)"], ["live", "x"]])
def test_without_textual_it_says_what_to_install(arguments):
    code = "import sys; sys.modules['rich'] = None; from spprof.cli import main; sys.exit(main(sys.argv[1:]))"
    result = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60)
    assert (result.returncode, result.stdout) == (2, "") and "pip install 'spprof[tui]'" in result.stderr


STANDING = """
import json, os, sys, threading

started, never = threading.Semaphore(0), threading.Lock()
readable, writable = os.pipe()
never.acquire()

def on_lock(depth):
    if depth:
        return on_lock(depth - 1)
    started.release()
    never.acquire()

def on_pipe():
    started.release()
    return [os.read(readable, 1) for _ in range(1)]

def stack(frame):
    while frame is not None:
        yield [frame.f_code.co_name, frame.f_lineno]
        frame = frame.f_back

threads = [threading.Thread(target=on_lock, args=(5,), name="lock"), threading.Thread(target=on_pipe, name="pipe")]
for thread in threads:
    thread.start()
for thread in threads:
    started.acquire()
for line in sys.stdin:
    print(json.dumps({t.name: list(stack(sys._current_frames()[t.ident])) for t in threads}), flush=True)
os._exit(0)
"""


def dump(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "spprof", "dump", *map(str, arguments)], capture_output=True, text=True, timeout=60
    )


def stacks(text):
    """Function names and lines by thread, the newest first, as `dump` prints them."""
    found = {}
    for part in text.split("\n\n")[1:]:
        head, *frames = part.splitlines()
        found[head.split(" (")[0]] = [
            [name.rpartition(".")[2], int(line)]
            for name, line in re.findall(r"^ {4}(\S+) \(.*:(\d+)\)$", "\n".join(frames), re.M)
        ]
    return found


def test_stacks_of_a_program_that_runs_are_what_cpython_says(tmp_path):
    (tmp_path / "prog.py").write_text(STANDING)
    command = [sys.executable, "-m", "spprof", "run", "-q", "--mode", "wall", "-o", "p.spprof", "prog.py"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        end = time.monotonic() + 60
        while True:  # until the threads have come to rest and the file says so
            print("?", file=program.stdin, flush=True)
            truth = json.loads(program.stdout.readline())
            done = dump(tmp_path / "p.spprof")
            seen = stacks(done.stdout)
            blocked = re.search(r"^lock \(\d+\): here for ", done.stdout, re.M)
            if blocked and all(seen.get(name) == frames for name, frames in truth.items()):
                break
            assert time.monotonic() < end, f"{truth}\nbut:\n{done.stdout}{done.stderr}"
        program.stdin.close()
        program.wait(60)
    assert [name for name, line in truth["lock"]][:7] == ["on_lock"] * 6 + ["run"]
    assert re.match(r"prog.py: process \d+, wall mode, not ended; the last sample was taken at \d+\.\d\d s\n", done.stdout)
    one = dump(tmp_path / "p.spprof", "--thread", "pi*")
    assert list(stacks(one.stdout)) == ["pipe"] and one.returncode == 0
