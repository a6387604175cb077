"""Programs for tests of `spprof attach`."""

import os
import subprocess
import sys
import time

from spprof import Profile

ATTACH = [sys.executable, "-m", "spprof", "attach"]


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
