"""A small shop's day, as a program to profile: orders come over a socket, workers price them, a report is made.

Threads that compute ("pricing-*", with the standard library), a thread inside a C extension ("catalogue": lxml parses
and queries XML), and threads that mostly wait ("server" on its socket, "customer-*" between orders, "heartbeat" asleep).
Takes 5 to 8 seconds and prints one result. Run it alone, or under the profiler: `make demo`.
"""

import argparse
import hashlib
import json
import queue
import random
import socket
import threading
import time
from fractions import Fraction

from lxml import etree

CUSTOMERS = 3
PRICERS = 2


def serve(listener, orders):
    """Waits for customers; each line of a connection is an order."""
    for _ in range(CUSTOMERS):
        connection, _address = listener.accept()
        with connection, connection.makefile("r", encoding="utf-8") as lines:
            for line in lines:
                orders.put(json.loads(line))


def buy(port, seed, until):
    """A customer: thinks (sleeps) longer than it orders."""
    dice = random.Random(seed)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        while time.monotonic() < until:
            order = {"customer": seed, "items": [dice.randrange(400) for _ in range(24)]}
            connection.sendall(json.dumps(order).encode() + b"\n")
            time.sleep(dice.uniform(0.002, 0.03))


def price(orders, totals, until):
    """Takes orders while there are any, and prices them."""
    while time.monotonic() < until:
        try:
            order = orders.get(timeout=0.05)
        except queue.Empty:
            continue
        total = sum(price_of(item) for item in order["items"])
        totals.put((order["customer"], total - discount(order["items"])))


def price_of(item):
    digest = hashlib.sha256(str(item).encode()).digest()
    return Fraction(digest[0] + 1, digest[1] + 1)


def discount(items):
    """The best sum of items that stays under a limit: a loop that keeps Python busy."""
    best = {0}
    for item in items:
        best |= {value + item for value in best if value + item < 8000}
    return Fraction(max(best), 1000)


def read_catalogue(until):
    """XML in a C extension, which gives up the GIL while it parses."""
    page = "".join(f"<item id='{i}'><name>thing {i}</name><price>{i * 7 % 100}</price></item>" for i in range(4000))
    document = f"<catalogue>{page}</catalogue>".encode()
    found = 0
    while time.monotonic() < until:
        tree = etree.fromstring(document)
        found = max(found, len(cheap_items(tree)))
        time.sleep(0.01)
    return found


def cheap_items(tree):
    return tree.xpath("//item[price < 20]/name")


def beat(until, beats):
    while time.monotonic() < until:
        time.sleep(0.25)
        beats.append(time.monotonic())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="how long the shop is open (default 5)")
    seconds = parser.parse_args().seconds

    until = time.monotonic() + seconds
    orders, totals, beats, found = queue.Queue(), queue.Queue(), [], []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        threads = [
            threading.Thread(target=serve, args=(listener, orders), name="server"),
            threading.Thread(target=lambda: found.append(read_catalogue(until)), name="catalogue"),
            threading.Thread(target=beat, args=(until, beats), name="heartbeat"),
        ]
        for n in range(PRICERS):
            threads.append(threading.Thread(target=price, args=(orders, totals, until), name=f"pricing-{n}"))
        for n in range(CUSTOMERS):
            threads.append(threading.Thread(target=buy, args=(port, n, until), name=f"customer-{n}"))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    turnover = Fraction()
    count = 0
    while not totals.empty():
        turnover += totals.get()[1]
        count += 1
    print(f"{count} orders, turnover {float(turnover):.2f}, {found[0]} cheap things, {len(beats)} heartbeats")


if __name__ == "__main__":
    main()
