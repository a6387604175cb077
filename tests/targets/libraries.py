"""Programs of the standard library that call the same functions each time: what people's programs are made of."""

import abc
import argparse
import ast
import asyncio
import concurrent.futures
import configparser
import copy
import csv
import dataclasses
import difflib
import email
import enum
import fractions
import functools
import heapq
import html.parser
import importlib
import inspect
import io
import itertools
import json
import logging
import pickle
import pprint
import queue
import random
import sqlite3
import statistics
import string
import textwrap
import threading
import tokenize
import traceback
import types
import unittest
import xml.dom.minidom
import zipfile

SOURCE = inspect.getsource(textwrap)


def parsers():
    tree = ast.parse("def f(a, *b, c=1, **d):\n    return [a + x for x in b if x] or {c: d}\n" * 5)
    for node in ast.walk(tree):
        list(ast.iter_child_nodes(node))
    if hasattr(ast, "unparse"):
        ast.unparse(tree)
    list(tokenize.generate_tokens(io.StringIO("x = [1, (2 + y)]\n" * 20).readline))


def encoders():
    encoder = json.encoder.JSONEncoder(indent=2, sort_keys=True)
    text = "".join(encoder.iterencode({"a": [1, 2.5, None, True], "b": {"c": ["d"] * 5}}))
    json.loads(text, object_hook=lambda found: found)


def deep_copies():
    copy.deepcopy({"a": [1, (2, [3])], "b": {4: [5, {6: 7}]}})
    copy.copy(fractions.Fraction(1, 3))


def exact_numbers():
    sum(fractions.Fraction(1, n) for n in range(1, 30))
    statistics.pstdev([1, 2, 3, 4.5]), statistics.median([3, 1, 2])


def pure_decimals():
    import _pydecimal

    with _pydecimal.localcontext() as context:
        context.prec = 30
        _pydecimal.Decimal(2).sqrt() + _pydecimal.Decimal("1.1") ** 3


@dataclasses.dataclass(order=True)
class Item:
    price: int
    name: str = dataclasses.field(default="x", compare=False)


def data_classes():
    items = sorted(Item(i * 7 % 5) for i in range(12))
    [dataclasses.replace(one, name="y") for one in items if one == items[0]]
    [dataclasses.asdict(one) for one in items]
    repr(items)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


def enumerations():
    [Colour(n % 2 + 1).name for n in range(6)]
    enum.Enum("Made", "A B C")
    sorted(Colour, key=lambda colour: -colour.value)


def options():
    parser = argparse.ArgumentParser(prog="x")
    parser.add_argument("--number", type=int, default=1)
    parser.add_argument("rest", nargs="*")
    parser.parse_args(["--number", "3", "a", "b"])
    parser.format_help()


def differences():
    list(difflib.unified_diff(["a\n", "b\n", "c\n"] * 4, ["a\n", "c\n", "d\n"] * 4))
    difflib.get_close_matches("appel", ["ape", "apple", "peach"])


class Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.seen = []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)


def markup():
    Tags().feed("<p class=a>one<b>two</b></p>" * 8)
    xml.dom.minidom.parseString("<a><b c='d'>e</b><b/></a>").toprettyxml()


def messages():
    email.message_from_string("Subject: x\nTo: a@example.org\n\nbody\n").as_string()


class Kept:
    def __reduce__(self):
        return Kept, ()


def pickles():
    file = io.BytesIO()
    pickle._Pickler(file, 2).dump([Kept(), {"a": (1, 2.0, "b")}])
    file.seek(0)
    pickle._Unpickler(file).load()
    pickle.loads(pickle.dumps([Kept() for _ in range(4)]))


def texts():
    textwrap.fill("some words that are long enough to wrap more than once " * 4, 30)
    string.Template("$a and ${b}").substitute(a=1, b=2)
    string.Formatter().format("{0:>5} {name!r}", 1, name="x")
    pprint.pformat({"a": list(range(30)), "b": {"c": "d" * 100}})


def merged():
    list(heapq.merge([1, 4], [2, 3], key=lambda x: x))
    heapq.nsmallest(2, range(9), key=lambda x: -x)
    list(itertools.accumulate(range(6), lambda a, b: a + b))
    [list(group) for _, group in itertools.groupby(range(9), key=lambda x: x // 3)]
    list(itertools.takewhile(lambda x: x < 3, itertools.count()))


def tables():
    file = io.StringIO()
    csv.DictWriter(file, ["a", "b"]).writerows([{"a": i, "b": "x"} for i in range(5)])
    file.seek(0)
    list(csv.DictReader(file, ["a", "b"]))
    parser = configparser.ConfigParser()
    parser.read_string("[one]\na = 1\nb = %(a)s2\n")
    parser["one"]["b"]


class Memory(logging.Handler):
    def emit(self, record):
        self.format(record)


def logs():
    log = logging.Logger("counted")
    log.addHandler(Memory())
    for i in range(5):
        log.info("%d is %s", i, "x")
    try:
        raise ValueError("x")
    except ValueError:
        log.exception("caught")
        traceback.format_exc()


class Checks(unittest.TestCase):
    def setUp(self):
        self.addCleanup(len, "")

    def test_one(self):
        with self.assertRaises(KeyError):
            {}["x"]

    def test_two(self):
        self.assertEqual([1, 2], [1, 2])


def test_suites():
    unittest.defaultTestLoader.loadTestsFromTestCase(Checks).run(unittest.TestResult())


def databases():
    connection = sqlite3.connect(":memory:")
    connection.create_function("twice", 1, lambda x: 2 * x)
    connection.create_collation("backwards", lambda a, b: (a < b) - (a > b))
    connection.execute("create table t (a integer, b text)")
    connection.executemany("insert into t values (?, ?)", ((i, str(i)) for i in range(20)))
    connection.execute("select twice(a) from t order by b collate backwards").fetchall()
    connection.close()


@functools.singledispatch
def shown(x):
    return str(x)


@shown.register(int)
def _(x):
    return hex(x)


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...


class Square(Shape):
    def area(self):
        return 4

    def __class_getitem__(cls, key):
        return cls

    def __init_subclass__(cls):
        cls.known = True


def dispatch():
    [shown(x) for x in (1, "a", 2.0, 3)]
    isinstance(Square(), Shape), Square[int]().area()
    type("Made", (Square,), {"area": lambda self: 1})().area()
    functools.cmp_to_key(lambda a, b: a - b)
    sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: a - b))


def signatures():
    for function in (textwrap.wrap, copy.deepcopy, Item):
        str(inspect.signature(function))
    inspect.getmembers(Square)


def archives():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for i in range(3):
            archive.writestr(zipfile.ZipInfo(f"{i}.txt"), "x" * 50)
    with zipfile.ZipFile(file) as archive:
        [archive.read(name) for name in archive.namelist()]


def shuffles():
    chance = random.Random(1)
    some = list(range(30))
    chance.shuffle(some)
    chance.sample(some, 5), chance.choices(some, k=3), chance.gauss(0, 1)


def imports():
    importlib.reload(textwrap)
    module = types.ModuleType("made")
    exec(compile(SOURCE, "<made>", "exec"), module.__dict__)


async def serves(inbox, outbox):
    while (one := await inbox.get()) is not None:
        await outbox.put(one * 2)


async def exchange():
    inbox, outbox = asyncio.Queue(), asyncio.Queue()
    task = asyncio.ensure_future(serves(inbox, outbox))
    for i in range(5):
        await inbox.put(i)
        await outbox.get()
    await inbox.put(None)
    await task
    async with asyncio.Lock():
        await asyncio.gather(*(asyncio.sleep(0, i) for i in range(4)))
    try:
        await asyncio.wait_for(asyncio.Event().wait(), 0.001)
    except asyncio.TimeoutError:
        pass


def tasks():
    asyncio.run(exchange())


def work(n):
    return sum(map(lambda x: x + 1, range(n)))


def pools():
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(20)))
        pool.submit(work, 5).result()


def queues():
    inbox, outbox = queue.Queue(), queue.Queue()

    def serve():
        while (one := inbox.get()) is not None:
            outbox.put(work(one))

    threads = [threading.Thread(target=serve) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(30):
        inbox.put(i)
    for _ in threads:
        inbox.put(None)
    for thread in threads:
        thread.join()


CASES = [
    parsers, encoders, deep_copies, exact_numbers, pure_decimals, data_classes, enumerations, options, differences, markup,
    messages, pickles, texts, merged, tables, logs, test_suites, databases, dispatch, signatures, archives, shuffles, imports,
]
# How often each waits, and which thread serves, is the scheduler's choice.
CHANCE = [tasks, pools, queues]
