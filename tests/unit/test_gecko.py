"""Firefox profiler files: read here by the format's description, and queried by Firefox's own `profiler-cli` (npm,
`make browser`)."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest
from conftest import LIBRARY, NAMES, render, required
from spprof_file import Writer
from switches import switch

from spprof import BadOption, Profile, __version__

CLI = Path(__file__).resolve().parents[1] / "browser/node_modules/@firefox-devtools/profiler-cli/dist/profiler-cli.js"


def samples(file):
    """Of each thread: name and line of each frame from the root on, time and weight in ms."""
    shared = file["shared"]
    stacks, frames, funcs = shared["stackTable"], shared["frameTable"], shared["funcTable"]

    def stack(key):
        found = []
        while key is not None:
            frame = stacks["frame"][key]
            found.append((shared["stringArray"][funcs["name"][frames["func"][frame]]], frames["line"][frame] or 0))
            key = stacks["prefix"][key]
        return found[::-1]

    for thread in file["threads"]:
        columns = thread["samples"]
        assert {columns["length"]} == {len(columns[each]) for each in ("stack", "timeDeltas", "weight", "threadCPUDelta")}
        now, rows = 0, []
        for key, step, weight in zip(columns["stack"], columns["timeDeltas"], columns["weight"]):
            now += step
            rows.append((stack(key), pytest.approx(now), pytest.approx(weight)))
        yield thread["name"], thread["tid"], rows


def test_every_sample_has_its_stack_time_and_weight(data):
    profile = Profile(data)
    file = json.loads(render(profile, "gecko"))
    start = profile.header["start_ns"]
    truth = {
        thread.name: [
            ([(f.qualname, f.line) for f in s.frames], (s.timestamp_ns - start) / 1e6, s.weight / 1e6)
            for s in profile.samples()
            if s.thread == thread.id
        ]
        for thread in profile.threads
    }
    found = list(samples(file))
    assert {name: rows for name, _, rows in found} == truth
    assert [(name, tid) for name, tid, _ in found] == [("Main", 70), ("#wor;ker", 71)]


def test_gc_runs_options_and_libraries(marked, data, native):
    file = json.loads(render(marked, "gecko"))
    for thread, (start, end), reported in zip(file["threads"], ((0.25, 0.2805), (3.9, 3.95)), ((2, 7, 0), (0, 1, 3))):
        marks = thread["markers"]
        assert [file["shared"]["stringArray"][name] for name in marks["name"]] == ["gc"]
        assert (marks["startTime"], marks["endTime"]) == ([pytest.approx(start)], [pytest.approx(end)])
        (about,) = marks["data"]
        assert (about["generation"], about["collected"], about["uncollectable"]) == reported
    (all_threads,) = samples(json.loads(render(Profile(data), "gecko", weight="samples", merge_threads=True)))
    assert all_threads[0] == "all threads" and sum(round(weight.expected) for *_, weight in all_threads[2]) == 13
    file = json.loads(render(Profile(data), "gecko", thread="#*", lines=False))
    assert [thread["name"] for thread in file["threads"]] == ["#wor;ker"]
    assert file["threads"][0]["samples"]["weight"] == [0.5, 0.001]
    assert file["shared"]["frameTable"]["line"] == [None, None]
    (library,) = json.loads(render(native, "gecko"))["libs"]
    assert (library["path"], library["codeId"]) == (LIBRARY, "00ff17")
    with pytest.raises(BadOption, match="Firefox's profiler opens no file without any"):
        render(Profile(Writer().data), "gecko")


# The gate has no packages from npm.


@pytest.fixture
def firefox(tmp_path_factory):
    """Loads a profile into a session of the tool; gives a function that asks it. The sessions end with the test."""
    node = required("node")
    if not CLI.exists():
        reported = "`make browser` is needed"
        pytest.fail(reported) if switch("SPPROF_REQUIRE_BROWSER") else pytest.skip(reported)
    folder = tmp_path_factory.mktemp("ff")  # short: a socket's path may have 108 bytes
    environment = {**os.environ, "PROFILER_CLI_SESSION_DIR": str(folder)}
    environment.pop("LD_PRELOAD", None)  # a sanitizer's runtime is not for node

    def tool(*words):
        return subprocess.run([node, str(CLI), *words], capture_output=True, text=True, timeout=60, env=environment)

    def call(*words):
        done = tool(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    daemons = []

    def load(profile, **options):
        """As `profiler-cli load` does, which gives its daemon half a second to start: a busy machine may not keep that."""
        path, session = folder / f"{len(daemons)}.json", f"s{len(daemons)}"
        path.write_bytes(render(profile, "gecko", **options))
        command = [node, str(CLI), "--daemon", str(path), "--session", session]
        quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
        daemons.append(subprocess.Popen(command, env=environment, **quiet))
        end = time.monotonic() + 60
        # The tool, asked for a session that is not there yet, removes the socket of one that is about to be. The name of the
        # session is what its daemon writes last.
        current = folder / "current.txt"
        while not (current.exists() and current.read_text() == session):
            assert daemons[-1].poll() is None and time.monotonic() < end, "the daemon does not come up"
            time.sleep(0.02)
        while True:
            done = tool("profile", "info", "--session", session)
            if done.returncode == 0:
                return lambda *words: json.loads(call(*words, "--json", "--session", session))
            assert daemons[-1].poll() is None and time.monotonic() < end, done.stdout + done.stderr

    yield load
    for daemon in daemons:
        daemon.terminate()
        daemon.wait(60)


def functions(ask, thread):
    rows = ask("thread", "functions", "--thread", thread, "--include-idle", "--limit", "0")["functions"]
    return {row["nameWithLibrary"]: (pytest.approx(row["selfSamples"]), pytest.approx(row["totalSamples"])) for row in rows}


@pytest.mark.stress
def test_threads_functions_and_gc_runs(firefox, marked):
    ask = firefox(marked)
    about = ask("profile", "meta")
    assert (about["importedFrom"], about["product"], about["interval"]) == (f"spprof {__version__}", "x.py", 1)
    threads = [(each["name"], each["tid"], each["pid"], each["markerCount"]) for each in ask("thread", "list")["threads"]]
    assert sorted(threads) == [("#wor;ker", 71, "0", 1), ("Main", 70, "0", 1)]
    assert functions(ask, "t-0") == {  # milliseconds, self and total
        "<module>": (0.1, 1.31),
        "A.a": (1.21, 4.21),
        "b": (3, 4.01),
        "[truncated]": (0, 3),
    }
    assert functions(ask, "t-1") == {"b": (0.5, 0.5), "[no Python frames]": (0.001, 0.001)}
    categories = ask("thread", "samples", "--thread", "t-1", "--include-idle")["categoryBreakdown"]["categories"]
    assert {each["name"]: each["samples"] for each in categories} == {"Python": pytest.approx(0.5), "Other": pytest.approx(0.001)}
    for thread, start, duration, data in (("t-0", 0.15, 0.0305, (2, 7, 0)), ("t-1", 3.8, 0.05, (0, 1, 3))):
        # The tool counts from the first sample, at 0.1 ms.
        (mark,) = ask("thread", "markers", "--thread", thread, "--list")["flatMarkers"]
        assert (mark["name"], mark["category"]) == ("gc", "GC")
        more = ask("marker", "info", mark["handle"])
        assert (more["start"], more["duration"]) == (pytest.approx(start), pytest.approx(duration)), more
        assert {field["key"]: field["value"] for field in more["fields"]} == dict(
            zip(("generation", "collected", "uncollectable"), data)
        )


@pytest.mark.stress
def test_options(firefox, data):
    ask = firefox(Profile(data), weight="samples", merge_threads=True)
    (thread,) = ask("thread", "list")["threads"]
    assert thread["name"] == "all threads"
    assert functions(ask, "t-0")["b"] == (8, 10)  # a waiting thread's 7 ticks are one sample of weight 7


@pytest.mark.stress
def test_native_functions(firefox, native):
    ask = firefox(native)
    rows = functions(ask, "t-0")
    assert rows["libz.so.1!deflate"] == (3, 3) and rows["f"] == (4, 7)
    categories = ask("thread", "samples", "--include-idle")["categoryBreakdown"]["categories"]
    assert {each["name"]: each["samples"] for each in categories} == {"Native": pytest.approx(3), "Python": pytest.approx(4)}


@pytest.mark.stress
def test_any_name(firefox):
    writer = Writer()
    for step, name in enumerate(NAMES):
        writer.sample([(name, name, f"{name}?", 1, 7)], 6000 + step, 1)
    writer.flush()
    writer.json(b"T", [{"id": 0, "tid": 4, "name": '<script>"\udcff'}])
    ask = firefox(Profile(writer.data))
    shown = {name.encode("utf-8", "backslashreplace").decode() for name in NAMES}
    assert len(functions(ask, "t-0")) == len(shown)
    assert ask("thread", "list")["threads"][0]["name"] == '<script>"\\udcff'
