"""FastAPI: half of each request is a wait, half the user's own work."""

import asyncio

from fastapi import FastAPI

app = FastAPI()


def price(number):
    total = 0
    for i in range(60_000 + number):
        total += i * i % 7
    return total


async def stock(number):
    await asyncio.sleep(0.002)
    return number


@app.get("/item/{number}")
async def item(number: int):
    return {"price": price(number), "stock": await stock(number)}


@app.get("/health")
async def health():
    return "ok"
