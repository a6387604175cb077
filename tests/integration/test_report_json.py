"""What each view of `spprof report` says to programs, of profiles that have something in it: all of it is described by
docs/report.schema.json. Another view needs a line here, or the first test fails."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import sysconfig
import threading
import time
from pathlib import Path

import pytest

import spprof
from spprof.cli import main
from spprof.cli._report_views import VIEWS

fastjsonschema = pytest.importorskip("fastjsonschema")

SCHEMA = json.loads((Path(__file__).resolve().parents[2] / "docs" / "report.schema.json").read_text(encoding="utf-8"))
MONITORS = sys.version_info >= (3, 12)
SPECIALIZES = sys.version_info >= (3, 11) and not sysconfig.get_config_var("Py_GIL_DISABLED")

COUNTED = {"calls": "rows", "gc": "rows", "imports": "processes"}  # view -> a list that is not empty
COUNTED.update({"lines": "functions", "exceptions": "rows", "slowest": "functions"} if MONITORS else {})
WAITED = {"waits": "rows", "tail": "rows", "blame": None, "tasks": None}
OTHERS = {"native-calls", "specialization"}


def find(key, of):
    try:
        return of[key]
    except KeyError:
        return None


def work():
    """Something for each view that counts, until there are samples too."""
    sys.modules.pop("colorsys", None)
    import colorsys  # noqa: F401

    gc.collect()
    wanted = spprof.stats()["taken"] + 3
    while spprof.stats()["taken"] < wanted:
        sorted(range(50), key=lambda at: find(at, {1: 1}) or 0)


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    path = tmp_path_factory.mktemp("counted") / "p.spprof"
    chosen = {"lines": [f"{__name__}:find"], "time": [f"{__name__}:find"], "exceptions": True} if MONITORS else {}
    chosen.update({"specialization": True} if SPECIALIZES else {})
    spprof.start(output_path=path, calls=True, imports=True, events=["time", "gc"], **chosen)
    try:
        work()
    finally:
        spprof.stop()
    return path


async def waits_for(lock):
    with spprof.request(route="/a"):
        async with lock:
            await asyncio.sleep(0.02)


async def serves():
    lock = asyncio.Lock()
    await asyncio.gather(*(waits_for(lock) for _ in range(3)))


@pytest.fixture(scope="module")
def waited(tmp_path_factory):
    path = tmp_path_factory.mktemp("waited") / "p.spprof"
    held, wanted = threading.Lock(), threading.Event()
    waiter = threading.Thread(target=lambda: (wanted.set(), held.acquire(), held.release()), name="waiter")
    spprof.start(output_path=path, mode="wall", events=["time", "tasks"])
    try:
        with held:
            waiter.start()
            wanted.wait()
            asyncio.run(serves())
        waiter.join()
        taken = spprof.stats()["taken"] + 1
        while spprof.stats()["taken"] < taken:
            time.sleep(0.001)
    finally:
        spprof.stop()
    return path


@pytest.fixture
def printed(capsys):
    check = fastjsonschema.compile(SCHEMA)

    def run(path, view, *options):
        words = {"tail": ["--tail", "p50"], "report": []}.get(view, ["--" + view])
        assert main(["report", str(path), *words, "-f", "json", *options]) == 0, capsys.readouterr().err
        return check(json.loads(capsys.readouterr().out))

    return run


def test_each_view_is_tried_and_described():
    assert set(VIEWS) <= {*COUNTED, *WAITED, *OTHERS} | ({"lines", "exceptions", "slowest"} - set(COUNTED))
    kinds = [each["$ref"].rpartition("/")[2] for each in SCHEMA["oneOf"]]
    assert set(kinds) == {"report", "import-times", *VIEWS}
    for kind in kinds:
        assert SCHEMA["definitions"][kind]["properties"]["kind"] == {"const": kind}


@pytest.mark.parametrize("view", sorted(COUNTED))
def test_what_was_counted(counted, printed, view):
    document = printed(counted, view)
    assert document["kind"] == {"imports": "import-times"}.get(view, view)
    assert document[COUNTED[view]]


@pytest.mark.parametrize("view", sorted(WAITED))
def test_what_was_waited_for(waited, printed, view):
    document = printed(waited, view)
    assert document["kind"] == view
    assert WAITED[view] is None or document[WAITED[view]]


def test_the_table_has_calls_and_times(counted, printed):
    rows = {row["name"]: row for row in printed(counted, "report", "--sort", "calls", "--limit", "all")["rows"]}
    assert rows["find"]["calls"] > 0


def test_calling_lines(counted, printed):
    rows = printed(counted, "calls")["rows"]
    of = next(row for row in rows if row["function"]["name"] == "find")
    assert of["caller"]["name"] == "<lambda>" and of["line"] == of["caller"]["line"]
    assert len(printed(counted, "calls", "--limit", "1")["rows"]) == 1
    assert printed(counted, "calls", "--limit", "1")["more"] == len(rows) - 1


def test_exact_imports(counted, printed):
    (process,) = printed(counted, "imports")["processes"]
    assert "colorsys" in [row["name"] for row in process["imports"]] and "colorsys" in process["lazy"]


def test_sampled_imports(waited, printed):
    document = printed(waited, "imports")
    assert document["kind"] == "imports"
    assert all(row["parent"] < at for at, row in enumerate(document["rows"]))


@pytest.mark.skipif(not SPECIALIZES, reason="this interpreter does not show what it specializes")
def test_what_was_not_specialized(counted, printed):
    assert printed(counted, "specialization")["kind"] == "specialization"


def test_native_calls(tmp_path, printed):
    try:
        spprof.start(output_path=tmp_path / "p.spprof", native=True)
    except spprof.Unsupported as error:
        pytest.skip(str(error))
    try:
        work()
    finally:
        spprof.stop()
    assert printed(tmp_path / "p.spprof", "native-calls")["kind"] == "native-calls"
