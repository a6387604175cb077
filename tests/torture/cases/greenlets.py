"""Stacks that are swapped below the interpreter: greenlets that switch, die half-way and are thrown into, and gevent's hub with a
server and its clients on loopback."""

import gevent
import greenlet
from gevent import socket
from gevent.server import StreamServer

UNITS = 20
NEEDS = ["greenlet", "gevent"]
NOT_ON = ["3.13t"]
# A greenlet's first frame is called from C, and a switch changes the whole stack: its own root is none of the thread's.
ROOTS = {"<lambda>", "endless", "serve", "ask", "run", "_run", "nested", "child"}
APART = True


def work(n):
    return sum([i * 2 for i in range(n)])


def player(other, n):
    total = 0
    for _ in range(n):
        total += work(60)
        other[0].switch()  # -> player
    return total


def pair(n):
    a, b = [None], [None]
    a[0], b[0] = greenlet.greenlet(lambda: player(b, 30)), greenlet.greenlet(lambda: player(a, n))
    b[0].switch()


def pairs(units):
    for i in range(units * 10):
        pair(30 + i % 3)
    return units


def endless():
    while True:
        work(30)
        greenlet.getcurrent().parent.switch()


def dead(units):
    """Greenlets that are freed, or thrown into, while they are switched away."""
    ended = 0
    for i in range(units * 100):
        made = greenlet.greenlet(endless)
        made.switch()
        made.switch()
        if i % 2:
            made.throw(greenlet.GreenletExit)
            ended += made.dead
        del made
    return ended


def child(depth):
    work(20)
    if depth:
        return greenlet.greenlet(child).switch(depth - 1)  # -> child
    return depth


def nested(units):
    return sum(child(20) for _ in range(units * 10))


def serve(connection, address):
    while True:
        data = connection.recv(64)  # -> *
        if not data:
            return
        work(100)
        connection.sendall(data)  # -> *


def ask(port, n):
    with socket.create_connection(("127.0.0.1", port)) as client:  # -> *
        good = 0
        for i in range(n):
            client.sendall(b"%d" % i)  # -> *
            good += client.recv(64) == b"%d" % i  # -> *
            work(50)
        return good


def served(units):
    server = StreamServer(("127.0.0.1", 0), serve)  # -> *
    server.start()  # -> *
    clients = [gevent.spawn(ask, server.server_port, units * 10) for _ in range(8)]  # -> *
    gevent.joinall(clients)  # -> *
    server.stop()  # -> *
    return sum(client.value for client in clients)  # -> *


def main(units):
    return [pairs(units), dead(units), nested(units), served(units)]
