"""A report by pandas: the user's function is called for each row, deep in pandas."""

import pandas as pd


def load():
    return pd.DataFrame({"customer": [i % 500 for i in range(60_000)], "amount": [i % 97 for i in range(60_000)]})


def discount(row):
    rate = 0.0
    for step in range(int(row["amount"])):
        rate += step % 7 * 0.01
    return rate


def main():
    frame = load()
    frame["discount"] = frame.apply(discount, axis=1)
    print(round(frame.groupby("customer")["discount"].sum().max(), 2))


main()
