"""What a .spprof file says of itself in JSON: every field may have any type and size, and then there are words."""

from __future__ import annotations

import json

import pytest
from conftest import small_writer
from spprof_file import MAGIC, block
from test_foreign import look_at

from spprof import BadFile, Profile
from spprof.cli import main
from spprof.readers import about

SMALL = small_writer().data
REST = SMALL[len(MAGIC) + 9 + int.from_bytes(SMALL[8:12], "little") :]
ODD = [None, True, "x", "", "9" * 5000, "\ud800", -1, 2**31, 2**62, 2**63, 10**400, 1.5, 1e300, float("inf"), float("nan")]
ODD += [[], [[]], [1], {}, {"x": 1}, {"x": []}, [{"x": 1}]]
HEADER = {"version": 1, "start_ns": 5000, "interval_ns": 1000, "start_unix_ns": 7, "pid": 7, "argv": ["x.py"], "mode": "cpu"}
STATS = {"clock": "perf", "expected": 3, "taken": 3, "losses": {"overrun": 1}, "wall_ns": 5, "cpu_ns": 5}
END = {"stop_ns": 9, "reason": "stop"}
THREAD = {"id": 0, "tid": 1, "name": "M"}
BLOCKS = {"H": (HEADER, about._HEADER), "A": (STATS, about._STATS), "E": (END, about._END), "T": (THREAD, about._THREAD)}


def with_block(kind, document):
    document = [document] if kind == "T" else document
    content = block(kind.encode(), json.dumps(document).encode())
    return MAGIC + content + REST if kind == "H" else SMALL + content


@pytest.mark.parametrize("kind", BLOCKS)
def test_every_field_with_every_value_is_shown_or_refused_by_name(kind, tmp_path, capsys):
    right, known = BLOCKS[kind]
    look_at(with_block(kind, right))
    path, refused = tmp_path / "odd.spprof", 0
    for key in [*known, "unknown"]:
        commands = True  # of each field with the first value that is refused
        for value in ODD:
            content = with_block(kind, {**right, key: value})
            try:
                look_at(content)
            except BadFile as error:
                assert key in str(error) or (key == "losses" and "the losses" in str(error)), (key, value, error)
                refused += 1
                if not commands:
                    continue
                commands = False
                path.write_bytes(content)
                assert main(["report", str(path)]) == 2 and main(["convert", str(path), "-f", "collapsed", "-o", "-"]) == 2
                assert "Traceback" not in capsys.readouterr().err
    assert refused > len(known)


@pytest.mark.parametrize("kind", BLOCKS)
@pytest.mark.parametrize("document", [1, "x", None, [], {}, [[]], [None], [{}]])
def test_blocks_that_are_something_else(kind, document):
    try:
        Profile(with_block(kind, document))._columns()
    except BadFile as error:
        assert "Error" not in str(error) and len(str(error)) > 20
