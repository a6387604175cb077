"""clocked.py STATE SECONDS: a main thread whose function says what time it is: t_00000 in the first 5 ms, and so on. STATE is
what it does there: `busy`, `epoll` or `event`. Prints its number and when the first began (monotonic ns), at the end where
`busy` saw that it did not run for more than 0.3 ms: [[when, how long], ...], ns."""

import json
import os
import select
import sys
import threading
from time import monotonic_ns

STEP, GAP = 5_000_000, 300_000
BODIES = {
    "busy": """
    last = monotonic_ns()
    while last < until:
        now = monotonic_ns()
        if now - last > GAP: gaps.append((last, now - last))
        last = now
""",
    "epoll": """
    while monotonic_ns() < until: poll.poll(max(0, until - monotonic_ns()) / 1e9)
""",
    "event": """
    while monotonic_ns() < until: event.wait((until - monotonic_ns()) / 1e9)
""",
}
gaps, poll, event = [], select.epoll(), threading.Event()
steps = int(float(sys.argv[2]) * 1e9) // STEP
exec("\n".join(f"def t_{i:05}(until):{BODIES[sys.argv[1]]}" for i in range(steps)))
functions = [globals()[f"t_{i:05}"] for i in range(steps)]
began = monotonic_ns()
print(os.getpid(), began, flush=True)
for i, function in enumerate(functions):
    function(began + (i + 1) * STEP)
print(json.dumps(gaps), flush=True)
