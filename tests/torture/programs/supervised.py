"""supervisord and children of each kind: that end, fail and are begun again, take signals, wait for them, refuse SIGTERM and
listen to events. It resets signals, closes all descriptors up to 1024 between fork and exec, and may become a daemon."""

import http.client
import os
import signal
import subprocess
import sys
import time
import xmlrpc.client

from _truth import burn, part, write

PYPI = ["supervisor"]
SUBPROCESSES = True
PROFILES = 10
MAY_LACK_END = True  # one child takes a SIGKILL
ANYWHERE = ["taken", "ended"]
VARIANTS = {"foreground": {}, "daemon": {"ENV": {"PROGRAM_IS_DAEMON": "1"}}}
TEXT = """
[supervisord]
nodaemon = {foreground}
pidfile = supervisord.pid
logfile = supervisord.log
loglevel = debug
minfds = 1024
identifier = torture

[unix_http_server]
file = socket

[rpcinterface:supervisor]
supervisor.rpcinterface_factory = supervisor.rpcinterface:make_main_rpcinterface

[eventlistener:listens]
command = {command} listens
events = PROCESS_STATE_EXITED
stdout_logfile = NONE
stderr_logfile = listens.log
"""
CHILD = """
[program:{name}]
command = {command} {name}
stdout_logfile = {name}.log
stderr_logfile = {name}.errors
startsecs = 0
stopwaitsecs = {patience}
autorestart = unexpected
exitcodes = 0
"""
ENDED = ["again", "again", "again", "works"]
CHILDREN = ["works", "again", "handles", "waits", "refuses"]


def alone(n):
    return burn(n)


def works():
    with part("alone"):
        print(alone(6000000), flush=True)


def again():
    """Fails twice."""
    with open("turns", "a+") as file:  # -> *
        file.write("x")  # -> *
        file.seek(0)  # -> *
        turn = len(file.read())  # -> *
    with part("alone"):
        print(turn, alone(2000000), flush=True)
    write()
    sys.exit(0 if turn == 3 else turn)


def taken(number, frame):
    os.write(1, b"%d\n" % number)


def ended(number, frame):
    write()
    sys.exit(0)


def handles():
    """A handler in Python for each signal that may have one, while it computes: none but ours may come."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}:
        signal.signal(number, ended if number == signal.SIGTERM else taken)
    print("ready", flush=True)
    while True:
        burn(1000)


def waits():
    """Blocks each signal and waits for it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    print("ready", flush=True)
    while True:
        got = signal.sigwait(signal.valid_signals())
        print(int(got), flush=True)
        if got == signal.SIGTERM:
            sys.exit(0)


def refuses():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("ready", flush=True)
    while True:
        burn(1000)


def listens():
    """An event listener: it answers on its standard output, and writes down which child ended how often."""
    while True:
        print("READY", flush=True)
        words = dict(word.split(":") for word in sys.stdin.readline().split())  # -> *
        if not words:
            return
        event = sys.stdin.read(int(words["len"]))  # -> *
        with open("events", "a") as file:  # -> *
            file.write(event.split()[0] + "\n")
        print("RESULT 2\nOK", end="", flush=True)


def read(name):
    try:
        with open(name) as file:  # -> *
            return file.read()  # -> *
    except FileNotFoundError:
        return ""


def until(condition, seconds=60):
    """Whether it holds, at last."""
    end = time.monotonic() + seconds
    while not condition():  # -> <lambda> answers
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def configured(daemon):
    command = f"{sys.executable} {os.path.abspath(__file__)}"
    text = TEXT.format(foreground="false" if daemon else "true", command=command)
    for name in CHILDREN:
        text += CHILD.format(name=name, command=command, patience=1 if name == "refuses" else 60)
    with open("supervisord.conf", "w") as file:
        file.write(text)


class Server:
    """supervisord's interface; a connection that was refused cannot be used again."""

    def __getattr__(self, name):
        from supervisor.xmlrpc import SupervisorTransport  # -> *

        transport = SupervisorTransport(None, None, "unix://" + os.path.abspath("socket"))  # -> *
        return getattr(xmlrpc.client.ServerProxy("http://127.0.0.1", transport=transport).supervisor, name)  # -> *


def state_of(server, name):
    about = server.getProcessInfo(name)  # -> * __getattr__
    return about["statename"], about["exitstatus"]


def gone(pid):
    """It is a zombie if nobody asked for its end yet."""
    try:
        with open(f"/proc/{pid}/stat") as file:  # -> *
            return file.read().rpartition(")")[2].split()[0] == "Z"  # -> *
    except OSError:
        return True


def goes(server):
    over = "EXITED", 0
    names = ("handles", "waits", "refuses")
    print(until(lambda: all(read(f"{name}.log") for name in names)))  # -> <genexpr>
    for i in range(20):
        for name in ("handles", "waits"):
            server.signalProcess(name, "USR1")  # -> * __getattr__
            if not until(lambda: len(read(f"{name}.log").split()) > i + 1):  # noqa: B023
                print("signal", i, "did not come to", name)
    print("ended", until(lambda: state_of(server, "works") == state_of(server, "again") == over and read("turns") == "xxx"))
    for name in names:
        print(name, server.stopProcess(name), state_of(server, name))  # -> * __getattr__
    for name in CHILDREN:
        print(name, state_of(server, name), read(f"{name}.log").split(), read(f"{name}.errors"))
    print("events", until(lambda: sorted(read("events").split()) == sorted(f"processname:{name}" for name in ENDED)))
    print(sorted(read("events").split()), read("listens.log"))


def main():
    daemon, server = bool(os.environ.get("PROGRAM_IS_DAEMON")), Server()
    configured(daemon)
    command = [sys.executable, "-m", "supervisor.supervisord", "-c", "supervisord.conf"]
    began = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # -> *
    try:
        if daemon:
            print("the first process ended with", began.wait(60))  # -> *

        def answers():
            try:
                return server.getState()["statename"] == "RUNNING"  # -> * __getattr__
            except (OSError, http.client.HTTPException):
                return False

        print("begun", until(answers))
        goes(server)
        server.shutdown()  # -> * __getattr__
    finally:
        pid = int(read("supervisord.pid") or 0)
        if pid and not until(lambda: gone(pid)):
            print("does not end")
            os.kill(pid, signal.SIGKILL)
    print("gone", None if daemon else began.wait(60), os.path.exists("socket"))  # -> *


if __name__ == "__main__":
    (globals()[sys.argv[1]] if len(sys.argv) > 1 else main)()  # -> works again handles waits refuses listens main
