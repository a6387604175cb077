"""Why threads wait, as reports have it: the column, its names, the table and parts."""

import json

import pytest
from spprof_file import Writer

from spprof import Profile
from spprof.cli import main
from spprof.model import waits
from spprof.model.filtering import without_idle
from spprof.report.idle import busy_parts

LIB = "/usr/lib/python3.11/"
BOOT = [("_bootstrap", "Thread._bootstrap", LIB + "threading.py", 990, 1002)]
WORKER = [*BOOT, ("_worker", "_worker", LIB + "concurrent/futures/thread.py", 69, 81)]
JOB = [*WORKER, ("job", "job", "/srv/app.py", 5, 6), ("wait", "Event.wait", LIB + "threading.py", 600, 629)]
INSTALLED = [*BOOT, ("serve", "serve", LIB + "site-packages/server.py", 5, 6)]
MAIN = [("<module>", "<module>", "/srv/app.py", 1, 9), ("read", "read", LIB + "socket.py", 5, 6)]
OFF = 4


@pytest.fixture
def profile(tmp_path):
    writer = Writer(mode="wall")
    number = waits.REASONS.index
    for at, (stack, reason, on, flags) in enumerate(
        [
            (WORKER, "lock", None, OFF),
            (JOB, "lock", None, OFF),
            (INSTALLED, "lock", None, OFF),
            (WORKER, "sleep", None, OFF),
            (MAIN, "io", "socket 10.0.0.3:5432", OFF),
            (MAIN, "io", "pipe, descriptor 3", OFF),
            (MAIN, "running", None, OFF),
            (MAIN, "running", None, 0),
            (WORKER, "io", None, OFF),
        ]
    ):
        writer.sample(stack, 6_000 + 1_000 * at, 1_000, flags=flags, reason=number(reason), on=on)
    writer.sample(MAIN, 99_000, 500, flags=OFF, reason=77)
    writer.flush()
    writer.block(b"T", json.dumps([{"id": 0, "tid": 7, "name": "only"}]).encode())
    path = tmp_path / "p.spprof"
    path.write_bytes(writer.data)
    return Profile.load(path)


def test_a_thread_of_a_pool_without_a_job_is_idle(profile):
    """And what nobody knows, or only a later version, is unknown."""
    found = [profile.reasons[reason] for reason in profile.column("reason")]
    assert found[:5] == ["idle", "lock", "lock", "sleep", "io"]
    assert found[5:] == ["io", "unknown", "running", "idle", "unknown"]


def test_a_summary_is_of_what_threads_did(profile, capsys):
    """Unless nothing else is there, or it is asked for."""
    left_out = "Idle threads are left out: 2.00 ms more (--waiting idle shows them).\n"
    for verb in "report", "why":
        assert main([verb, profile.path]) == 0
        text = capsys.readouterr().out
        assert left_out in text and "7.50 ms of threads' time, 8 samples" in text and "_worker" not in text.split("On CPU")[0]
        assert main([verb, profile.path, "--waiting", "idle"]) == 0
        text = capsys.readouterr().out
        assert "left out" not in text and "2.00 ms of threads' time, 2 samples" in text
        assert main([verb, profile.path, "--waiting", "idle", "--waiting", "lock"]) == 0
        assert "4.00 ms of threads' time, 4 samples" in capsys.readouterr().out
    assert main(["report", profile.path, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["weight"] == 9_500_000


def test_a_summary_of_one_type_among_several_is_of_what_threads_did():
    """So is the part of that type: what is left out is left out of both."""
    events = [
        {"type": 0, "name": "time", "unit": "nanoseconds", "period": 1_000_000},
        {"type": 5, "name": "tasks", "unit": "nanoseconds", "period": 10_000_000},
    ]
    writer = Writer(mode="wall", events=events)
    for stack in WORKER, MAIN:
        writer.sample(stack, 6_000, 1_000, flags=OFF, reason=waits.REASONS.index("lock"))
    writer.value(MAIN, 6_000, 1_000, 0, 1, 0, None, 5)
    writer.flush()
    busy = without_idle(Profile(writer.data))
    assert len(busy) == 1 == len(busy.of("time")) == len(busy.of("tasks"))
    assert [busy.of("time").reasons[each] for each in busy.of("time").column("reason")] == ["lock"]


def test_of_several_processes_one_may_be_idle():
    def of(stack, pid):
        writer = Writer(mode="wall", pid=pid)
        writer.sample(stack, 6_000, 1_000, flags=OFF, reason=waits.REASONS.index("lock"))
        writer.flush()
        return Profile(writer.data)

    idle, busy = of(WORKER, 1), of(JOB, 2)
    assert [len(each) for each in busy_parts([idle, busy])] == [0, 1] and busy_parts([idle]) == [idle]
    assert busy_parts([busy]) == [busy]


def test_the_table(profile, capsys):
    assert main(["report", profile.path, "--waits"]) == 0
    text = capsys.readouterr().out
    assert "  only (7)" in text
    rows = {line.split("  ", 1)[1].split("  ")[-1]: line.split()[:3] for line in text.splitlines() if "±" in line}
    assert rows["idle"][0] == "2.00" and rows["a lock"][0] == "2.00"
    assert rows["input or output: socket 10.0.0.3:5432"][0] == "1.00"
    assert rows["input or output: pipe, descriptor 3"][0] == "1.00"
    assert rows["unknown"][0] == "1.50" and rows["running"][0] == "1.00"
    assert "Why threads waited is unknown" not in text


def test_the_table_has_a_limit_and_still_adds_up(profile, capsys):
    assert main(["report", profile.path, "--waits", "--limit", "2"]) == 0
    assert "5.50 ms               5 more (--limit)" in capsys.readouterr().out
    assert main(["report", profile.path, "--waits", "--limit", "2", "-f", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert len(made["rows"]) == 2 and made["more"] == 5


def test_the_table_for_programs(profile, capsys):
    assert main(["report", profile.path, "--waits", "-f", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["kind"] == "waits" and sum(row["ns"] for row in made["rows"]) == 9_500_000
    row = next(row for row in made["rows"] if row["on"].startswith("socket"))
    assert (row["thread"], row["tid"], row["reason"], row["samples"]) == ("only", 7, "io", 1)
    assert row["share"] == pytest.approx(1 / 9.5)
    assert row["share_interval"][0] < row["share"] < row["share_interval"][1]


@pytest.fixture
def routes(tmp_path):
    """Two processes: each waits in two routes, of two threads, and outside of routes."""
    paths = []
    for process in range(2):
        writer = Writer(mode="wall", pid=100 + process)
        number = waits.REASONS.index
        rows = [
            ("/a", "io", "socket 10.0.0.3:5432", 3),
            ("/a", "gil", None, 1),
            ("/b", "running", None, 2),
            (None, "sleep", None, 4),
        ]
        for thread in range(2):
            at = 6_000
            for route, reason, on, ms in rows:
                at += 1_000 * ms
                label = route and json.dumps({"route": route, "request": str(thread)})
                flags = 0 if reason == "running" else OFF
                writer.sample(MAIN, at, 1_000 * ms, thread, ms, flags, label, number(reason), on)
        writer.flush()
        paths.append(str(tmp_path / f"{process}.spprof"))
        (tmp_path / f"{process}.spprof").write_bytes(writer.data)
    return paths


def test_by_a_label(routes, capsys):
    """Of all threads and processes together; each value's rows add up to its time, and all to that of the profiles."""
    assert main(["report", *routes, "--waits", "--by", "route", "-f", "json"]) == 0
    made = json.loads(capsys.readouterr().out)
    found = {(row["labels"].get("route"), row["reason"], row["on"]): (row["samples"], row["ns"]) for row in made["rows"]}
    assert found == {
        ("/a", "io", "socket 10.0.0.3:5432"): (12, 12_000_000),
        ("/a", "gil", ""): (4, 4_000_000),
        ("/b", "running", ""): (8, 8_000_000),
        (None, "sleep", ""): (16, 16_000_000),
    }
    shares = {(row["labels"].get("route"), row["reason"]): (row["share"], *row["share_interval"]) for row in made["rows"]}
    assert shares["/a", "gil"][0] == 0.25 and shares["/a", "gil"][1] < 0.25 < shares["/a", "gil"][2]
    assert main(["report", *routes, "--waits", "--by", "route"]) == 0
    text = capsys.readouterr().out
    assert "16.00 ms  route=/a\n" in text and "[no label]" in text
    assert main(["report", *routes, "--waits", "--by", "process", "-f", "json"]) == 0
    assert {row["pid"] for row in json.loads(capsys.readouterr().out)["rows"]} == {100, 101}


def test_by_all_labels_and_of_some_threads(routes, capsys):
    assert main(["report", routes[0], "--waits", "--by", "label", "--label", "request=1", "-f", "json"]) == 0
    found = {tuple(row["labels"].values()): row["ns"] for row in json.loads(capsys.readouterr().out)["rows"]}
    assert found == {("1", "/a"): 1_000_000, ("1", "/b"): 2_000_000}  # of the first the last row


def test_parts(profile, tmp_path, capsys):
    part = tmp_path / "part.spprof"
    assert main(["convert", profile.path, "--waiting", "io", "--waiting", "idle", "-o", str(part)]) == 0
    read = Profile.load(part)
    assert [read.reasons[reason] for reason in read.column("reason")] == ["idle", "io", "io", "idle"]
    assert read.header["part"] == "waiting for io or idle"
    assert main(["report", profile.path, "--waiting", "io"]) == 0
    assert "waiting for io" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options, text",
    [
        (["--waits", "--by", "line"], "choose thread, process, label, or a label's key"),
        (["--waits", "--by", "coffee"], "no sample carries a label"),
        (["--blame", "--by", "thread"], "a table of its own"),
        (["--waits", "-f", "tree"], "a table of its own"),
        (["--waits", "--thread", "none"], "no thread matches"),
        (["--waiting", "gil"], "no sample is waiting for gil"),
    ],
)
def test_what_cannot_be_shown_is_refused(profile, capsys, options, text):
    assert main(["report", profile.path, *options]) != 0
    assert text in capsys.readouterr().err


def test_a_reason_that_there_is_not_is_refused(profile, capsys):
    with pytest.raises(SystemExit):
        main(["report", profile.path, "--waiting", "coffee"])
    assert "'coffee'" in capsys.readouterr().err


def test_only_wall_time_has_waits(data, tmp_path, capsys):
    path = tmp_path / "cpu.spprof"
    path.write_bytes(data)
    assert main(["report", str(path), "--waits"]) != 0
    assert "--mode wall" in capsys.readouterr().err


@pytest.mark.parametrize("part", [["--hide", "job"], ["--hide", "threading.py"], ["--waits"]])
def test_a_wait_keeps_its_reason_whatever_stacks_become(profile, capsys, part):
    """Whole stacks explain it, also where the part is joined with another process's."""
    path = profile.path

    def lines(*files):
        assert main(["convert", *files, *part, "-f", "jsonl", "-o", "-"]) == 0
        rows = map(json.loads, capsys.readouterr().out.splitlines())
        return sorted(row["reason"] for row in rows if row["type"] == "sample")

    expected = [profile.reasons[reason] for reason in profile.column("reason")]
    assert lines(path) == sorted(expected)
    assert lines(path, path) == sorted(2 * expected)


@pytest.mark.parametrize("option", [["--waits"], ["--blame"], ["--tail", "p99"]])
def test_another_profilers_file_does_not_say_that_threads_ran(profile, tmp_path, capsys, option):
    """Of wall time, too: one of pprof has no reasons."""
    path = str(tmp_path / "p.pb.gz")
    assert main(["convert", profile.path, "-o", path]) == 0
    assert Profile.load(path).mode == "wall"
    for files in ([path], [profile.path, path]):
        assert main(["report", *files, *option]) != 0
        assert "not in another profiler's file (pprof)" in capsys.readouterr().err
