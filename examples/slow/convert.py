"""Converts amounts between currencies, as a command that scripts call a hundred times a day.

"It multiplies two numbers. Why do I wait for it?"
"""

import argparse
import json

from tables import currencies, rates


def main():
    """Prints the amount."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("amount", type=float, nargs="?", default=100.0)
    parser.add_argument("--of", default="EUR")
    parser.add_argument("--to", default="CHF")
    options = parser.parse_args()
    value = options.amount * rates.between(options.of, options.to)
    print(json.dumps({currencies.NAMES[options.to]: round(value, 2)}))


if __name__ == "__main__":
    main()
