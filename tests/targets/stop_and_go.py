"""stop_and_go.py PROFILE MODE CLOCK WAY: first(), then the thread's clock stops and begins again (see `ways`), then second() and
third(). Prints what each ran by the thread's own clock: a JSON object of nanoseconds. `between` is to have no samples."""

import json
import os
import signal
import sys
import time

import spprof

path, mode, clock, way = sys.argv[1:]
truth = {}


def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:  # read when it may have been used up: docs/troubleshooting.md, "Hardly any samples"
        until = time.monotonic() + end - time.thread_time()
        while time.monotonic() < until:
            sum(range(300))


def works(function):
    begin = time.thread_time_ns()
    function()
    truth[function.__name__] = time.thread_time_ns() - begin


def first():
    burn(0.5)


def between():
    burn(0.5)


def second():
    burn(0.5)


def third():
    burn(0.5)


def pause():
    spprof.pause()
    between()
    spprof.resume()


def take_the_signal():
    signal.signal(signal.SIGURG, lambda *_: None)  # ticks come by another one, or by a timer


def be_stopped():
    pid = os.fork()
    if pid == 0:
        parent = os.getppid()
        os.kill(parent, signal.SIGSTOP)
        time.sleep(0.3)
        os.kill(parent, signal.SIGCONT)
        os._exit(0)
    os.waitpid(pid, 0)


def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


ways = {"pause": pause, "signal": take_the_signal, "stopped": be_stopped, "fork": fork}
spprof.start(output_path=path, mode=mode, interval_ms=1, clock=clock)
works(first)
ways[way]()
works(second)
works(third)
spprof.stop()
print(json.dumps(truth))
