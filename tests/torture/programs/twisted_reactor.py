"""Twisted, by each of four reactors: its handler for SIGCHLD and its wakeup descriptor, processes that end in each way, some on
terminals of their own, a pool of threads, and 30 clients of one server on loopback."""

import hashlib
import os
import signal
import sys
import threading
import time

from _truth import burn, part
from twisted.internet import asyncioreactor, epollreactor, pollreactor, selectreactor

PYPI = ["twisted"]
VARIANTS = {
    "epoll": {"ENV": {"PROGRAM_REACTOR": "epoll"}},
    "poll": {"ENV": {"PROGRAM_REACTOR": "poll"}},
    "select": {"ENV": {"PROGRAM_REACTOR": "select"}},
    "asyncio": {"ENV": {"PROGRAM_REACTOR": "asyncio"}},
}
ANYWHERE = ["alarmed"]
KINDS = {"epoll": epollreactor, "poll": pollreactor, "select": selectreactor, "asyncio": asyncioreactor}
KINDS[os.environ.get("PROGRAM_REACTOR", "epoll")].install()  # -> *

from twisted.internet import defer, endpoints, protocol, reactor, task, threads  # noqa: E402
from twisted.protocols import basic  # noqa: E402

ALARMS = []


class Serves(basic.LineReceiver):
    def lineReceived(self, line):
        burn(200)
        self.sendLine(line[::-1])  # -> *


class Asks(basic.LineReceiver):
    def __init__(self, n):
        self.left, self.good, self.done = n, 0, defer.Deferred()  # -> *

    def connectionMade(self):
        self.sendLine(b"word %d" % self.left)  # -> *

    def lineReceived(self, line):
        self.good += line == (b"word %d" % self.left)[::-1]
        self.left -= 1
        if self.left:
            self.sendLine(b"word %d" % self.left)  # -> *
        else:
            self.transport.loseConnection()  # -> *

    def connectionLost(self, reason=None):
        self.done.callback(self.good)  # -> *


class Child(protocol.ProcessProtocol):
    """Collects what a process says and how it ends; `on_word` is called with each of its words."""

    def __init__(self, on_word=None):
        self.said, self.done, self.on_word = b"", defer.Deferred(), on_word  # -> *

    def outReceived(self, data):
        self.said += data
        if self.on_word:
            self.on_word(self)  # -> kills feeds

    def processEnded(self, reason):
        self.done.callback((self.said, reason.value.exitCode, reason.value.signal))  # -> *


def kills(child):
    child.transport.signalProcess("TERM")  # -> *


def feeds(child):
    if child.said.count(b"\n") == 30:
        child.transport.closeStdin()  # -> *


def hashed(n):
    return hashlib.pbkdf2_hmac("sha256", b"word", b"salt", n)[0]


def blocked(n):
    time.sleep(n)
    return n


def alarmed(number, frame):
    ALARMS.append(number)


def heavy(n):
    return burn(n)


def spawned(words, on_word=None, **more):
    child = Child(on_word)  # -> __init__
    process = reactor.spawnProcess(child, words[0], words, env=dict(os.environ), **more)  # -> *
    return child, process


def began(n):
    """The deferred ends of so many processes of each kind."""
    ends = []
    for i in range(n):
        ends.append(spawned(["/bin/sh", "-c", f"exit {i}"])[0].done)
        ends.append(spawned([sys.executable, "-c", f"print({i} * 7)"])[0].done)
        ends.append(spawned(["/bin/sh", "-c", "echo here; exec sleep 100"], kills)[0].done)
        ends.append(spawned(["/bin/sh", "-c", "kill -9 $$"])[0].done)
        ends.append(spawned(["/bin/sh", "-c", "test -t 0 && echo terminal"], usePTY=True)[0].done)
        child, process = spawned(["/bin/cat"], feeds)
        for j in range(30):
            process.write(b"%d\n" % j)  # -> *
        ends.append(child.done)
    return ends


@defer.inlineCallbacks
def work():
    alarms = threading.Thread(target=lambda: [(time.sleep(0.01), os.kill(os.getpid(), signal.SIGUSR1)) for _ in range(20)])
    signal.signal(signal.SIGUSR1, alarmed)
    listening = yield endpoints.TCP4ServerEndpoint(reactor, 0, interface="127.0.0.1").listen(  # -> *
        protocol.Factory.forProtocol(Serves)  # -> *
    )
    endpoint = endpoints.TCP4ClientEndpoint(reactor, "127.0.0.1", listening.getHost().port)  # -> *
    turns = []
    ticking = task.LoopingCall(lambda: turns.append(burn(50)))  # -> *
    ticking.start(0.003)  # -> * <lambda>
    alarms.start()
    ends = began(5)
    hashes = [threads.deferToThread(hashed, 20000 + i) for i in range(10)]  # -> *
    sleeps = [threads.deferToThread(blocked, 0.02) for _ in range(10)]  # -> *
    clients = []
    for _ in range(30):
        client = Asks(40)  # -> __init__
        clients.append(client.done)
        yield endpoints.connectProtocol(endpoint, client)  # -> *
    answers = yield defer.gatherResults(clients)  # -> *
    print(sum(answers), (yield defer.gatherResults(hashes)), sum((yield defer.gatherResults(sleeps))))  # -> *
    for said, status, ended in (yield defer.gatherResults(ends)):  # -> *
        print(said, status, ended)
    while alarms.is_alive():
        yield task.deferLater(reactor, 0.005)  # -> *
    with part("heavy"):
        total = heavy(6000000)
    ticking.stop()  # -> *
    yield listening.stopListening()  # -> *
    # Signals of one number that wait are one, so how many came depends on time.
    print(total, len(turns) > 5, 1 <= len(ALARMS) <= 20, set(ALARMS), signal.getsignal(signal.SIGUSR1) is alarmed)


def main():
    work().addErrback(lambda failure: failure.printTraceback()).addBoth(lambda _: reactor.stop())  # -> *
    reactor.run()  # -> *


if __name__ == "__main__":
    main()
