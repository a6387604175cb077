"""`spprof top` in a pseudo-terminal: the view of a process that runs already, and what is left in it."""

import fcntl
import os
import platform
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest
from attached import Program
from hosts import host

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or (not hasattr(sys, "remote_exec") and platform.machine() != "x86_64"),
    reason="spprof attaches on Linux alone, and before 3.14 on x86_64 alone",
)
FOREVER = """
import os
def hot(n): return sum([i * i for i in range(n)])
print(os.getpid(), flush=True)
while True: hot(500)
"""


class Terminal:
    """`spprof top` on a terminal of its own, and all that it wrote there."""

    def __init__(self, folder, *arguments):
        self.end, program_end = pty.openpty()
        fcntl.ioctl(program_end, termios.TIOCSWINSZ, struct.pack("4H", 40, 120, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "spprof", "top", *map(str, arguments)], cwd=folder, stdin=program_end, stdout=program_end,
            stderr=program_end, start_new_session=True, env={**os.environ, "TERM": "xterm-256color", "TMPDIR": str(folder)},
        )  # fmt: skip
        os.close(program_end)
        self.written = b""

    def until(self, *patterns):
        """When all of these have been shown since the last call."""
        late = time.monotonic() + 60  # a limit that only a hang reaches
        while True:
            text = re.sub(r"\x1b\[[0-9;:?<=>]*[ -/]*[@-~]", "", self.written.decode(errors="replace"))
            if all(re.search(pattern, text) for pattern in patterns):
                self.written = b""
                return
            assert time.monotonic() < late and self._read(late), (patterns, text)

    def _read(self, late):
        if not select.select([self.end], [], [], max(late - time.monotonic(), 0))[0]:
            return False
        try:
            data = os.read(self.end, 65536)
        except OSError:  # EIO: it has ended
            return False
        self.written += data
        return bool(data)

    def type(self, keys):
        os.write(self.end, keys)

    def code(self):
        """How it ended."""
        while self._read(time.monotonic() + 60):  # it may wait for us to take what it writes
            pass
        return self.process.wait(60)

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.end)


@pytest.fixture
def top(tmp_path):
    """top(text, *options): the program, and the terminal on which it is shown."""
    host("textual")
    made = []

    def start(text, *options):
        program = Program(text, tmp_path)
        made.append(program)
        terminal = Terminal(tmp_path, program.pid, *options)
        made.append(terminal)
        return program, terminal

    yield start
    for one in made:
        if isinstance(one, Program):
            one.process.kill()
            one.process.communicate()
        else:
            one.close()


@pytest.mark.parametrize("keys", [b"q", b"\x03"], ids=["q", "ctrl-c"])
def test_it_is_shown_and_left_as_it_was(keys, top, tmp_path):
    program, first = top(FOREVER)
    first.until("of CPU time", r"hot \(", "running")  # what stays for good is there then: spprof's modules
    first.type(b"q")
    assert first.code() == 0
    before = program.idle_state()
    second = Terminal(tmp_path, program.pid, "--mode", "wall", "--rate", "200")
    try:
        second.until("of threads' time", r"hot \(", "running")
        second.type(keys)
        assert second.code() == 0
    finally:
        second.close()
    assert program.idle_state() == before and program.process.poll() is None
    assert os.listdir(tmp_path) == ["program.py"]


def test_a_signal_that_ends_it_leaves_the_process(top, tmp_path):
    program, terminal = top(FOREVER)
    terminal.until(r"hot \(")
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.code() == 0
    program.idle_state()
    assert program.process.poll() is None and os.listdir(tmp_path) == ["program.py"]


def test_the_process_ends_meanwhile(top, tmp_path):
    program, terminal = top(FOREVER)
    terminal.until(r"hot \(")
    program.process.kill()  # nobody has waited for it yet
    terminal.until("the process has ended")
    terminal.type(b"q")
    assert terminal.code() == 0
    assert os.listdir(tmp_path) == ["program.py"]


@pytest.mark.parametrize("verb", [["top"], ["attach", "--live"]], ids=["top", "attach"])
def test_without_a_terminal_it_says_what_to_do(verb, tmp_path):
    host("textual")
    done = subprocess.run(
        [sys.executable, "-m", "spprof", *verb, str(os.getpid())], cwd=tmp_path, capture_output=True, text=True, timeout=60,
        stdin=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr == f"spprof: the live view needs a terminal; `spprof attach {os.getpid()} --duration 10` prints a summary\n"
    )
