"""Programs that use signals, interval timers and faulthandler themselves: all of theirs arrive, none of ours shows."""

import faulthandler
import signal
import tempfile
import time

UNITS = 4
POSIX = "interval timers"
ANYWHERE = {"on_alarm", "on_prof", "on_user"}  # Python runs signal handlers between any two instructions
hits = {"alarm": 0, "prof": 0, "user": 0}


def work(n):
    return sum([i * 2 for i in range(n)])


def on_alarm(number, frame):
    hits["alarm"] += 1
    work(50)


def on_prof(number, frame):
    hits["prof"] += 1
    work(50)


def on_user(number, frame):
    hits["user"] += 1
    work(50)


def waits():
    time.sleep(0.3)


def main(units):
    signal.signal(signal.SIGALRM, on_alarm)
    signal.signal(signal.SIGPROF, on_prof)
    signal.signal(signal.SIGUSR1, on_user)
    with tempfile.TemporaryFile() as file:
        faulthandler.enable(file=file)
        # While this thread is blocked: the watchdog reads running threads' frames as they change, and now and then kills
        # the program by it (3.13.0: 1 of 24 unprofiled runs).
        for _ in range(20):  # on a full machine it may come late
            faulthandler.dump_traceback_later(0.1, file=file)
            waits()
            faulthandler.cancel_dump_traceback_later()
            file.seek(0)
            dumped = b"in waits" in file.read()
            if dumped:
                break
        signal.setitimer(signal.ITIMER_REAL, 0.003, 0.003)
        signal.setitimer(signal.ITIMER_PROF, 0.007, 0.007)
        end = time.thread_time() + units * 0.4
        sent = 0
        while (left := end - time.thread_time()) > 0:  # read when it may be used up: docs/troubleshooting.md
            until = time.monotonic() + left
            while time.monotonic() < until:
                work(3000)
                signal.raise_signal(signal.SIGUSR1)
                sent += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.disable()
    seconds = units * 0.4
    return {
        "every raised signal was handled": hits["user"] == sent,
        "alarms": hits["alarm"] > seconds / 0.003 / 20,
        "prof": hits["prof"] > seconds / 0.007 / 20,
        "dumped": dumped,
    }
