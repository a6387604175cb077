"""CPython's own just-in-time compiler at work: hot loops, calls, generators and exceptions out of them. Functions are exact;
lines are those where the compiled code last wrote down where it was, and are not judged."""

UNITS = 12
SINCE = (3, 14)
ENV = {"PYTHON_JIT": "1"}
LINES_ARE_NEAR = True


def work(n):
    total = 0
    for i in range(n):
        total += i * 2 if i & 1 else 1
    return total


def deeper(n, depth):
    return deeper(n, depth - 1) + 1 if depth else work(n)


def numbers(n):
    for i in range(n):
        yield i + work(3)


class Point:
    def __init__(self, x):
        self.x = x

    def moved(self, by):
        return Point(self.x + by)

    @property
    def twice(self):
        return self.x * 2


def points(n):
    p = Point(0)
    for i in range(n):
        p = p.moved(i & 3)
    return p.twice


def fails(i):
    if i % 10 == 9:
        raise ValueError(i)
    return i


def caught(n):
    good = 0
    for i in range(n):
        try:
            good += fails(i)
        except ValueError:
            pass
    return good


def main(units):
    total = 0
    for i in range(units * 40):
        total += work(2000) + deeper(20, 25) + sum(numbers(200)) + points(300) + caught(300)
        if i % 50 == 0:
            space = {}
            exec("def later(n):\n    return sum([j for j in range(n)])", space)
            total += space["later"](100)
    return total


def source(file):
    return "def later(n):\n    return sum([j for j in range(n)])" if file == "<string>" else None
