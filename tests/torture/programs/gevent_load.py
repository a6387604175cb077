"""gevent with everything patched: 60 clients of one server, a pool of real threads, sleeps, locks, kills, and subprocesses."""

from gevent import monkey

monkey.patch_all()

import hashlib  # noqa: E402
import socket  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402

import gevent  # noqa: E402
from _truth import burn, part  # noqa: E402
from gevent.pool import Pool  # noqa: E402
from gevent.server import StreamServer  # noqa: E402
from gevent.threadpool import ThreadPool  # noqa: E402

PYPI = ["greenlet", "gevent"]
# A greenlet's first frame is called from C.
ROOTS = ["serve", "client", "sleeper", "doomed", "hashed", "each"]


def serve(connection, address):
    file = connection.makefile("rwb")  # -> *
    for line in file:  # -> *
        burn(500)
        file.write(hashlib.sha256(line).hexdigest().encode() + b"\n")
        file.flush()  # -> *
    connection.close()  # -> *


def client(port, number, n):
    with socket.create_connection(("127.0.0.1", port)) as wire:  # -> *
        file = wire.makefile("rwb")  # -> *
        good = 0
        for i in range(n):
            line = b"%d %d\n" % (number, i)
            file.write(line)  # -> *
            file.flush()  # -> *
            good += file.readline() == hashlib.sha256(line).hexdigest().encode() + b"\n"  # -> *
        return good


def sleeper(n):
    for _ in range(n):
        time.sleep(0.001)  # -> *
    return n


def doomed(log):
    try:
        while True:
            burn(300)
            gevent.sleep(0)  # -> *
    finally:
        log.append("ended")


def hashed(n):
    total = 0
    for i in range(n):
        total += hashlib.pbkdf2_hmac("sha256", b"word", b"salt", 500 + i)[0]
    return total


def heavy(n):
    return burn(n)


def main():
    server = StreamServer(("127.0.0.1", 0), serve)  # -> *
    server.start()  # -> *
    pool, threads, log = Pool(60), ThreadPool(3), []  # -> *
    clients = [pool.spawn(client, server.server_port, i, 40) for i in range(60)]  # -> *
    native = [threads.spawn(hashed, 100) for _ in range(6)]  # -> *
    sleepers = [gevent.spawn(sleeper, 50) for _ in range(20)]  # -> *
    killed = [gevent.spawn(doomed, log) for _ in range(10)]  # -> *
    gevent.joinall(clients + sleepers)  # -> *
    gevent.killall(killed)  # -> *
    child = subprocess.run([sys.executable, "-c", "print(6 * 7)"], stdout=subprocess.PIPE)  # -> *
    locked, lock = [], threading.Lock()

    def each(i):
        with lock:  # -> *
            gevent.sleep(0)  # -> *
            locked.append(i)

    gevent.joinall([gevent.spawn(each, i) for i in range(50)])  # -> *
    with part("heavy"):  # -> *
        total = heavy(6000000)
    print(sum(c.value for c in clients), sum(s.value for s in sleepers), len(log), child.stdout, len(locked), total)  # -> *
    print(sorted(n.get() for n in native))  # -> *
    server.stop()  # -> *


if __name__ == "__main__":
    main()
