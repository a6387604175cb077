"""Speedscope files opened by the real speedscope in a real browser, offline, and checked against its own schema.

See browser.py."""

import base64
import json
from urllib.parse import unquote

import pytest
from browser import SPEEDSCOPE, needs_browser, seen_by
from spprof_file import Writer

from spprof import Profile


def frame(name, line):
    return (name, name, "/app/known.py", 1, line, line, 0, 4)


@pytest.fixture
def saved(tmp_path):
    """Two threads whose shares are known: main 6 ms in fast and 2 in slow, under root; worker 3 ms in <evil> "name"."""
    writer = Writer()
    root, fast, slow = frame("root", 1), frame("fast", 2), frame("slow", 3)
    evil = frame('<script>"evil";\\name', 4)
    for step in range(3):
        writer.sample([root, fast], 6000 + 3000 * step, 2000)
    writer.sample([root, slow], 18000, 2000)
    writer.sample([evil], 9000, 3000, thread=1)
    writer.json(b"T", [{"id": 0, "tid": 10, "name": "MainThread"}, {"id": 1, "tid": 11, "name": "worker"}])
    writer.flush()
    path = tmp_path / "known.speedscope.json"
    Profile(writer.data).save(path, format="speedscope", lines=False)
    return path


def seen_in_speedscope(file, name, tmp_path):
    """Opens a file's bytes in the real viewer; gives what open.mjs saw."""
    loader = tmp_path / "load.js"
    data = base64.b64encode(file).decode()
    loader.write_text(f"speedscope.loadFileFromBase64({json.dumps(name)}, {json.dumps(data)})")
    return seen_by("open.mjs", SPEEDSCOPE, loader)


@needs_browser
def test_the_real_viewer_shows_threads_and_rows(saved, tmp_path):
    seen = seen_in_speedscope(saved.read_bytes(), saved.name, tmp_path)
    assert seen["errors"] == []
    assert seen["total"] == 2
    assert [name.split(" (")[0] for name in seen["list"]] == ["MainThread", "worker"]
    main, worker = (seen["rows"][name] for name in seen["profiles"])
    assert sorted(main) == [  # total, self, symbol
        ["2.00ms (25%)", "2.00ms (25%)", "slow"],
        ["6.00ms (75%)", "6.00ms (75%)", "fast"],
        ["8.00ms (100%)", "0.00ns (<0.01%)", "root"],
    ]
    assert worker == [["3.00ms (100%)", "3.00ms (100%)", '<script>"evil";\\name']]


@needs_browser
def test_collapsed_stacks_in_the_real_viewer(data, tmp_path):
    """speedscope reads them too, and adds up what each function has: the same as the profile does."""
    profile = Profile(data)
    profile.save(tmp_path / "p.collapsed", lines=False)
    seen = seen_in_speedscope((tmp_path / "p.collapsed").read_bytes(), "p.collapsed", tmp_path)
    assert seen["errors"] == [] and seen["total"] == 1
    rows = {row[2]: [int(cell.split(" ")[0]) for cell in row[:2]] for row in seen["rows"][""]}
    of_functions = {row.qualname: [row.total_samples, row.self_samples] for row in profile.functions()}
    of_threads = {each.name: [each.samples, 0] for each in profile.threads}
    assert {unquote(name.partition(" (")[0]): figures for name, figures in rows.items()} == {**of_functions, **of_threads}


@needs_browser
def test_the_schema_holds(saved):
    import fastjsonschema

    schema = json.loads((SPEEDSCOPE / "file-format-schema.json").read_text())
    schema.pop("$schema", None)
    fastjsonschema.compile(schema)(json.loads(saved.read_text()))
