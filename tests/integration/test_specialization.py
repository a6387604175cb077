"""Instructions that CPython did not specialize, of a function in which it is known which these are."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import sysconfig
import textwrap

import pytest

import spprof
from spprof.cli import main

SPECIALIZES = sys.version_info >= (3, 11) and not sysconfig.get_config_var("Py_GIL_DISABLED")
specializes = pytest.mark.skipif(not SPECIALIZES, reason="this interpreter does not show what it specializes")


class Left:
    def __init__(self):
        self.x = 1


class Right:
    def __init__(self):
        self.y = self.x = 1


class Odd:
    def __sub__(self, other):
        return other


def work(things, same, odd, samples=0):
    """Goes on until so many samples more are taken, all of them within this call. Returns how often its lines ran."""
    wanted, runs = samples and spprof.stats()["taken"] + samples, 0
    while True:
        for thing in things:
            same.x = thing.x  # several types
            thing = same.x  # one type
            thing = odd - odd  # never
        runs += len(things)
        if not samples or spprof.stats()["taken"] >= wanted:
            return runs


def run(**options):
    left, right, odd = Left(), Right(), Odd()
    spprof.start(specialization=True, **options)
    try:
        runs = work([left, right] * 500, left, odd, samples=3) + 601
        # Whatever the loads fitted before, they are specialized for the left one, then for the right one; and miss once.
        work([left] * 300, left, odd)
        work([right] * 300, left, odd)
        work([left], left, odd)
    finally:
        profile = spprof.stop()
    return profile, runs


def found(profile, comment):
    lines, first = inspect.getsourcelines(work)
    line = first + next(i for i, text in enumerate(lines) if text.rstrip().endswith(f"# {comment}"))
    return [one for one in profile.unspecialized.instructions if one.function.qualname == "work" and one.line == line]


@specializes
def test_what_is_specialized_is_not_listed_and_what_cannot_be_is():
    profile, runs = run()
    assert profile.unspecialized.unread == 0
    assert found(profile, "one type") == []
    (never,) = found(profile, "never")
    assert (never.name, never.missed) == ("BINARY_OP", False)
    # It ran 1,601 times and more. 3.15's counter says "sixth attempt" for the end of the seventh, too: what came before is sure.
    assert (1 + 6 + 30 + 126 + 508 if sys.version_info >= (3, 15) else 1000) <= never.runs <= runs
    (several,) = found(profile, "several types")
    assert (several.name, several.missed, several.runs) == ("LOAD_ATTR", True, 1)
    text = inspect.getsource(work).splitlines()[several.line - work.__code__.co_firstlineno]
    assert text[several.column : several.end_column] == "thing.x"


class Caller:
    def __init__(self, called):
        self.called = called

    def __call__(self):
        return self.called


def call(calls):
    """What is called is no function: CPython has no form for it."""
    for _ in range(2000):
        calls()
    wanted, turns = spprof.stats()["taken"] + 3, 0
    while spprof.stats()["taken"] < wanted or turns < 200:  # one late tick may count for three
        calls()
        turns += 1


@specializes
@pytest.mark.skipif(sys.version_info >= (3, 13), reason="there is a form for each callable: CALL_NON_PY_GENERAL")
def test_a_call_is_one_row():
    """Also where it is two instructions (3.11)."""
    spprof.start(specialization=True)
    try:
        call(Caller(1))
    finally:
        profile = spprof.stop()
    lines = call.__code__.co_firstlineno + 3, call.__code__.co_firstlineno + 6
    rows = [one for one in profile.unspecialized.instructions if one.function.qualname == "call" and one.line in lines]
    assert [(one.line, one.name, one.missed) for one in sorted(rows, key=lambda one: one.line)] == [
        (line, "CALL", False) for line in lines
    ]


@specializes
def test_beside_counts_of_calls():
    profile, _ = run(calls=True)
    assert [one.name for one in found(profile, "never")] == ["BINARY_OP"]
    assert profile.calls is not None


@specializes
def test_a_run_without_it_has_none_and_leaves_none_to_the_next():
    run()
    spprof.start()
    assert spprof.stop().unspecialized is None


@pytest.mark.skipif(SPECIALIZES, reason="this interpreter shows what it specializes")
def test_an_interpreter_that_shows_nothing_is_refused():
    with pytest.raises(spprof.Unsupported, match="specializes"):
        spprof.start(specialization=True)
    assert not spprof.is_active()


@specializes
def test_of_a_program(tmp_path, capsys):
    script, path = tmp_path / "program.py", str(tmp_path / "p.spprof")
    script.write_text(
        textwrap.dedent("""
            import spprof

            class Odd:
                def __sub__(self, other):
                    return other

            def work(odd):
                wanted = spprof.stats()["taken"] + 20
                while spprof.stats()["taken"] < wanted:
                    for _ in range(1000):
                        odd - odd

            work(Odd())
            """)
    )
    command = [sys.executable, "-m", "spprof", "run", "-q", "--specialization", "-o", path, str(script)]
    assert subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0
    assert main(["report", path, "--specialization", "-f", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)["instructions"]
    assert [row["name"] for row in rows if row["qualname"] == "work" and row["line"] == 12] == ["BINARY_OP"]
    assert main(["report", path, "--specialization"]) == 0
    assert "instructions were not specialized" in capsys.readouterr().out
