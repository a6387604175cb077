"""Python called from C: sorted, map, reduce, operators, attributes, constructors, destructors, comprehensions, lambdas."""

import functools


def key(x):
    return -x


def square(x):
    return x * x


def add(a, b):
    return a + square(b)  # -> square


class Thing:
    def __init__(self, n):
        self.n = square(n)  # -> square

    def __getitem__(self, i):
        if i >= 20:
            raise IndexError(i)
        return square(i)  # -> square

    @property
    def size(self):
        return square(self.n)  # -> square

    def __lt__(self, other):
        return key(self.n) < key(other.n)  # -> key

    def __eq__(self, other):
        return self.n == other.n

    def __hash__(self):
        return square(self.n)  # -> square

    def __del__(self):
        square(1)  # -> square


class Sub(Thing):
    def __init__(self, n):
        super().__init__(n)  # -> Thing.__init__


def comprehensions(data):
    a = [square(x) for x in data]  # -> square comprehensions.<locals>.<listcomp>
    b = {x: square(x) for x in data}  # -> square comprehensions.<locals>.<dictcomp>
    c = {key(x) for x in data}  # -> key comprehensions.<locals>.<setcomp>
    return [[key(y) for y in a] for x in range(3)], b, c  # -> key comprehensions.<locals>.<listcomp> comprehensions.<locals>.<listcomp>.<listcomp>


def class_body():
    class Made:  # -> class_body.<locals>.Made
        x = square(2)  # -> square

    return Made


def step():
    data = list(range(25))
    sorted(data, key=key)  # -> key
    sorted(data, key=lambda x: key(x))  # -> key step.<locals>.<lambda>
    list(map(square, data))  # -> square
    functools.reduce(add, data)  # -> add
    thing = Sub(3)  # -> Sub.__init__
    list(thing)  # -> Thing.__getitem__
    thing.size  # -> Thing.size
    things = sorted([Thing(i) for i in data])  # -> Thing.__init__ Thing.__lt__ step.<locals>.<listcomp>
    set(things) == {1}  # -> Thing.__hash__ Thing.__eq__
    things.index(things[-1])  # -> Thing.__eq__
    del things[:]  # -> Thing.__del__
    del thing  # -> Thing.__del__
    comprehensions(data)  # -> comprehensions
    class_body()  # -> class_body
