"""Two threads, two locks, the other way round."""

import os
import threading

FIRST, SECOND = threading.Lock(), threading.Lock()
both = threading.Barrier(2)


def transfer(one, other):
    with one:
        both.wait()
        with other:
            pass


pairs = ((FIRST, SECOND), (SECOND, FIRST))
threads = [threading.Thread(target=transfer, args=pair, name=f"transfer-{n}", daemon=True) for n, pair in enumerate(pairs)]
for thread in threads:
    thread.start()
print("ready", flush=True)
threading.Timer(20, os._exit, (0,)).start()
for thread in threads:
    thread.join()
