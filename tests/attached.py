"""Programs for tests of `spprof attach`."""

import os
import subprocess
import sys
import time

from spprof import Profile

ATTACH = [sys.executable, "-m", "spprof", "attach"]

# A program one of whose threads is suspended in vfork, where nobody can stop it, from a line of input until its child has been
# able to open a FIFO.
SUSPENDED = """
import ctypes, os, threading
libc, actions, null = ctypes.CDLL(None), ctypes.create_string_buffer(512), ctypes.c_void_p()
libc.posix_spawn_file_actions_init(actions)
libc.posix_spawn_file_actions_addopen(actions, 3, b"fifo", os.O_RDONLY, 0)
words = (ctypes.c_char_p * 2)(b"true", None)
def spawn(): libc.posix_spawn(ctypes.byref(ctypes.c_int()), b"/bin/true", actions, null, words, null)
os.mkfifo("fifo")
print(os.getpid(), flush=True)
os.read(0, 1)
threading.Thread(target=spawn).start()
while True: os.read(0, 1)
"""


class Program:
    """A program that runs until it is killed, or ends."""

    def __init__(self, text, folder, environment=None):
        self.folder = folder
        (folder / "program.py").write_text(text)
        command = [sys.executable, "program.py"]
        self.process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        self.pid = int(self.process.stdout.readline())
        self.threads = len(os.listdir(f"/proc/{self.pid}/task"))

    def state(self):
        """What an attachment may not change: descriptors, threads, masks and actions of signals."""
        files = {fd: os.readlink(f"/proc/{self.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{self.pid}/fd")}
        with open(f"/proc/{self.pid}/status") as file:
            lines = dict(line.split(":", 1) for line in file)
        return files, {name: lines[name] for name in ("Threads", "SigBlk", "SigIgn", "TracerPid")}

    def idle_state(self):
        """The same when no thread serves an attachment any more."""
        late = time.monotonic() + 60  # a limit that only a hang reaches
        while len(os.listdir(f"/proc/{self.pid}/task")) > self.threads:
            assert time.monotonic() < late
        return self.state()

    def attach(self, *options):
        return subprocess.run(
            [*ATTACH, str(self.pid), *options], cwd=self.folder, capture_output=True, text=True, timeout=120, check=False
        )


def names(path):
    return {frame.name for sample in Profile.load(path).samples() for frame in sample.frames}


def status(pid, tid):
    """What the system says of a thread."""
    with open(f"/proc/{pid}/task/{tid}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file)


def _in_vfork(ran):
    for tid in os.listdir(f"/proc/{ran.pid}/task"):
        try:
            if status(ran.pid, tid)["State"].startswith("D"):
                return int(tid)
        except OSError:  # it has ended
            pass
    return 0


def suspended(ran):
    """Has SUSPENDED's thread be so: its id."""
    ran.process.stdin.write("\n")
    ran.process.stdin.flush()
    late = time.monotonic() + 60  # a limit that only a hang reaches
    while not _in_vfork(ran):
        assert time.monotonic() < late
    return _in_vfork(ran)


def go_on(ran):
    """Ends what SUSPENDED's thread waits for."""
    fifo = os.open(ran.folder / "fifo", os.O_RDWR)
    late = time.monotonic() + 60
    while ran.process.poll() is None and _in_vfork(ran):
        assert time.monotonic() < late
    os.close(fifo)
