"""Prices of carts, before a change.

"The new version has better rounding, and is slower. I changed three functions."
"""

import random

CARTS = 30_000


def carts(number):
    """Articles and how many of each."""
    dice = random.Random(5)
    return [[(dice.randrange(1, 900), dice.randrange(1, 4)) for _ in range(6)] for _ in range(number)]


def discount(total):
    """In cents."""
    return total // 20 if total > 2000 else 0


def shipping(cart):
    """By the number of articles."""
    return 490 if sum(number for _, number in cart) < 10 else 0


def rounded(cents):
    """To five cents."""
    return (cents + 2) // 5 * 5


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
