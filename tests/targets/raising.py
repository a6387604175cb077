"""Exceptions that unwind many frames, finally, context managers."""
# foreign: __init__ __enter__ __exit__ > managed

import contextlib


def fail(n):
    raise ValueError(n)


def dig(n):
    if n == 0:
        fail(n)  # -> fail
    try:
        return dig(n - 1)  # -> dig
    finally:
        clean(n)  # -> clean


def clean(n):
    return [n] * 3


def middle(n):
    try:
        dig(n)  # -> dig
    except ValueError as error:
        raise KeyError(n) from error


@contextlib.contextmanager
def managed():
    try:
        yield clean(1)  # -> clean
    except KeyError:
        clean(2)  # -> clean


def step():
    try:
        middle(12)  # -> middle
    except KeyError:
        clean(0)  # -> clean
    with managed():  # -> contextmanager.<locals>.helper _GeneratorContextManager.__enter__ _GeneratorContextManager.__exit__
        middle(3)  # -> middle 3.9: _GeneratorContextManager.__exit__
