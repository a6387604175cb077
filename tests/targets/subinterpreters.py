"""Waits of 0.3 s in subinterpreters: subinterpreters.py OUT INTERVAL_MS. Each `wait_X` is called by `run_X`, but for
`wait_thread`, which is a thread that a subinterpreter starts. Prints which there were, and the main thread's id."""

import json
import sys
import threading

import spprof

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

out, interval_ms = sys.argv[1:]
run = getattr(interpreters, "exec", None) or interpreters.run_string
NEW = sys.version_info >= (3, 12)
WAIT = """
import time
def wait_{0}():
    for _ in range(3):
        time.sleep(0.1)
"""
INNER = """
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
(getattr(interpreters, "exec", None) or interpreters.run_string)(interpreters.create(), {!r})
"""
early = interpreters.create()


def run_own():
    run(interpreters.create(), WAIT.format("own") + "wait_own()")


def run_early():
    run(early, WAIT.format("early") + "wait_early()")


def run_theirs():  # while the thread that made it waits
    run(late, WAIT.format("theirs") + "wait_theirs()")


def run_nested():
    run(interpreters.create(), INNER.format(WAIT.format("nested") + "wait_nested()"))


def run_thread():
    code = "import threading\nt = threading.Thread(target=wait_thread)\nt.start()\nt.join()"
    run(interpreters.create(), WAIT.format("thread") + code)


kinds = [run_own, run_early, run_theirs, run_nested, *([run_thread] if NEW else [])]
spprof.start(float(interval_ms), "wall", out)
late = interpreters.create()
threads = [threading.Thread(target=kind) for kind in kinds]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
spprof.stop()
print(json.dumps({"kinds": [kind.__name__[4:] for kind in kinds], "main": threading.get_native_id()}))
