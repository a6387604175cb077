"""exceptions.py PROGRAM UNITS: so many raises with their catch. PROGRAM: see PROGRAMS; `no exceptions` does as many calls."""

import sys

import says


def fail(depth):
    if depth == 0:
        raise ValueError
    fail(depth - 1)


def through(depth):
    def program(units):
        for _ in range(units):
            try:
                fail(depth)
            except ValueError:
                pass

    return program


def same_frame(units):
    for _ in range(units):
        try:
            raise ValueError
        except ValueError:
            pass


class Missing:
    def __getattr__(self, name):
        raise AttributeError(name)


def swallowed(units):
    missing = Missing()
    for _ in range(units):
        hasattr(missing, "x")


def nothing(units):
    def leaf():
        pass

    for _ in range(units):
        try:
            leaf()
        except ValueError:
            pass


PROGRAMS = {
    "same frame": same_frame, "3 frames": through(2), "30 frames": through(29), "hasattr": swallowed, "no exceptions": nothing,
}  # fmt: skip


def main(name, units):
    PROGRAMS[name](100)
    with says.work():
        PROGRAMS[name](units)


main(sys.argv[1], int(sys.argv[2]))
