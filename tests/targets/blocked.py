"""Threads that wait in known places; prints what CPython says of their stacks: blocked.py OUT"""

import json
import os
import sys
import threading
import time

import spprof

ready = threading.Semaphore(0)
done = threading.Event()
lock = threading.Lock()
readable, writable = os.pipe()


def on_lock(depth):
    if depth:
        return on_lock(depth - 1)
    ready.release()
    return lock.acquire()


def on_event():
    def nested():
        ready.release()
        return [done.wait() for _ in range(1)]

    return nested()


def on_pipe():
    def generate():
        ready.release()
        yield os.read(readable, 1)

    yield from generate()


class Reader:
    def __call__(self):
        return list(on_pipe())


def stack(frame):
    frames = []
    while frame is not None:
        frames.append((frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return frames[::-1]


lock.acquire()
threads = [threading.Thread(target=on_lock, args=(30,), name="lock"), threading.Thread(target=on_event, name="event"),
           threading.Thread(target=Reader(), name="pipe")]  # fmt: skip
for thread in threads:
    thread.start()
for thread in threads:
    ready.acquire()
before, after = 0, 1
while before != after:  # between `release` and the wait there are some instructions, and a full machine takes its time with them
    before = {t.name: stack(sys._current_frames()[t.ident]) for t in threads}
    spprof.start(1, "wall", sys.argv[1])
    time.sleep(0.3)
    after = {t.name: stack(sys._current_frames()[t.ident]) for t in threads}
    spprof.stop()
lock.release()
done.set()
os.write(writable, b"x")
for thread in threads:
    thread.join()
print(json.dumps(after))
