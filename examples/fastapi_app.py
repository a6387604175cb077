"""FastAPI with profiles of slow requests, and of those that ask with a token. `python examples/fastapi_app.py PORT`, then
`curl localhost:PORT/slow` leaves a file in spprof-requests/; so does /blocking, which runs in a thread."""

import asyncio
import os
import sys

import uvicorn
from fastapi import FastAPI

from spprof.integrations.asgi import SpprofMiddleware

app = FastAPI()
app.add_middleware(SpprofMiddleware, slower_than=0.25, token=os.environ.get("SPPROF_TOKEN"))


@app.get("/fast")
async def fast():
    return "fast"


@app.get("/slow")
async def slow():
    primes = 0
    for start in range(0, 200_000, 1000):
        primes += count_primes(start, start + 1000)
        await asyncio.sleep(0)  # others have their turn
    return primes


@app.get("/blocking")
def blocking():
    return count_primes(0, 200_000)


def count_primes(start, limit):
    return sum(all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(max(2, start), limit))


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
