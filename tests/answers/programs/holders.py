"""One thread holds the lock while it saves; the others wait for it."""

import threading
import time

LOCK = threading.Lock()


def save(end):
    while time.monotonic() < end:
        with LOCK:
            time.sleep(0.05)


def read(end):
    while time.monotonic() < end:
        with LOCK:
            pass


end = time.monotonic() + 2
threads = [threading.Thread(target=save, args=(end,), name="saver")]
threads += [threading.Thread(target=read, args=(end,), name=f"reader-{i}") for i in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
