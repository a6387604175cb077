"""Mutual and nested recursion: `even` calls only `odd` and the reverse; three functions in a ring."""


def even(n):
    return True if n == 0 else odd(n - 1)  # -> odd


def odd(n):
    return False if n == 0 else even(n - 1)  # -> even


def ring_a(n):
    return n if n <= 0 else ring_b(n - 1)  # -> ring_b


def ring_b(n):
    return n if n <= 0 else ring_c(n - 1)  # -> ring_c


def ring_c(n):
    return n if n <= 0 else ring_a(n - 1)  # -> ring_a


def hanoi(n, a, b, c):
    if n == 0:
        return 0
    left = hanoi(n - 1, a, c, b)  # -> hanoi
    return left + 1 + hanoi(n - 1, c, b, a)  # -> hanoi


def step():
    even(60)  # -> even
    ring_a(40)  # -> ring_a
    hanoi(6, "a", "b", "c")  # -> hanoi
