"""Exact counts of a real run in each format that has them, read as others read it."""

from __future__ import annotations

import base64
import contextlib
import gzip
import io
import json
import pstats
import re
import time
import zlib
from collections import Counter

import pytest

import spprof
from spprof import formats
from spprof.cli import main
from spprof.formats import html
from spprof.readers.pprof import _fields, _numbers


def leaf():
    pass


def numbers(n):
    for i in range(n):
        yield -i


def factorial(n):
    return n * factorial(n - 1) if n else 1


def spin():
    until = time.monotonic() + 0.002
    while time.monotonic() < until:
        pass


def work():
    for _ in range(30):
        leaf()
    for _ in range(12):
        leaf()
    list(numbers(5))
    factorial(6)
    for _ in range(9):
        str.upper("a")


MINE = {"leaf", "numbers", "factorial", "spin", "work", "str.upper"}
CALLS = {("leaf", "work"): 42, ("numbers", "work"): 1, ("factorial", "work"): 1, ("factorial", "factorial"): 6,
         ("str.upper", "work"): 9, ("work", "counted_run"): 1}  # fmt: skip
RESUMES = {("numbers", "work"): 5}


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """A file, and what it counted: calls and resumes, by function and caller."""

    def counted_run():
        work()
        spins = 0
        while spprof.stats()["taken"] < 20:
            spin()
            spins += 1
        return spins

    spprof.start(calls="c", interval_ms=1)
    try:
        spins = counted_run()
    finally:
        profile = spprof.stop()
    assert not profile.calls.missing
    path = tmp_path_factory.mktemp("counted") / "counted.spprof"
    with path.open("wb") as out:
        formats.write(profile, out, "spprof", formats.Options())
    return path, Counter({**CALLS, ("spin", "counted_run"): spins}), Counter(RESUMES)


def short(name):
    """Of a qualified name: C's functions keep their type."""
    return name.rpartition(".<locals>.")[2]


def of_mine(found):
    return Counter({pair: n for pair, n in found.items() if pair[0] in MINE})


def of_rows(rows, function=None, name="name"):
    """(calls, resumes) of rows as JSON has them, whose function is the row itself or a field of it."""
    both = Counter(), Counter()
    for row in rows:
        called = row[function] if function else row
        pair = short(called[name]), short(row["caller"][name]) if row["caller"] else ""
        for found, kind in zip(both, ("calls", "resumes")):
            if row[kind]:
                found[pair] += row[kind]
    return both


def rendered(path, format):
    out = io.BytesIO()
    formats.write(spprof.Profile.load(path), out, format, formats.Options())
    return out.getvalue()


def in_spprof(path, folder):
    (folder / "again.spprof").write_bytes(rendered(path, "spprof"))
    both = Counter(), Counter()
    for call in spprof.Profile.load(folder / "again.spprof").calls.rows:
        pair = short(call.function.qualname), short(call.caller.qualname) if call.caller else ""
        both[0][pair] += call.calls
        both[1][pair] += call.resumes
    return tuple(+found for found in both)


def in_jsonl(path, folder):
    lines = [json.loads(line) for line in rendered(path, "jsonl").splitlines()]
    return of_rows(line for line in lines if line["type"] == "calls")


def in_json(path, folder):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(["report", str(path), "--calls", "--limit", "100000", "-f", "json"]) == 0
    return of_rows(json.loads(out.getvalue())["rows"], "function", "qualname")


def in_parquet(path, folder):
    parquet = pytest.importorskip("pyarrow.parquet")
    (folder / "p.parquet").write_bytes(rendered(path, "parquet"))
    return of_rows(json.loads(parquet.read_schema(folder / "p.parquet").metadata[b"spprof"])["calls"])


def in_pstats(path, folder):
    (folder / "p.pstats").write_bytes(rendered(path, "pstats"))
    stats = pstats.Stats(str(folder / "p.pstats"), stream=io.StringIO())
    found, of_function = Counter(), Counter()
    for (_, _, name), (_, n, _, _, callers) in stats.stats.items():
        of_function[short(name)] += n
        for (_, _, caller), (_, calls, _, _) in callers.items():
            found[short(name), short(caller)] += calls
    for name in MINE:
        assert of_function[name] == sum(n for (callee, _), n in found.items() if callee == name)
    stats.sort_stats("ncalls").print_callers("leaf")
    assert re.search(r"\b42\b.*\bwork\b|\bwork\b.*\b42\b", stats.stream.getvalue())
    return found


def in_callgrind(path, folder):
    found, names, caller, callee = Counter(), {}, "", ""
    for line in rendered(path, "callgrind").decode().splitlines():
        match = re.match(r"(c?fn)=\((\d+)\)(?: (.*))?$", line)
        if match:
            name = names.setdefault(match[2], short(match[3] or ""))
            caller, callee = (name, callee) if match[1] == "fn" else (caller, name)
        elif line.startswith("calls="):
            found[callee, caller] += int(line[6:].split()[0])
    return found


def in_pprof(path, folder):
    fields = list(_fields(gzip.decompress(rendered(path, "pprof"))))
    strings = [bytes(value).decode() for field, value in fields if field == 6]
    functions = {one[1]: strings[one[2]] for one in (dict(_fields(value)) for field, value in fields if field == 5)}
    locations = {one[1]: functions[dict(_fields(one[4]))[1]] for one in (dict(_fields(v)) for f, v in fields if f == 4)}
    types = [strings[dict(_fields(value))[1]] for field, value in fields if field == 1]
    found = Counter()
    for sample in (dict(_fields(value)) for field, value in fields if field == 2):
        n = _numbers(sample[2])[types.index("calls")]
        if n:
            stack = [short(locations[id]) for id in _numbers(sample[1])]
            found[stack[0], (stack[1:] or [""])[0]] += n
    return found


@pytest.mark.parametrize("read", [in_spprof, in_jsonl, in_json, in_parquet])
def test_calls_and_resumes_are_apart_in(read, counted, tmp_path):
    path, calls, resumes = counted
    assert tuple(map(of_mine, read(path, tmp_path))) == (calls, resumes)


@pytest.mark.parametrize("read", [in_pstats, in_callgrind, in_pprof])
def test_resumes_are_calls_in(read, counted, tmp_path):
    path, calls, resumes = counted
    assert +of_mine(read(path, tmp_path)) == calls + resumes


def test_calls_in_the_page(counted):
    """Of functions that have samples."""
    path, calls, resumes = counted
    with open(html.PAGE, "rb") as file:
        head, tail = file.read().split(html.PLACEHOLDER)
    page = rendered(path, "html")
    data = zlib.decompress(base64.b64decode(page[len(head) : len(page) - len(tail)], validate=True))
    about = json.loads(data[4 : 4 + int.from_bytes(data[:4], "little")])
    shown = {short(about["strings"][function[1]]): tuple(n) for function, n in zip(about["functions"], about["calls"]) if n}
    for name in MINE & shown.keys() | {"spin"}:
        assert shown[name] == tuple(sum(n for (callee, _), n in of.items() if callee == name) for of in (calls, resumes)), name
