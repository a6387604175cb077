"""Cycles of objects: the collector has to find them."""


class Node:
    def __init__(self):
        self.me = self
        self.text = []


def parse():
    return [Node() for _ in range(2000)]


for _ in range(150):
    parse()
