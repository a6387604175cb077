"""Flask with profiles of slow requests, and of those that ask with a token. `python examples/flask_app.py PORT`, then
`curl localhost:PORT/slow` leaves a file in spprof-requests/."""

import os
import sys
import time

from flask import Flask

from spprof.integrations.wsgi import SpprofMiddleware

app = Flask(__name__)
app.wsgi_app = SpprofMiddleware(app.wsgi_app, slower_than=0.5, token=os.environ.get("SPPROF_TOKEN"))


@app.get("/fast")
def fast():
    return "fast"


@app.get("/slow")
def slow():
    return str(count_primes(for_seconds=1))


def count_primes(for_seconds):
    """How many are found in so much time: equally slow on every processor."""
    end, n, primes = time.monotonic() + for_seconds, 2, 0
    while time.monotonic() < end:
        primes += all(n % d for d in range(2, int(n**0.5) + 1))
        n += 1
    return primes


if __name__ == "__main__":
    app.run(port=int(sys.argv[1]), threaded=True)
