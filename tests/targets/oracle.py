"""oracle.py LIBRARY SAMPLES INTERVAL_US: workloads in C libraries, their stacks walked by spprof and by libunwind; JSON."""

import ctypes
import json
import os
import random
import sqlite3
import sys
import zlib

import numpy
from lxml import etree

library, wanted, interval_us = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
FIELDS = ("samples", "equal", "untold", "blind", "early", "ours", "other", "reached", "witnessed")


class Counts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in FIELDS]


class Difference(ctypes.Structure):
    _fields_ = [("ours", ctypes.c_void_p), ("theirs", ctypes.c_void_p), ("leaf", ctypes.c_void_p), ("frame", ctypes.c_int32), ("error", ctypes.c_int32)]


def use_numpy():
    a = numpy.random.default_rng(1).random((60, 60))
    numpy.linalg.solve(a, a)
    numpy.linalg.svd(a[:20, :20])
    numpy.sort(a.ravel().copy())
    numpy.fft.fft(a)
    numpy.frompyfunc(lambda x: x * 2, 1, 1)(a[:4])
    numpy.apply_along_axis(lambda row: row.sum(), 0, a)
    numpy.array([str(x) for x in range(100)]).astype(float).tolist()
    numpy.einsum("ij,jk->ik", a, a)


def use_lxml():
    text = b"<r>" + b"".join(b"<e k='%d'><f>t&amp;</f></e>" % i for i in range(100)) + b"</r>"
    root = etree.fromstring(text)
    spaces = etree.FunctionNamespace("urn:x")
    spaces["twice"] = lambda context, nodes: len(nodes) * 2.0
    root.xpath("x:twice(//e[@k > 5]/f)", namespaces={"x": "urn:x"})
    sheet = etree.XSLT(etree.XML(SHEET))
    str(sheet(root))
    etree.tostring(root, pretty_print=True)
    for _, element in etree.iterparse(__import__("io").BytesIO(text)):
        element.clear()


SHEET = """<x:stylesheet version="1.0" xmlns:x="http://www.w3.org/1999/XSL/Transform"><x:template match="/r"><o>
<x:for-each select="e"><x:sort select="@k" order="descending"/><p><x:value-of select="concat(f,
@k)"/></p></x:for-each></o></x:template></x:stylesheet>"""


def use_sqlite():
    connection = sqlite3.connect(":memory:")
    connection.create_function("f", 1, lambda n: n + 1)
    connection.create_collation("c", lambda a, b: (a > b) - (a < b))
    connection.execute("create table t (n integer, s text)")
    connection.executemany("insert into t values (?, ?)", [(i, str(random.random())) for i in range(200)])
    connection.execute("select sum(f(n)), group_concat(s) from t group by n % 7 order by s collate c").fetchall()
    connection.execute("create index i on t (s)")
    connection.close()


def use_zlib():
    data = os.urandom(2000) + bytes(range(256)) * 40
    assert zlib.decompress(zlib.compress(data, 9)) == data


oracle = ctypes.CDLL(library)
oracle.oracle_start.argtypes = [ctypes.c_void_p, ctypes.c_uint]
counts = Counts.in_dll(oracle, "counts")
uses = [use_numpy, use_lxml, use_sqlite, use_zlib]
for use in uses:
    use()  # what is loaded late is loaded now
assert oracle.oracle_start(ctypes.cast(ctypes.pythonapi._PyEval_EvalFrameDefault, ctypes.c_void_p), interval_us) == 0
while counts.samples < wanted:
    for use in uses:
        use()
oracle.oracle_stop()
maps = []
for line in open("/proc/self/maps"):
    words = line.split()
    low, high = (int(word, 16) for word in words[0].split("-"))
    maps.append((low, high, words[5] if len(words) > 5 else "", int(words[2], 16)))


def place(address):
    if not address:
        return "ended"
    for low, high, path, offset in maps:
        if low <= address < high:
            return f"{os.path.basename(path)}+{address - low + offset:#x}"
    return hex(address)


differences = [(each.frame, place(each.leaf), place(each.ours), place(each.theirs), each.error) for each in (Difference * 64).in_dll(oracle, "differences")]
print(json.dumps({**{name: getattr(counts, name) for name in FIELDS}, "differences": [each for each in differences if each[2] != each[3]]}))
