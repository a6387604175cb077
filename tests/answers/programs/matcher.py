"""A regular expression keeps the GIL; the main thread wants to answer."""

import re
import threading
import time

BAD = "a" * 21


def match(end):
    while time.monotonic() < end:
        re.match("(a+)+b", BAD)


def answer(end):
    while time.monotonic() < end:
        time.sleep(0.001)


end = time.monotonic() + 2
thread = threading.Thread(target=match, args=(end,), name="match")
thread.start()
answer(end)
thread.join()
