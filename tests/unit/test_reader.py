"""The file's two readers: what they give, and that they give the same."""

from __future__ import annotations

import random
import struct
import tracemalloc
from array import array

import pytest
from spprof_file import MAGIC, Writer, block, varint

from spprof import _core
from spprof.model import layout, waits
from spprof.readers import spprof as _reader

READERS = pytest.mark.parametrize("read", [_core.read, _reader.read], ids=["core", "twin"])
TYPES = {"time_ns": "q", "weight": "q", "flags": "B", "code_kind": "B", "reason": "B"}
TYPES.update({"value_time_ns": "q", "value_weight": "q", "value_flags": "B", "value_type": "B"})
TYPES.update(dict.fromkeys(["frame_line", "frame_end_line", "frame_col", "frame_end_col"], "i"))
SAMPLES = ("thread", "time_ns", "weight", "stack", "count", "flags", "label", "reason", "waits_on", "task")


def test_both_have_the_same_table_of_columns():
    assert _core.COLUMNS == layout.COLUMNS


def test_both_have_the_same_reasons():
    assert _core.REASONS == waits.REASONS and set(waits.TITLES) == set(waits.REASONS)


def column(result, name):
    return array(TYPES.get(name, "I"), bytes(result[name])).tolist()


@READERS
def test_columns(read, data):
    result = read(data)
    assert result["warning"] is None
    assert column(result, "thread") == [0, 0, 0, 1, 1, 0, 0]
    assert column(result, "time_ns") == [1000 * us for us in (5100, 5300, 6300, 9000, 9001, 9300, 9301)]
    assert column(result, "weight") == [1000 * us for us in (100, 200, 1000, 500, 1, 3000, 10)]
    assert column(result, "count") == [1, 1, 1, 7, 1, 1, 1]
    assert column(result, "flags") == [0, 0, 2, 4, 0, 1, 0]
    assert column(result, "code_line") == [1, 10, 20]
    assert column(result, "code_kind") == [0, 0, 0]
    assert column(result, "frame_line") == [3, 11, 20, 13]
    assert column(result, "frame_end_line") == [0, 12, 0, 0]
    assert column(result, "frame_col") == [-1, 4, -1, -1]
    assert column(result, "frame_end_col") == [-1, 9, -1, -1]
    assert column(result, "node_parent")[:5] == [0, 0, 1, 2, 3]
    assert column(result, "node_frame")[:5] == [0, 0, 1, 2, 1]
    names = [result["strings"][i] for i in column(result, "code_qualname")]
    assert names == ["<module>", "A.a", "b"]
    assert len(result["threads"]) == 2 and b"perf" in result["tick_stats"] and b"stop_ns" in result["end"]


@READERS
def test_negative_line_steps_surrogates_and_wide_values(read):
    writer = Writer(start_ns=1 << 60)
    start_us = (1 << 60) // 1000
    writer.sample([("f", "f\udc80", "/\udcff\U0001f600", 50, 7)], start_us + (1 << 40), 1 << 40)
    writer.sample([("f", "f\udc80", "/\udcff\U0001f600", 50, 0)], start_us + (1 << 40), 0, thread=9, count=1 << 20)
    writer.flush()
    result = read(writer.data)
    assert result["warning"] is None
    assert column(result, "frame_line") == [7, 0]
    assert result["strings"] == ["f", "f\udc80", "/\udcff\U0001f600"]
    assert column(result, "weight") == [(1 << 40) * 1000, 0]
    assert column(result, "thread") == [0, 9]
    assert column(result, "count") == [1, 1 << 20]


@READERS
def test_kinds_of_codes(read):
    writer = Writer()
    writer.sample([("f", "f", "f.py", 1, 2)], 6000, 1)
    writer.flush()
    writer.sample([("g", "g", "f.py", 1, 2), ("h", "h", "lib.so", 0x100, 0x123, 0, -1, -1, 1)], 7000, 1)
    writer.flush()
    writer.sample([("i", "i", "f.py", 1, 2)], 8000, 1)
    writer.flush()
    result = read(writer.data)
    assert result["warning"] is None and column(result, "code_kind") == [0, 0, 1, 0]
    bad = Writer()
    bad.sample([("h", "h", "lib.so", 1, 1, 0, -1, -1, 2)], 6000, 1)
    bad.flush()
    result = read(bad.data)
    assert result["warning"] is not None and len(result["thread"]) == 0


@READERS
def test_values(read):
    writer = Writer(start_ns=7_000_999)
    f, g = ("f", "f", "a.py", 1, 2), ("g", "g", "a.py", 5, 6)
    writer.value([f], 7_000, 31)
    writer.sample([f, g], 7_500, 500)
    writer.value([f, g], 8_000, (1 << 62) - 1, thread=3, count=4, flags=1, label='{"a": "b"}', type=255)
    writer.flush()
    writer.value([f], 9_000, 0, thread=3)
    writer.flush()
    result = read(writer.data)
    assert result["warning"] is None
    assert column(result, "weight") == [500_000]
    assert column(result, "value_type") == [1, 255, 1]
    assert column(result, "value_thread") == [0, 3, 3]
    assert column(result, "value_time_ns") == [7_000_000, 8_000_000, 9_000_000]
    assert column(result, "value_weight") == [31, (1 << 62) - 1, 0]
    assert column(result, "value_count") == [1, 4, 1]
    assert column(result, "value_flags") == [0, 1, 0]
    assert [result["strings"][label - 1] if label else None for label in column(result, "value_label")] == [
        None,
        '{"a": "b"}',
        None,
    ]
    first, second = column(result, "value_stack")[0], column(result, "value_stack")[1]
    assert column(result, "value_stack")[2] == first and second == column(result, "stack")[0] and first != second


@READERS
@pytest.mark.parametrize("row", [
    {"type": 0}, {"type": 256}, {"weight": 1 << 62}, {"thread": 1 << 24}, {"count": 1 << 32}, {"flags": 256},
    {"time_us": 1 << 62},
])  # fmt: skip
def test_values_that_cannot_be(read, row):
    writer = Writer()
    writer.value([("f", "f", "a.py", 1, 2)], 6_000, 1)
    writer.flush()
    writer.value([("f", "f", "a.py", 1, 2)], **{"time_us": 7_000, "weight": 2, **row})
    writer.flush()
    result = read(writer.data)
    assert "does not make sense" in result["warning"]
    assert column(result, "value_weight") == [1]


@READERS
def test_labels(read):
    writer = Writer()
    writer.sample([("f", "f", "f.py", 1, 2)], 6000, 1)
    writer.sample([("f", "f", "f.py", 1, 2)], 6001, 1, label="{}")
    writer.flush()
    result = read(writer.data)
    assert result["warning"] is None and column(result, "label") == [0, result["strings"].index("{}") + 1]
    writer.columns["label"] = [4]  # of three strings
    writer.sample([("f", "f", "f.py", 1, 2)], 6002, 1)
    writer.columns["label"].pop()
    writer.flush()
    result = read(writer.data)
    assert result["warning"] is not None and len(column(result, "label")) == 2


@READERS
def test_reasons(read):
    writer = Writer()
    writer.sample([("f", "f", "f.py", 1, 2)], 6000, 1)
    writer.sample([("f", "f", "f.py", 1, 2)], 6001, 1, flags=4, reason=4, on="terminal /dev/tty1")
    writer.flush()
    result = read(writer.data)
    assert result["warning"] is None and column(result, "reason") == [0, 4]
    assert column(result, "waits_on") == [0, result["strings"].index("terminal /dev/tty1") + 1]
    for name, value in (("reason", 256), ("waits_on", 9)):
        writer.sample([("f", "f", "f.py", 1, 2)], 6002, 1)
        writer.columns[name][-1] = value
        writer.flush()
        assert read(writer.data)["warning"] is not None
        assert len(column(read(writer.data), name)) == 2


@READERS
@pytest.mark.parametrize("data", [b"", b"\x89SPPROF", b"PK\x03\x04" * 9, b"x" * 100])
def test_other_files_are_refused(read, data):
    with pytest.raises(ValueError):
        read(data)


@READERS
def test_unknown_kinds_are_skipped(read, data):
    assert column(read(data + block(b"Z", b"from the future")), "thread") == column(read(data), "thread")


def prefix_or_refusal(read, damaged, whole):
    """Number of samples read; all that was read must be the beginning of the truth."""
    try:
        result = read(damaged)
    except ValueError:
        return None
    for name in SAMPLES:
        values = column(result, name)
        assert values == column(whole, name)[: len(values)]
    return len(column(result, "thread"))


@READERS
def test_every_truncation(read, data):
    whole = read(data)
    ends = block_ends(data)
    seen = set()
    for size in range(len(data)):
        samples = prefix_or_refusal(read, data[:size], whole)
        seen.add(samples)
        if samples is not None:
            assert (read(data[:size])["warning"] is None) == (size in ends or size == len(MAGIC))
    assert seen == {None, 0, 3, 7}, seen


@READERS
def test_every_byte_flipped(read, data):
    whole = read(data)
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0x41
        samples = prefix_or_refusal(read, bytes(damaged), whole)
        if samples is not None:
            assert read(bytes(damaged))["warning"]


@READERS
def test_right_checksum_wrong_content(read, data):
    rng = random.Random(3)
    head, payload = split_samples(data)
    for _ in range(2000):
        damaged = bytearray(payload)
        for _ in range(rng.randint(1, 3)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        read(head + block(b"S", bytes(damaged)))  # any reading, but no crash and no exception


def test_twins_agree_on_wrong_content(data):
    rng = random.Random(4)
    head, payload = split_samples(data)
    for _ in range(1000):
        damaged = bytearray(payload)
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        file = head + block(b"S", bytes(damaged))
        fast, slow = _core.read(file), _reader.read(file)
        assert (fast["warning"] is None) == (slow["warning"] is None), bytes(damaged).hex()
        same(fast, slow)


def test_twins_agree_on_random_profiles():
    rng = random.Random(5)
    for _ in range(30):
        writer = Writer(start_ns=rng.randrange(1 << 62))
        now = dict.fromkeys(range(4), writer.header["start_ns"] // 1000)
        for _ in range(rng.randrange(1, 4)):
            native = rng.random() < 0.5  # a block without native codes lacks their column, one without labels theirs
            values = rng.choice([0.0, 0.0, 0.5, 1.0])
            labels = rng.choice([[None], [None, "{}", '{"a": "b"}']])
            for _ in range(rng.randrange(300)):
                thread = rng.randrange(4)
                now[thread] += rng.choice([0, 99, 100, 101, 5000])
                stack = [
                    (f"f{i}", f"q{i}", "f.py", i, i + rng.randrange(-3, 9), 0, -1, -1, int(native and i % 2))
                    for i in range(10, 10 + rng.randrange(9))
                ]
                more = thread, rng.randrange(1, 99), rng.randrange(8), rng.choice(labels)
                if rng.random() < values:
                    writer.value(stack, now[thread], rng.randrange(1 << rng.randrange(62)), *more, rng.randrange(1, 256))
                else:
                    writer.sample(stack, now[thread], rng.randrange(1000), *more)
            writer.flush()
        same(_core.read(writer.data), _reader.read(writer.data))


def same(fast, slow):
    assert fast.keys() == slow.keys()
    for key in slow:
        if key != "warning":
            value = fast[key]
            assert (value if key in ("strings", "threads") or value is None else bytes(value)) == slow[key], key


def block_ends(data):
    at, ends = len(MAGIC), set()
    while at < len(data):
        at += 9 + struct.unpack_from("<I", data, at)[0]
        ends.add(at)
    return ends


def split_samples(data):
    """The file up to its first S block, and the payload of that."""
    at = min(end for end in block_ends(data))
    length = struct.unpack_from("<I", data, at)[0]
    assert data[at + 8 : at + 9] == b"S"
    return data[:at], data[at + 9 : at + 9 + length]


@READERS
@pytest.mark.parametrize("rows", [1 << 21, 1 << 27])
def test_a_small_block_cannot_claim_many_samples(rows, read):
    """Columns of zeros take no byte: `rows` of them made 300 MB, or 20 GB, of a file of a few hundred bytes."""
    columns = [b"\0\0"] * len(layout.COLUMNS)
    for number, (_, table, _) in enumerate(layout.COLUMNS):
        if table == "sample":
            columns[number] = varint(rows) + b"\0"
    file = Writer().data + block(b"S", b"".join(columns) + bytes(100))
    tracemalloc.start()
    result = read(file)
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "does not make sense" in result["warning"] and len(result["flags"]) == 0
    assert used < 1 << 22


@READERS
def test_a_thread_number_cannot_ask_for_memory(read):
    writer = Writer()
    writer.sample([], 6000, 10, thread=(1 << 24) - 1)
    writer.flush()
    assert "does not make sense" in read(writer.data)["warning"]
