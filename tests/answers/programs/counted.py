"""A function is called far too often."""


def is_leap(year):
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days(until):
    return sum(365 + is_leap(year) for year in range(1, until))


print(sum(days(until) for until in range(1, 1000)))
