"""scalene profiles a program in a process of its own, by signals and a tracer, while that is profiled."""

import os
import subprocess
import sys
import threading

from _truth import burn, part

PYPI = ["scalene"]
SUBPROCESSES = True
PROFILES = 2
TRACED = True


def heavy(n):
    return burn(n)


def inner():
    results = []
    threads = [threading.Thread(target=lambda: results.append(burn(1000000))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with part("heavy"):
        total = heavy(5000000)
    print(results, total)


def main():
    command = [sys.executable, "-m", "scalene", "run", "--cpu-only", "-o", "scaled.json", __file__]
    done = subprocess.run(command, env={**os.environ, "PROGRAM_INNER": "1"}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    print(done.stdout.decode().splitlines()[:1], done.returncode, os.path.getsize("scaled.json") > 100)


if __name__ == "__main__":
    inner() if os.environ.get("PROGRAM_INNER") else main()
