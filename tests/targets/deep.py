"""Recursion far beyond the depth that is kept."""


def down(n):
    if n == 0:
        return burn(200)  # -> burn
    return down(n - 1)  # -> down


def burn(n):
    s = 0
    for _ in range(n):
        for k in range(200):
            s += k
    return s


def step():
    down(1500)  # -> down
