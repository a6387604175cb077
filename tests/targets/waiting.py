"""Threads that wait for a known reason each, from before the profile's start to after its end; and two that compute.

python waiting.py OUT NATIVE: prints what each waits on, by the thread's name."""

import json
import os
import queue
import select
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import spprof

ends = threading.Event()
lock = threading.Lock()
lock.acquire()
left, right = socket.socketpair()
server = socket.create_server(("127.0.0.1", 0))
port = server.getsockname()[1]
client = socket.create_connection(("127.0.0.1", port))
accepted = server.accept()[0]
polled = socket.create_connection(("127.0.0.1", port))
polled_accepted = server.accept()[0]
polled.settimeout(600)
selected = os.pipe()
reads, writes = os.pipe()
items = queue.Queue()
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
epoll = select.epoll()
epoll.register(left.fileno(), select.EPOLLIN)
pool = ThreadPoolExecutor(1, thread_name_prefix="pool")
pool.submit(int).result()
counts = [0, 0]


def waits_sleep():
    time.sleep(600)


def waits_select():
    select.select([], [], [], 600)


def waits_lock():
    lock.acquire()


def waits_event():
    ends.wait(600)


def waits_queue():
    items.get()


def waits_pipe():
    os.read(reads, 1)


def waits_select_pipe():
    select.select([selected[0]], [], [], 600)


def waits_socket():
    client.recv(1)


def waits_poll():
    polled.recv(1)


def waits_unix():
    right.recv(1)


def waits_accept():
    server.accept()


def waits_select_server():
    select.select([selected[0], server.fileno(), reads], [], [], 600)


def waits_poll_server():
    poll = select.poll()
    poll.register(server.fileno(), select.POLLIN)
    poll.poll(600_000)


def waits_child():
    child.wait()


def waits_epoll():
    epoll.poll(600)


def spins(me):
    while not ends.is_set():
        counts[me] += sum(range(200)) > 0


def seen(profile):
    """Of each thread the reasons that were seen."""
    found = {}
    for sample, reason in zip(profile.samples(), profile.column("reason")):
        found.setdefault(sample.thread_name, set()).add(profile.reasons[reason])
    return found


def main(out, native):
    waiters = [each for name, each in globals().items() if name.startswith("waits_")]
    threads = [threading.Thread(target=each, name=each.__name__, daemon=True) for each in waiters]
    threads += [threading.Thread(target=spins, args=(me,), name=f"spins_{me}", daemon=True) for me in range(2)]
    for thread in threads:
        thread.start()
    spprof.start(1, "wall", out, native=native)
    expected = {each.__name__ for each in waiters} | {"pool_0"}
    late = time.monotonic() + 60
    while time.monotonic() < late:
        time.sleep(0.2)
        spprof.flush()
        found = seen(spprof.Profile.load(out))
        if all(found.get(name, set()) - {"running", "ready", "gil"} for name in expected):
            break
    spprof.stop()
    on = {"waits_socket": f"socket 127.0.0.1:{port}", "waits_poll": f"socket 127.0.0.1:{port}"}
    on["waits_pipe"] = f"pipe, descriptor {reads}"
    on["waits_select_pipe"] = f"pipe, descriptor {selected[0]}"
    on["waits_accept"] = f"server 127.0.0.1:{port}"
    on["waits_select_server"] = on["waits_poll_server"] = on["waits_accept"]
    on["waits_unix"] = f"socket, descriptor {right.fileno()}"
    print(json.dumps(on), flush=True)
    child.kill()
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2] == "native")
