"""Known hot expressions. Do not reformat: columns are part of the test."""

number = 3001


def hot(n):
    for _ in range(n):
        é, 漢 = "é漢", number ** number  # the hot line


def take(*args):
    return [x * x for x in range(2000) if args]


def broad(n):
    for _ in range(n):
        take(  # begins
            n,
            n + 1,
            [n, n],
        )  # ends


def step():
    hot(300)  # -> hot
    broad(100)  # -> broad
