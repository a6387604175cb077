"""faulthandler dumps every stack again and again, by its thread and by a signal, on its alternate stack.

Reading frames of threads that run ends Python by itself now and then: so all wait, or are in C, when its thread does."""

import faulthandler
import hashlib
import os
import signal
import threading
import time

from _truth import burn, part


def deep(n, f):
    return deep(n - 1, f) if n else f()  # -> deep <lambda>


def waits(event):
    event.wait()  # -> *


def grown(size):
    while os.stat("dumped").st_size == size:
        time.sleep(0.01)


def heavy(n):
    return burn(n)


def main():
    event = threading.Event()
    threads = [threading.Thread(target=waits, args=(event,)) for _ in range(20)]
    for thread in threads:
        thread.start()
    with open("dumped", "w") as file:  # -> *
        faulthandler.enable(file)
        faulthandler.register(signal.SIGUSR2, file, all_threads=False, chain=False)
        for _ in range(100):
            deep(200, lambda: os.kill(os.getpid(), signal.SIGUSR2))  # -> deep <lambda>
        with part("heavy"):
            total = heavy(6000000)
        for _ in range(4):
            size = os.stat("dumped").st_size
            faulthandler.dump_traceback_later(0.02, file=file)
            deep(200, lambda size=size: grown(size))  # -> deep <lambda>
            faulthandler.dump_traceback_later(0.02, file=file)
            total += len(deep(200, lambda: hashlib.pbkdf2_hmac("sha256", b"word", b"salt", 300000)))  # -> deep <lambda>
            faulthandler.cancel_dump_traceback_later()
        faulthandler.unregister(signal.SIGUSR2)
        faulthandler.disable()
    event.set()
    for thread in threads:
        thread.join()
    with open("dumped") as file:  # -> *
        text = file.read()  # -> *
    print(total, text.count("in deep") >= 100 * 90, text.count("in waits") >= 20 * 4, "Fatal" in text)


if __name__ == "__main__":
    main()
