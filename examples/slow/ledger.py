"""Adds up a ledger: a line has an account and an amount.

"It has not even two megabytes. `wc` needs no time for it."
"""

import os
import random
import tempfile

LINES = 90_000


def write(path):
    """A ledger."""
    dice = random.Random(3)
    with open(path, "w", encoding="ascii") as file:
        file.writelines(f"account-{dice.randrange(900):03} {dice.randrange(-9000, 9000)}\n" for _ in range(LINES))


class Ledger:
    """A file with lines."""

    def __init__(self, path):
        self.file = open(path, "rb", buffering=0)

    def line(self):
        """The next one, without its end; b"" after the last."""
        found = bytearray()
        while True:
            sign = self.file.read(1)
            if sign in (b"", b"\n"):
                return bytes(found)
            found += sign


def sums(ledger):
    """Of each account."""
    result = {}
    while True:
        line = ledger.line()
        if not line:
            return result
        account, amount = line.split()
        result[account] = result.get(account, 0) + int(amount)


def main():
    """Prints the largest account."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "ledger")
        write(path)
        account, amount = max(sums(Ledger(path)).items(), key=lambda item: item[1])
    print(account.decode(), amount)


if __name__ == "__main__":
    main()
