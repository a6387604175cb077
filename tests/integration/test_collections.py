"""Garbage collections by the stack that triggered them, against what gc.callbacks report to Python code."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter

import pytest

import spprof
from spprof.cli import main
from spprof.report.collections import triggered


class Ring:
    def __init__(self):
        self.me = self


def collects_all():
    for _ in range(3):
        [Ring() for _ in range(50)]
        gc.collect()


def collects_young():
    [Ring() for _ in range(20)]
    gc.collect(0)


def done():
    total = 0
    for each in gc.get_stats():
        total += each["collections"]
    return total


def allocates():
    """Until collections have begun by themselves."""
    kept, until = [], done() + 3
    while done() < until:
        for _ in range(1000):
            kept.append([kept])


class Witness:
    """Callbacks around spprof's: each collection's function, generation and objects; and bounds of its time."""

    def __init__(self):
        self.outer, self.inner, self.runs = [], [], []

    def first(self, phase, about):
        if phase == "start":
            self.began = time.monotonic_ns()
        else:
            self.inner.append(time.monotonic_ns() - self.last_began)
            code = sys._getframe(1).f_code
            self.runs.append((threading.get_native_id(), code.co_name, about["generation"], about["collected"]))

    def last(self, phase, about):
        if phase == "start":
            self.last_began = time.monotonic_ns()
        else:
            self.outer.append(time.monotonic_ns() - self.began)

    def watch(self, work, **options):
        """Only collections within the work."""
        gc.collect()
        gc.disable()
        gc.callbacks.insert(0, self.first)
        spprof.start(**options)
        gc.callbacks.append(self.last)
        gc.enable()
        try:
            work()
        finally:
            gc.disable()
            gc.callbacks.remove(self.first)
            gc.callbacks.remove(self.last)
            profile = spprof.stop()
            gc.enable()
        assert self.runs
        return profile


def in_threads():
    for name in ("one", "two"):
        thread = threading.Thread(target=collects_young, name=name)
        thread.start()
        thread.join()


@pytest.mark.parametrize("work", [collects_all, collects_young, allocates, in_threads])
@pytest.mark.parametrize("options", [{"events": ["time", "gc"]}, {"events": ["gc"]}], ids=["beside time", "alone"])
def test_equal_to_callbacks(work, options):
    witness = Witness()
    profile = witness.watch(work, **options)
    names, found = {thread.id: thread.tid for thread in profile.threads}, Counter()
    for row in triggered([profile]):
        for generation, n in row.generations.items():
            found[row.qualname.rpartition(".")[2], generation] += n
    if work is in_threads:  # a thread may be collecting before it was discovered
        found += Counter({("collects_young", 0): found.pop(("", 0), 0)})
    assert found == Counter((name, generation) for _, name, generation, _ in witness.runs)
    markers = [marker for marker in profile.markers if marker.name == "gc"]
    assert [marker.data["collected"] for marker in markers] == [collected for *_, collected in witness.runs]
    assert sum(row.collected for row in triggered([profile])) == sum(collected for *_, collected in witness.runs)
    for marker, inner, outer, (tid, *_) in zip(markers, witness.inner, witness.outer, witness.runs):
        assert inner <= marker.duration_ns <= outer
        assert names.get(marker.thread, tid) == tid


def test_samples_are_the_collections():
    profile = Witness().watch(collects_all, events=["time", "gc"])
    collections = profile.of("gc")
    (row,) = (row for row in collections.functions() if row.name == "collects_all")
    markers = [marker for marker in profile.markers if marker.name == "gc"]
    assert row.self_samples == len(markers) == 3
    assert collections.unit == "nanoseconds"
    assert (
        sum(collections.column("weight"))
        == sum(marker.duration_ns for marker in markers)
        == profile.stats["events"]["gc"]["units"]
    )
    (stack,) = {tuple(frame.name for frame in sample.frames[-2:]) for sample in collections.samples()}
    assert stack == ("watch", "collects_all")


def test_native_frames_are_of_time_alone():
    if not spprof.native_unwinding_available():
        pytest.skip("no native frames here")
    collections = Witness().watch(collects_all, events=["time", "gc"], native=True).of("gc")
    assert {sample.frames[-1].name for sample in collections.samples()} == {"collects_all"}


def test_paused_collections_are_not_in_the_profile():
    def work():
        collects_young()
        spprof.pause()
        collects_all()
        spprof.resume()
        collects_young()

    (row,) = triggered([Witness().watch(work, events=["time", "gc"])])
    assert (row.qualname, row.collections, row.generations) == ("collects_young", 2, {0: 2})


def test_the_report_of_a_run(tmp_path, capsys):
    source, path = tmp_path / "x.py", tmp_path / "p.spprof"
    source.write_text(
        textwrap.dedent("""
        import gc
        class Ring:
            def __init__(self):
                self.me = self
        def work():
            rings = [Ring() for _ in range(1000)]
            del rings
            gc.collect()
        gc.collect()
        gc.disable()
        work()
        work()
    """)
    )
    command = [sys.executable, "-m", "spprof", "run", "-q", "--event", "time", "--event", "gc", "-o", str(path), str(source)]
    assert subprocess.run(command, timeout=120).returncode == 0
    assert main(["report", str(path), "--gc", "-f", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (row,) = (row for row in document["rows"] if row["qualname"] == "work")
    assert document["more"] == 0
    assert (row["collections"], row["generations"], row["line"]) == (2, {"2": 2}, 9)
    assert row["collected"] >= 2000 and row["ns"] >= row["longest_ns"] > 0
    assert main(["report", str(path), "--gc"]) == 0
    text = capsys.readouterr().out
    assert "By the line that triggered them:" in text and "2: 2" in text and "work (" in text
    assert main(["report", str(path), "--type", "gc"]) == 0
    assert "Event: gc, a sample for each." in capsys.readouterr().out
    for more in (["--by", "line"], ["-f", "tree"], ["--thread", "x"]):
        assert main(["report", str(path), "--gc", *more]) != 0


def test_without_samples_of_collections(tmp_path):
    spprof.start()
    profile = spprof.stop()
    with pytest.raises(spprof.BadOption, match="--event time --event gc"):
        triggered([profile])


def test_gc_has_no_period():
    with pytest.raises(spprof.BadOption, match="each one is a sample: it has no period"):
        spprof.start(events=["time", "gc=5"])
