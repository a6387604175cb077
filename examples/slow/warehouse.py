"""Four clerks take goods from a warehouse, each a thread.

"With one clerk it takes two seconds. I hired three more, and it takes two seconds."
"""

import os
import random
import tempfile
import threading
import time

CLERKS = 4
ORDERS = 320


class Stock:
    """What is there. Several threads take from it."""

    def __init__(self, goods, journal):
        self.left = dict.fromkeys(range(goods), 1000)
        self.journal = journal
        self.lock = threading.Lock()

    def take(self, number, amount):
        """Takes some of a good; whether there was enough."""
        with self.lock:
            enough = self.left[number] >= amount
            if enough:
                self.left[number] -= amount
            self.note(number, amount, enough)
        return enough

    def note(self, number, amount, enough):
        """Into the journal, which is on a disk far away."""
        os.write(self.journal, f"{number} {amount} {enough}\n".encode())
        time.sleep(0.005)


def clerk(stock, seed, orders):
    """Works through orders."""
    dice = random.Random(seed)
    for _ in range(orders):
        stock.take(dice.randrange(100), dice.randrange(1, 9))
        label(dice.randrange(10_000))


def label(number):
    """For the parcel."""
    return "-".join(f"{digit:02}" for digit in (number // 100, number % 100))


def main():
    """Prints what is left."""
    with tempfile.TemporaryFile() as journal:
        stock = Stock(100, journal.fileno())
        clerks = [threading.Thread(target=clerk, args=(stock, seed, ORDERS // CLERKS)) for seed in range(CLERKS)]
        for each in clerks:
            each.start()
        for each in clerks:
            each.join()
    print(f"{sum(stock.left.values())} left")


if __name__ == "__main__":
    main()
