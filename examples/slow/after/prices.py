"""Prices of carts, after a change: see before/prices.py."""

import random
from decimal import ROUND_HALF_EVEN, Decimal

CARTS = 30_000


def carts(number):
    """Articles and how many of each."""
    dice = random.Random(5)
    return [[(dice.randrange(1, 900), dice.randrange(1, 4)) for _ in range(6)] for _ in range(number)]


def discount(total):
    """In cents."""
    return total * 5 // 100 if total > 2000 else 0


def shipping(cart):
    """By the number of articles."""
    articles = 0
    for _, number in cart:
        articles += number
    return 490 if articles < 10 else 0


def rounded(cents):
    """To five cents, as the bank does."""
    return int((Decimal(cents) / 5).quantize(Decimal(1), rounding=ROUND_HALF_EVEN)) * 5


def price(cart):
    """In cents."""
    total = sum(article * number for article, number in cart)
    return rounded(total - discount(total) + shipping(cart))


def main():
    """Prints the sum of all, several times over."""
    some = carts(CARTS)
    for _ in range(10):
        total = sum(map(price, some))
    print(total)


if __name__ == "__main__":
    main()
