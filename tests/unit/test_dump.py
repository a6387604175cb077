"""`spprof dump` of known files."""

from __future__ import annotations

from spprof_file import Writer

from spprof.cli import main
from spprof.model.waits import REASONS


def test_what_was_blocked_what_ran_and_what_is_gone(tmp_path, capsys):
    f, g = ("f", "f", "/app/f.py", 1, 7), ("g", "mod.g", "/app/f.py", 20, 21)
    writer = Writer(mode="wall", argv=["app.py", "x"], pid=17)
    writer.sample([f], 100_000, 1000, thread=0, flags=4)
    writer.sample([f, g], 2_000_000, 600_000, thread=1, flags=4)
    writer.sample([f, g], 2_500_000, 500_000, thread=1, flags=4)
    writer.sample([f], 2_400_000, 300_000, thread=2, flags=4)
    writer.sample([f], 2_401_000, 1000, thread=2)
    writer.flush()
    writer.json(b"T", [{"id": i, "tid": 70 + i, "name": name} for i, name in enumerate(["gone", "blocked", "runs"])])
    (tmp_path / "p.spprof").write_bytes(writer.data)
    assert main(["dump", str(tmp_path / "p.spprof")]) == 0
    assert capsys.readouterr().out == (
        "app.py x: process 17, wall mode, not ended; the last sample was taken at 2.50 s\n"
        "\nblocked (71): here for 1.10 s\n    mod.g (/app/f.py:21)\n    f (/app/f.py:7)\n"
        "\nruns (72): was running\n    f (/app/f.py:7)\n"
        "\n1 thread more, not seen for the last second: ended, or waiting out of sight.\n"
    )


def test_why_a_thread_is_blocked_and_who_has_what_it_waits_for(tmp_path, capsys):
    """By the last of its samples there."""
    f, gil, io, off_cpu = ("f", "f", "/app/f.py", 1, 7), REASONS.index("gil"), REASONS.index("io"), 4
    writer = Writer(mode="wall", argv=["app.py"], pid=17)
    writer.sample([f], 2_400_000, 300_000, thread=0, flags=off_cpu, reason=io, on="pipe, descriptor 3")
    writer.sample([f], 2_450_000, 50_000, thread=0, flags=off_cpu, reason=gil, by=2)
    writer.sample([f], 2_450_000, 1000, thread=1)
    writer.sample([f], 2_450_000, 300_000, thread=2, flags=off_cpu, reason=gil, by=2)
    writer.sample([f], 2_450_000, 300_000, thread=3, flags=off_cpu, reason=io, on="pipe, descriptor 3")
    writer.flush()
    writer.json(b"T", [{"id": i, "tid": 70 + i, "name": name} for i, name in enumerate(["one", "has it", "two", "reads"])])
    (tmp_path / "p.spprof").write_bytes(writer.data)
    assert main(["dump", str(tmp_path / "p.spprof")]) == 0
    place = "\n    f (/app/f.py:7)\n"
    assert capsys.readouterr().out.partition("\n")[2] == (
        f"\none (70): here for 0.35 s, waiting for the GIL, held by has it (71){place}"
        f"\nhas it (71): was running\n    (it holds what others wait for: one, two){place}"
        f"\ntwo (72): here for 0.30 s, waiting for the GIL, held by has it (71){place}"
        f"\nreads (73): here for 0.30 s, in input or output: pipe, descriptor 3{place}"
    )


def test_files_of_others_are_refused(tmp_path, capsys):
    (tmp_path / "x.txt").write_text("main;f 3\n")
    assert main(["dump", str(tmp_path / "x.txt")]) == 2
    assert "does not say when its samples were taken" in capsys.readouterr().err


def test_no_samples(tmp_path, capsys):
    (tmp_path / "p.spprof").write_bytes(Writer().data)
    assert main(["dump", str(tmp_path / "p.spprof")]) == 0
    assert capsys.readouterr().out == "x.py: process ?, cpu mode, not ended; no samples yet\n"
