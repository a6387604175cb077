"""Frozen and thawed by its cgroup (both kinds), stopped and continued by signals, while it computes, waits and reads a pipe."""

import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

from _truth import burn, part

VARIANTS = {
    "v2": {"FILES": {"/sys/fs/cgroup/unified/cgroup.procs": "the cgroups of version 2 at /sys/fs/cgroup/unified"}},
    "v1": {
        "FILES": {"/sys/fs/cgroup/freezer/cgroup.procs": "the freezer of cgroups of version 1"},
        "ENV": {"PROGRAM_FREEZES": "v1"},
    },
    "stopped": {"ENV": {"PROGRAM_FREEZES": "stop"}},
}
FREEZER = """
import os, signal, sys, time
how, pid = sys.argv[1], int(sys.argv[2])
def put(file, text):
    with open(file, "w") as f: f.write(text)
def frozen(yes):
    if how == "stop": return os.kill(pid, signal.SIGSTOP if yes else signal.SIGCONT)
    if how.startswith("/sys/fs/cgroup/freezer"): return put(how + "/freezer.state", "FROZEN" if yes else "THAWED")
    put(how + "/cgroup.freeze", "1" if yes else "0")
for i in range(25):
    time.sleep(0.02)
    frozen(True)
    time.sleep(0.02)
    frozen(False)
print("done")
"""


def reads(n):
    read, write = os.pipe()
    writer = threading.Thread(target=lambda: [(time.sleep(0.005), os.write(write, b"x")) for _ in range(n)])
    writer.start()
    total = sum(len(os.read(read, 1)) for _ in range(n))  # EINTR does not count: PEP 475
    writer.join()
    os.close(read)
    os.close(write)
    return total


def heavy(n):
    return burn(n)


def group():
    how = os.environ.get("PROGRAM_FREEZES", "v2")
    if how == "stop":
        return how
    root = "/sys/fs/cgroup/unified" if how == "v2" else "/sys/fs/cgroup/freezer"
    made = pathlib.Path(root) / f"torture-{os.getpid()}"
    made.mkdir()
    (made / "cgroup.procs").write_text(str(os.getpid()))
    return str(made)


def main():
    how = group()
    freezer = subprocess.Popen([sys.executable, "-c", FREEZER, how, str(os.getpid())], stdout=subprocess.PIPE)  # -> *
    if how != "stop":
        (pathlib.Path(how).parent / "cgroup.procs").write_text(str(freezer.pid))  # or it freezes itself
    results = []
    thread = threading.Thread(target=lambda: results.append(reads(100)))
    thread.start()
    with part("heavy"):
        total = heavy(9000000)
    thread.join()
    said = freezer.communicate(timeout=60)[0]  # -> *
    print(total, results, said, freezer.returncode, signal.getsignal(signal.SIGCONT))
    if how != "stop":
        (pathlib.Path(how).parent / "cgroup.procs").write_text(str(os.getpid()))
        pathlib.Path(how).rmdir()


if __name__ == "__main__":
    main()
