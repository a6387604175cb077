"""`spprof why` on profiles whose figures are worked out by hand: it says what the intervals hold, and nothing else."""

from __future__ import annotations

import hashlib
import json
import os
import re

import pytest
from spprof_file import Writer
from test_owntree import DUMPS, FIND, LIB, LOAD, MAIN, NUMPY, PANDAS, READ, ROW, SHOP, frame, profile_of

from spprof import Profile
from spprof.cli import main
from spprof.model.records import HOLDS_GIL, Marker
from spprof.model.waits import REASONS
from spprof.report.why import Why


def why(profile, *mine):
    return Why([profile], ["p.spprof"], mine).text()


def places(text):
    return re.findall(r"^\d\. (.*): ([\d.]+)% ±\S+, (.*)$", text, re.M)


def test_all_time_is_divided_among_the_users_places():
    profile = profile_of(
        ([MAIN, LOAD], 400), ([MAIN, LOAD, READ], 200), ([MAIN, LOAD, READ, ROW], 140), ([MAIN, LOAD, DUMPS], 160),
        ([MAIN, FIND, PANDAS, FIND, NUMPY], 90), ([READ], 10),
    )  # fmt: skip
    text = why(profile)
    assert places(text) == [
        ("load (/app/shop/__init__.py:3) itself", "40.0", "0.40 s"),
        ("pandas, called by load (/app/shop/__init__.py:3)", "20.0", "0.20 s"),
        ("json, called by load (/app/shop/__init__.py:3)", "16.0", "0.16 s"),
        ("Row.parse (/app/shop/row.py:9) itself", "14.0", "0.14 s"),
        ("import pandas in <module> (/app/run.py:1)", "9.0", "90.00 ms"),
    ]
    for command in ("--callers load", "--callees load", "--callers Row.parse", "--imports"):
        assert f"     spprof report p.spprof {command}\n" in text
    assert "The first is the largest of all" in text and len(text.splitlines()) <= 40
    assert ("read_csv (pandas/io.py:1) itself", "21.0", "0.21 s") in places(why(profile, "pandas"))


def test_what_the_samples_cannot_say_is_not_said():
    close = profile_of(([MAIN, LOAD], 51), ([MAIN, ROW], 49))
    assert len(places(why(close))) == 2 and "largest" not in why(close)
    few = profile_of(*(([MAIN, LOAD, (*ROW[:3], n, n, 0, -1, -1, 0)], 1) for n in range(1, 21)))
    assert places(why(few)) == [] and "The samples do not say which place" in why(few) and "That is few samples" in why(few)
    unknown = profile_of(([MAIN, LOAD], 60, 32), ([MAIN, ROW], 40, 32), clock="timer")
    assert "60.0% ±?" in why(unknown) and "largest" not in why(unknown)
    assert "±" not in why(profile_of())


def test_wall_time_says_what_was_waiting():
    text = why(profile_of(([MAIN, LOAD], 100, 4), ([MAIN, LOAD], 50), mode="wall"))
    assert re.search(r"0\.15 s\n     of it 0\.10 s \(66\.7% ±\S+\) waiting for what is unknown, 50\.00 ms \(", text)
    assert "all threads' time" in text


def test_what_was_waited_for_and_what_was_imported():
    writer = Writer(mode="wall")
    for at in range(100):
        flags, reason = (4, REASONS.index("lock")) if at % 2 else (0, 0)
        writer.sample([MAIN, LOAD], 6000 + 1000 * at, 1000, flags=flags, reason=reason)
    writer.flush()
    text = why(Profile(writer.data))
    assert re.search(r"0\.10 s\n     of it 50\.00 ms \(.*\) running, 50\.00 ms \(50\.0% ±\S+\) waiting for a lock\n", text)
    text = why(profile_of(([MAIN, FIND, SHOP, LOAD], 95), ([MAIN, LOAD], 5)))
    assert re.search(r"load \(.*\) itself: .*\n.*\n     while /app/shop/__init__.py is imported: 95\.0% ±\S+, 95.00 ms\n", text)
    assert "is imported" not in why(profile_of(([MAIN, FIND, SHOP, LOAD], 40), ([MAIN, LOAD], 60)))


@pytest.mark.parametrize("reason, what", [("lock", "lock"), ("gil", "GIL")])
def test_what_held_a_lock_meanwhile_is_named(reason, what):
    """The time of a wait is that of the holder's own samples."""
    writer = Writer(mode="wall")
    for at in range(100):
        held_by = 2 if at < 80 else 0
        writer.sample([MAIN, LOAD], 6000 + 1000 * at, 1000, flags=4, reason=REASONS.index(reason), by=held_by)
        writer.sample([MAIN, ROW], 6000 + 1000 * at, 1000, thread=1, flags=4 | HOLDS_GIL, reason=REASONS.index("sleep"))
    writer.flush()
    writer.block(b"T", json.dumps([{"id": n, "tid": 7 + n, "name": f"t{n}"} for n in (0, 1)]).encode())
    text = why(Profile(writer.data))
    held = rf"     the {what} was held meanwhile by Row.parse \(/app/shop/row.py:\d+\): 80.00 ms \(40.0% ±\S+\)\n"
    assert re.search(rf"load \(.*\n     of it .*\n{held}", text) and text.count("meanwhile") == 1


def test_a_wait_to_be_notified_has_no_owner():
    writer = Writer(mode="wall")
    for at in range(100):
        wait = frame("Condition.wait", LIB + "/threading.py")
        writer.sample([MAIN, LOAD, wait], 6000 + 1000 * at, 1000, flags=4, reason=REASONS.index("lock"))
    writer.flush()
    text = why(Profile(writer.data))
    assert "\n     no owner: a condition, an event, a queue, a semaphore, or the end of a thread\n" in text
    assert "meanwhile" not in text


def test_a_command_that_somebody_else_wrote_is_what_is_asked_about():
    text = why(profile_of(([READ, DUMPS], 100)))
    assert "The places in the code of pandas that use most" in text
    assert "1. json, called by read_csv (pandas/io.py:1): 100.0%" in text


def test_what_no_code_of_the_users_has_called_is_its_library():
    text = why(profile_of(([READ], 90), ([MAIN], 10)))
    assert "1. pandas, which no code of yours has called: 90.0%" in text and "spprof why p.spprof --mine pandas" in text


def test_the_line_with_its_text_and_collections(tmp_path, monkeypatch, capsys):
    source = tmp_path / "shop.py"
    source.write_text("def f():\n    a = 1\n    return slow()\n")
    writer = Writer()
    for at in range(100):
        writer.sample([("f", "f", str(source), 1, 3 if at % 5 else 2)], 6000 + 1000 * at, 1000)
    writer.flush()
    writer.block(b"F", hashlib.sha256(source.read_bytes()).hexdigest().encode() + b" " + str(source).encode())
    writer.json(b"A", {"clock": "perf", "expected": 100, "taken": 100, "repeated": 0, "losses": {}, "wall_ns": 200_000_000})
    (tmp_path / "p.spprof").write_bytes(writer.data)
    monkeypatch.chdir(tmp_path)
    assert main(["why"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"     of it 80\.0% ±\S+ at line 3: return slow", text) and text.count(": return slow()\n") == 1
    assert text.endswith("spprof report p.spprof; spprof open p.spprof\n") and "Garbage" not in text
    profile = profile_of(([MAIN], 100))
    profile._columns()["tick_stats"] = {"wall_ns": 100_000_000}
    profile._columns()["markers"] = [Marker("gc", 0, 6_000_000, 4_000_000, {})]
    assert "Garbage collections took 4.00 ms of 0.10 s elapsed (exact)" in why(profile)
    os.unlink("p.spprof")
    assert main(["why"]) == 2


@pytest.mark.parametrize("number, shown", [(3, "a b c"), (4, "a ...")])
def test_commands_name_few_files(number, shown):
    profile = profile_of(([MAIN], 100))
    assert f"spprof report {shown};" in Why([profile] * number, list("abcd")[:number]).text()


def test_commands_keep_the_part_that_is_looked_at(tmp_path, monkeypatch, capsys):
    writer = Writer()
    for at in range(100):
        writer.sample([MAIN], 6000 + 1000 * at, 1000, label='{"route": "/a b"}')
    writer.flush()
    (tmp_path / "p.spprof").write_bytes(writer.data)
    monkeypatch.chdir(tmp_path)
    part = ["--type", "time", "--label", "route=/a b", "--from", "0.01", "--to", "0.09"]
    assert main(["why", "p.spprof", *part]) == 0
    words = "--type time --label 'route=/a b' --from 0.01 --to 0.09"
    commands = [line for line in capsys.readouterr().out.splitlines() if "spprof report" in line]
    assert len(commands) > 1 and all(f"spprof report p.spprof {words}" in line for line in commands)
