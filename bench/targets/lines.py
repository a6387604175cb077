"""lines.py PROGRAM UNITS: so many executions of a function with many lines, or of one that no counter of lines was asked for.
PROGRAM: price or other; `after NAME` runs it once under a run that counts its lines, stopped before the work;
`line_profiler NAME` has line_profiler on `price`."""

import sys

import says

ITEMS = [{"count": i % 5, "price": i, "gift": i % 7 == 0} for i in range(100)]


def price(items):
    total = 0
    for item in items:
        if item["count"] > 1 and item["gift"]:
            total += item["price"] * item["count"]
        elif item["count"]:
            total += item["price"]
        else:
            total -= 1
    return total


def other(items):
    total = 0
    for item in items:
        if item["count"] > 1 and item["gift"]:
            total += item["price"] * item["count"]
        elif item["count"]:
            total += item["price"]
        else:
            total -= 1
    return total


def main(words, units):
    global price
    how, _, name = words.rpartition(" ")
    if how == "line_profiler":
        from line_profiler import LineProfiler

        price = LineProfiler()(price)  # enabled while it runs
        price(ITEMS)
    elif how == "after":
        import spprof

        spprof.start(lines="__main__:price")
        price(ITEMS)
        spprof.stop()
    program = {"price": price, "other": other}[name]
    program(ITEMS)
    with says.work():
        for _ in range(units):
            program(ITEMS)


main(sys.argv[1], int(sys.argv[2]))
