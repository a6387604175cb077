"""times.py WHAT UNITS: so many calls of functions that do nothing, or raise (PROGRAMS); `after WHAT` does it after a run that
timed them was stopped."""

import sys

import says


def empty():
    pass


def other():
    pass


def raising():
    raise ValueError


def stepping():
    while True:
        yield


def calls(units):
    for _ in range(units):
        empty()


def exceptions(units):
    for _ in range(units):
        try:
            raising()
        except ValueError:
            pass


def steps(units):
    one = stepping()
    for _ in range(units):
        next(one)


PROGRAMS = {each.__name__: each for each in (calls, exceptions, steps)}


def main(what, units):
    program = PROGRAMS[what.split()[-1]]
    if what.startswith("after "):
        import spprof

        spprof.start(time="__main__:*")
        program(1000)
        spprof.stop()
    other()
    program(1000)
    with says.work():
        program(units)


main(sys.argv[1], int(sys.argv[2]))
