"""`spprof dump` of known files."""

from __future__ import annotations

from spprof_file import Writer

from spprof.cli import main


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


def test_files_of_others_are_refused(tmp_path, capsys):
    (tmp_path / "x.txt").write_text("main;f 3\n")
    assert main(["dump", str(tmp_path / "x.txt")]) == 2
    assert "does not say when its samples were taken" in capsys.readouterr().err


def test_no_samples(tmp_path, capsys):
    (tmp_path / "p.spprof").write_bytes(Writer().data)
    assert main(["dump", str(tmp_path / "p.spprof")]) == 0
    assert capsys.readouterr().out == "x.py: process ?, cpu mode, not ended; no samples yet\n"
