"""C code that does not retry: every call that sleeps or waits ends as it does without a profiler, never with EINTR."""

import ctypes
import os
import socket
import struct
import threading
import time

UNITS = 4
POSIX = "poll and nanosleep"
LINUX = (6, 16)  # before it, a tick that lands in a call which is about to sleep interrupts it
EINTR = 4
libc = ctypes.CDLL(None, use_errno=True)


class timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]


class pollfd(ctypes.Structure):
    _fields_ = [("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short)]


def work(n):
    return sum([i * 2 for i in range(n)])


def naps(units):
    interrupted = 0
    for i in range(units * 30):
        request = timespec(0, 3_000_000 + i * 1000)
        if libc.nanosleep(ctypes.byref(request), None) != 0 and ctypes.get_errno() == EINTR:
            interrupted += 1
        work(400)
    return interrupted


def polls(units):
    reading, writing = os.pipe()
    interrupted = 0
    one = pollfd(reading, 1, 0)
    for _ in range(units * 30):
        if libc.poll(ctypes.byref(one), 1, 4) < 0 and ctypes.get_errno() == EINTR:
            interrupted += 1
        work(400)
    os.close(reading)
    os.close(writing)
    return interrupted


def receives(units):
    a, b = socket.socketpair()
    a.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 4000))
    buffer = ctypes.create_string_buffer(8)
    interrupted = 0
    for _ in range(units * 30):
        if libc.recv(a.fileno(), buffer, 8, 0) < 0 and ctypes.get_errno() == EINTR:
            interrupted += 1
        work(400)
    a.close()
    b.close()
    return interrupted


def accepts(server, n):
    for _ in range(n):
        server.accept()[0].close()  # -> *


def connects(units):
    server = socket.create_server(("127.0.0.1", 0), backlog=1)  # -> *
    thread = threading.Thread(target=accepts, args=(server, units * 5))
    thread.start()
    address = struct.pack("=H", socket.AF_INET) + struct.pack(">H", server.getsockname()[1]) + bytes([127, 0, 0, 1]) + bytes(8)
    interrupted = 0
    for _ in range(units * 5):
        client = libc.socket(socket.AF_INET, socket.SOCK_STREAM, 0)
        if libc.connect(client, address, len(address)) < 0 and ctypes.get_errno() == EINTR:
            interrupted += 1
        work(400)
        libc.close(client)
    thread.join()
    server.close()  # -> *
    return interrupted


def main(units):
    results = {}

    def keep(function):
        results[function.__name__] = function(units)  # -> naps polls receives connects

    threads = [threading.Thread(target=keep, args=(f,)) for f in (naps, polls, receives, connects)]
    for thread in threads:
        thread.start()
    end = time.thread_time() + units * 0.2
    while time.thread_time() < end:
        work(3000)
    for thread in threads:
        thread.join()
    return dict(sorted(results.items()))  # in whatever order the threads end
