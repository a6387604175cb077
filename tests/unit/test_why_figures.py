"""Each figure of `spprof why` is that of what it is said of: recomputed from the samples of the profile, by other code, and
the same as what `report --waits` has of that part."""

from __future__ import annotations

import json
import math
import random
import re
from collections import defaultdict

import pytest
from spprof_file import Writer
from test_owntree import DUMPS, FIND, LIB, MAIN, frame

from spprof import Profile
from spprof.cli import main
from spprof.model.waits import REASONS
from spprof.report.why import Why

WORDS = {
    "waiting for a lock": "lock",
    "waiting for the GIL": "gil",
    "in input or output": "io",
    "asleep": "sleep",
    "running": "running",
    "waiting for what is unknown": "unknown",
    "ready without a processor": "ready",
}
FUNCTIONS = ("read", "work", "held", "nap")
MODULE = frame("<module>", "/app/shop.py")


def samples_of(seed, number=400):
    """Of places that have a leading reason and others. A sample: function, library or '', line, module that is imported, reason,
    microseconds, ticks."""
    chance = random.Random(seed)
    leading = {"read": "io", "work": "running", "held": chance.choice(["lock", "gil"]), "nap": "sleep"}
    found = []
    for _ in range(number):
        function = chance.choice(FUNCTIONS)
        reason = leading[function] if chance.random() < 0.75 else chance.choice(sorted(WORDS.values()))
        ticks = 1 if reason == "running" else chance.choice([1, 3, 20])
        library = "json" if function == "read" and chance.random() < 0.7 else ""
        module = "/app/shop.py" if function == "nap" and chance.random() < 0.9 else ""
        found.append((function, library, chance.choice([4, 7, 7]), module, reason, 1000 * ticks + chance.randrange(100), ticks))
    return found


def profile_of(samples, **header):
    writer, at = Writer(mode="wall", **header), 6000
    for function, library, line, module, reason, us, ticks in samples:
        own = (function, function, f"/app/{function}.py", 3, line, 0, -1, -1, 0)
        stack = [MAIN, *[FIND, MODULE] * bool(module), own, *[DUMPS] * bool(library)]
        at += us
        named = 0 if reason == "unknown" else REASONS.index(reason)
        writer.sample(stack, at, us, count=ticks, flags=0 if reason == "running" else 4, reason=named)
    writer.flush()
    writer.block(b"T", json.dumps([{"id": 0, "tid": 7, "name": "MainThread"}]).encode())
    return writer.data


def words_of(ns):
    return f"{ns / 1e9:.2f} s" if ns >= 1e8 else f"{ns / 1e6:.2f} ms"


def share_of(part, of_all):
    """The share and its reach, from docs/intervals.md: Wilson's interval for the effective number of samples."""
    whole, squares = (sum(1000.0**power * us**power / ticks ** (power - 1) for *_, us, ticks in of_all) for power in (1, 2))
    own, own_squares = (sum(1000.0**power * us**power / ticks ** (power - 1) for *_, us, ticks in part) for power in (1, 2))
    p, number = own / whole, whole**2 / squares
    if 0 < p < 1:
        number = min(number, p * (1 - p) * whole**2 / ((1 - p) ** 2 * own_squares + p**2 * (squares - own_squares)))
    z2 = 1.959963984540054**2
    middle, scale = (p + z2 / (2 * number)) / (1 + z2 / number), 1 + z2 / number
    reach = math.sqrt(z2 * (p * (1 - p) + z2 / (4 * number)) / number) / scale
    return f"{100 * p:.1f}% ±{100 * max(abs(middle - reach - p), abs(middle + reach - p)):.1f}"


def said(text):
    """Each place: its function, its library, and lines of figures."""
    blocks = re.findall(r"^\d\. (.*(?:\n {3,}.*)*)", text, re.M)
    for block in blocks:
        block = re.sub(r"\n {3}(?! )", " ", block)  # a long name
        library, function = re.match(r"(?:(\w+), called by )?(\w+) \(", block).groups()
        yield function, library or "", block


@pytest.mark.parametrize("seed, processes", [(1, 1), (2, 1), (3, 3), (4, 2)])
def test_each_figure_is_that_of_what_it_is_said_of(seed, processes):
    made = [samples_of(seed + 100 * n) for n in range(processes)]
    everything = [each for one in made for each in one]
    text = Why([Profile(profile_of(each)) for each in made], ["p.spprof"] * processes, ()).text()
    us = defaultdict(int)
    for function, library, *_, took, _ticks in everything:
        us[function, library] += took
    seen, waits = [], 0
    for function, library, block in said(text):
        seen.append((function, library))
        place = [each for each in everything if each[:2] == (function, library)]
        share, amount = re.search(r": ([\d.]+% ±[\d.]+), ([\d.]+ m?s)\n", block).groups()
        assert amount == words_of(1000 * us[function, library]) and share == share_of(place, everything)
        for amount, share, words in re.findall(r"([\d.]+ m?s) \(([\d.]+% ±[\d.]+)\) (.*?)(?=, \d|\n)", block):
            of_reason = [each for each in place if each[4] == WORDS[words]]
            assert amount == words_of(1000 * sum(each[5] for each in of_reason)), (block, words)
            assert share == share_of(of_reason, everything)
            waits += 1
        share, line = re.search(r"of it ([\d.]+% ±[\d.]+) at line (\d+)", block).groups()
        assert share == share_of([each for each in place if each[2] == int(line)], everything)
        for share, amount in re.findall(r"while \S+ is imported: ([\d.]+% ±[\d.]+), (.* m?s)\n", block):
            imported = [each for each in place if each[3]]
            assert amount == words_of(1000 * sum(each[5] for each in imported)) and share == share_of(imported, everything)
    assert seen == sorted(us, key=lambda place: -us[place])[: len(seen)] and len(seen) >= 4 and waits >= len(seen)
    assert "while /app/shop.py is imported" in text


@pytest.mark.parametrize("function", ["work", "held"])
def test_report_has_the_same_of_a_reason(tmp_path, capsys, function):
    path = tmp_path / "p.spprof"
    path.write_bytes(profile_of(samples_of(5)))
    assert main(["why", str(path)]) == 0
    (block,) = [block for name, _, block in said(capsys.readouterr().out) if name == function]
    assert main(["report", str(path), "--waits", "--focus", function, "-f", "json"]) == 0
    rows = {row["reason"]: row["ns"] for row in json.loads(capsys.readouterr().out)["rows"]}
    found = re.findall(r"([\d.]+ m?s) \([^)]*\) (.*?)(?=, \d|\n)", block)
    assert found and all(amount == words_of(rows[WORDS[words]]) for amount, words in found)


def test_a_line_has_the_time_of_all_its_samples_while_modules_are_imported_or_not():
    """Of one line two places in the code are one figure."""
    half = [("nap", "", 4, module, "sleep", 1000, 1) for module in ("", "/app/shop.py") for _ in range(60)]
    text = Why([Profile(profile_of([*half, *[("nap", "", 7, "", "sleep", 1000, 1)] * 80]))], ["p"], ()).text()
    assert re.search(r"of it 60\.0% ±\S+ at line 4", text) and "is imported" not in text


@pytest.mark.parametrize(
    "reason, view",
    [("lock", "--blame"), ("gil", "--blame"), ("task", "--tasks"), ("io", "--callers f"), ("running", "--callers f")],
)
def test_the_command_shows_what_the_leading_reason_needs(reason, view):
    data = profile_of([("f", "", 4, "", reason, 1000, 1)] * 70 + [("f", "", 4, "", "sleep", 1000, 1)] * 30)
    assert f"     spprof report p {view}\n" in Why([Profile(data)], ["p"], ()).text()


def test_names_are_not_cut():
    """They were, in the middle, where figures took the columns."""
    long = "Ledger.reconcile_accounts_of_the_month.<locals>.of_every_customer"
    writer = Writer()
    for at in range(100):
        lib = frame("dumps", LIB + "/a_standard_module_with_a_name/__init__.py")
        writer.sample([MAIN, (long, long, "/app/some/folder/ledger.py", 17, 20, 0, -1, -1, 0), lib], 6000 + 1000 * at, 1000)
    writer.flush()
    text = Why([Profile(writer.data)], ["p"], ()).text()
    assert "..." not in text and f"called by {long}" in re.sub(r"\s+", " ", text)
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("places", [1, 5])
def test_there_are_at_most_forty_lines(places):
    long = "x" * 90
    made = []
    for n in range(places):
        made += [
            (f"{long}{n}", "", 4, "/app/shop.py", each, 1000, 1) for each in ("lock", "io", "sleep", "gil") for _ in range(50)
        ]
    text = Why([Profile(profile_of(made))], ["p"], ()).text()
    assert len(text.splitlines()) <= 40 and len(re.findall(r"^\d\. ", text, re.M)) == min(places, 4)


def test_a_program_that_mostly_waits_is_said_to_first():
    """Of CPU time its largest place is no answer to the question."""
    writer = Writer()
    for at in range(100):
        writer.sample([MAIN], 6000 + 1000 * at, 1000)
    writer.flush()
    stats = {"clock": "perf", "expected": 100, "taken": 100, "repeated": 0, "losses": {}, "cpu_ns": 100_000_000}
    texts = []
    for wall in (3_000_000_000, 110_000_000):
        data = Writer()
        data.data = writer.data
        data.json(b"A", {**stats, "wall_ns": wall})
        texts.append(Why([Profile(data.data)], ["p"], ()).text())
    waits, busy = texts
    first = waits.index("For most of the time it did not run: 0.10 s of 3.00 s elapsed was on CPU")
    assert first < waits.index("The places") and "spprof run --mode wall" in waits and "largest" not in waits
    assert "did not run" not in busy
