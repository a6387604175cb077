"""A gateway with asyncio: visitors log in, others ask for prices, all at the same time.

"Prices come out of a dictionary, and yet they take as long as a login."
"""

import asyncio
import hashlib
import time

LOGINS, QUESTIONS = 40, 400
PRICES = {f"article {number}": number * 3 for number in range(100)}
waited = []


async def login(name):
    """Checks a password, and says hello."""
    await asyncio.sleep(0.001)  # the request comes in
    digest = derived(f"secret of {name}")
    await asyncio.sleep(0.001)  # the answer goes out
    return digest


def derived(password):
    """What is kept of a password."""
    return hashlib.pbkdf2_hmac("sha256", password.encode(), b"salt", 60_000)


async def price(article):
    """Looks it up."""
    began = time.monotonic()
    await asyncio.sleep(0.001)
    waited.append(time.monotonic() - began)
    return PRICES[article]


async def main():
    """Prints how long a price took."""
    visitors = [login(f"user {number}") for number in range(LOGINS)]
    visitors += [price(f"article {number % 100}") for number in range(QUESTIONS)]
    await asyncio.gather(*visitors)
    print(f"{len(waited)} prices, the slowest in {max(waited):.2f} s")


if __name__ == "__main__":
    asyncio.run(main())
