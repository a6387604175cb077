"""Greenlets that switch all the time, also inside a C call (the key function of a sort), in four threads."""

import threading

import greenlet
from _truth import burn, part

PYPI = ["greenlet"]
ROOTS = ["ping", "sorter", "producer", "walk"]


def ping(other, n):
    total = 0
    for i in range(n):
        total += burn(20 + i % 7)
        other.switch()  # -> *
    return total


def pongs(rounds, n):
    main = greenlet.getcurrent()
    players = [greenlet.greenlet(ping) for _ in range(rounds)]
    for player in players:
        player.switch(main, n)  # -> ping
    while any(not player.dead for player in players):  # -> <genexpr>
        for player in players:
            if not player.dead:
                player.switch()  # -> ping
    return rounds


def key(item):
    greenlet.getcurrent().parent.switch(item)  # -> *
    return item * 7919 % 997


def sorter(n):
    return sorted(range(n), key=key)  # -> key


def sorts(n):
    made, switches = greenlet.greenlet(sorter), 0
    value = made.switch(n)  # -> sorter
    while not made.dead:
        switches += 1
        value = made.switch()  # -> sorter key
    return switches, value[:3]


def walk(depth):
    if depth:
        return walk(depth - 1) + burn(3)
    greenlet.getcurrent().parent.switch()  # -> *
    return 0


def deep(n):
    made = [greenlet.greenlet(walk) for _ in range(n)]
    for i, one in enumerate(made):
        one.switch(i * 3)  # -> walk
    return sum(one.switch() for one in made)  # -> <genexpr> walk


def heavy(n):
    return burn(n)


def main():
    results = {}

    def each(i):
        results[i] = pongs(10, 60), sorts(3000), deep(60)

    threads = [threading.Thread(target=each, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with part("heavy"):
        total = heavy(6000000)
    print(sorted(results.items()), total)


if __name__ == "__main__":
    main()
