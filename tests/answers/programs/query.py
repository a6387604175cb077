"""A query that reads the whole table each time."""

import sqlite3


def orders_of(database, customer):
    return database.execute("select sum(amount) from orders where customer = ?", (customer,)).fetchone()[0]


def main():
    database = sqlite3.connect(":memory:")
    database.execute("create table orders (customer, amount)")
    database.executemany("insert into orders values (?, ?)", ((i % 500, i % 97) for i in range(50_000)))
    print(sum(orders_of(database, customer) for customer in range(500)))


main()
