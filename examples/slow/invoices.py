"""Adds up a month's invoices. Some were sent twice, and count once.

"Ten thousand invoices took a second last year. Now there are more, and I go for coffee."
"""

import random
from decimal import Decimal

INVOICES = 20_000


def received(number):
    """Invoices as they come: (customer, number, amount)."""
    dice = random.Random(7)
    for at in range(number):
        yield f"C{dice.randrange(500):03}", at - (at % 97 == 0), Decimal(dice.randrange(100, 90_000)) / 100


def vat(amount):
    """Of an amount, to the cent."""
    return (amount * 19 / 100).quantize(Decimal("0.01"))


class Month:
    """What came in a month."""

    def __init__(self):
        self.numbers = []
        self.total = Decimal(0)

    def book(self, customer, number, amount):
        """Books an invoice, unless it came before."""
        if self.is_booked(number):
            return
        self.numbers.append(number)
        self.total += amount + vat(amount)

    def is_booked(self, number):
        """Whether it came before."""
        return number in self.numbers


def main():
    """Prints the month."""
    month = Month()
    for invoice in received(INVOICES):
        month.book(*invoice)
    print(f"{len(month.numbers)} invoices, {month.total} in all")


if __name__ == "__main__":
    main()
