"""Sums up a year's orders by country. Slow on purpose: docs/tutorial.md finds out why, and mends it."""

import random

COUNTRIES = ["Austria", "Brazil", "Chile", "Denmark", "Egypt"]


def make_customers(count):
    return [{"number": number, "country": COUNTRIES[number % 5]} for number in range(count)]


def make_orders(count, customers):
    dice = random.Random(1)
    return [{"customer": dice.randrange(customers), "amount": dice.randrange(1, 500)} for _ in range(count)]


def find_customer(customers, number):
    for customer in customers:
        if customer["number"] == number:
            return customer


def total_by_country(orders, customers):
    totals = dict.fromkeys(COUNTRIES, 0)
    for order in orders:
        customer = find_customer(customers, order["customer"])
        totals[customer["country"]] += order["amount"]
    return totals


def main():
    customers = make_customers(2000)
    orders = make_orders(60_000, len(customers))
    for country, total in total_by_country(orders, customers).items():
        print(f"{country:10} {total:>10,}")


if __name__ == "__main__":
    main()
