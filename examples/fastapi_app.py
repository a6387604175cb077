"""FastAPI with profiles of slow requests, and of those that ask with a token. `python examples/fastapi_app.py PORT`, then
`curl localhost:PORT/slow` leaves a file in spprof-requests/; so does /blocking, which runs in a thread."""

import asyncio
import os
import sys
import time

import uvicorn
from fastapi import FastAPI

from spprof.integrations.asgi import SpprofMiddleware

app = FastAPI()
app.add_middleware(SpprofMiddleware, slower_than=0.5, token=os.environ.get("SPPROF_TOKEN"))


@app.get("/fast")
async def fast():
    return "fast"


@app.get("/slow")
async def slow():
    primes = 0
    for _ in range(100):
        primes += count_primes(for_seconds=0.01)
        await asyncio.sleep(0)  # others have their turn
    return primes


@app.get("/blocking")
def blocking():
    return count_primes(for_seconds=1)


def count_primes(for_seconds):
    """How many are found in so much time: equally slow on every processor."""
    end, n, primes = time.monotonic() + for_seconds, 2, 0
    while time.monotonic() < end:
        primes += all(n % d for d in range(2, int(n**0.5) + 1))
        n += 1
    return primes


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
