"""Other observers of the same process at the same time: strace and perf around it, py-spy, strace, perf and gdb that attach to
it while it runs. They stop it, send it signals, and hold the signals of its ticks."""

import os
import shutil
import subprocess
import sys
import threading
import time

from _truth import burn, part

VARIANTS = {
    # Each call and each signal is two stops and takes 30 us: ticks of 100 us leave the program no time.
    "strace": {"AROUND": ["strace", "-f", "-o", "{folder}/calls"], "COMMANDS": {"strace": "strace"}, "MOST_HZ": 1000},
    "perf": {
        "AROUND": ["perf", "record", "-q", "-F", "999", "-g", "-o", "{folder}/perf.data", "--"],
        "COMMANDS": {"perf": "linux-perf"},
    },
    # It holds each thread at each of its looks, and a tick that comes meanwhile restarts it: with ticks of 100 us it may
    # take a minute.
    "pyspy": {
        "PYPI": ["py-spy"],
        "MOST_HZ": 1000,
        "ENV": {"PROGRAM_ATTACHES": "py-spy record -d 1 -r 200 -f raw -o spied --pid"},
    },
    "pyspy_dump": {"PYPI": ["py-spy"], "ENV": {"PROGRAM_ATTACHES": "py-spy dump --pid"}},
    "strace_attached": {
        "COMMANDS": {"strace": "strace", "timeout": "coreutils"},
        "ENV": {"PROGRAM_ATTACHES": "timeout 0.5 strace -f -o calls -p"},
    },
    "gdb_attached": {"COMMANDS": {"gdb": "gdb"}, "ENV": {"PROGRAM_ATTACHES": "gdb -batch -ex bt -ex detach -p"}},
    "perf_attached": {
        "COMMANDS": {"perf": "linux-perf"},
        "ENV": {"PROGRAM_ATTACHES": "perf record -q -g -o perf.data -p {{pid}} -- sleep 0.5"},
    },
}


def waits(n):
    for _ in range(n):
        time.sleep(0.001)
    return n


def piped(n):
    """Calls that a signal of ours must not end, through a pipe."""
    read, write = os.pipe()
    sent = threading.Thread(target=lambda: [os.write(write, b"x" * 50) for _ in range(n)])
    sent.start()
    total = 0
    while total < 50 * n:
        total += len(os.read(read, 4096))
    sent.join()
    os.close(read)
    os.close(write)
    return total


def heavy(n):
    return burn(n)


def attaches(command):
    pid = str(os.getpid())
    words = command.replace("{pid}", pid).split()
    words[0] = shutil.which(words[0]) or os.path.join(os.path.dirname(sys.executable), words[0])
    return subprocess.Popen(
        words + ([] if "{pid}" in command else [pid]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=True
    )  # -> *


def main():
    results, over = {}, threading.Event()

    def each(i):
        n = 0
        while not over.is_set():
            n += waits(20) + piped(200)
        results[i] = n > 0

    threads = [threading.Thread(target=each, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    command = os.environ.get("PROGRAM_ATTACHES")
    statuses, total = [], 0
    for _ in range(3 if command else 1):
        other = attaches(command) if command else None
        with part("heavy"):
            total += heavy(5000000)
        if other:
            statuses.append(other.wait(60))  # -> *
    with part("heavy"):
        total += heavy(3000000)
    over.set()
    for thread in threads:
        thread.join()
    print(sorted(results.items()), total, statuses)


if __name__ == "__main__":
    main()
