"""A profile holds the SHA-256 of each source file that it names, taken when the name appeared: by that a page knows which text
may be in it (tests/unit/test_html.py)."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest
from work import burn

import spprof
from spprof.readers.spprof import hashes

TEXT = "def work(burn):\n    burn(0.02, samples=5)  # \u20ac\n"


def function_of(file, text=TEXT):
    names = {}
    exec(compile(text, str(file), "exec"), names)
    return names["work"]


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("mode", ["cpu", "wall"])
def test_the_hash_is_that_of_the_file_when_its_name_appeared(tmp_path, mode):
    early, late = tmp_path / "early.py", tmp_path / "l\u00e4te.py"
    early.write_text(TEXT, encoding="utf-8")
    spprof.start(output_path=tmp_path / "p.spprof", mode=mode)
    function_of(early)(burn)
    spprof.flush()  # it has been hashed
    early.write_text("print('edited')\n", encoding="utf-8")
    late.write_text(TEXT + "# more\n", encoding="utf-8")
    function_of(late, TEXT + "# more\n")(burn)
    function_of(early)(burn)
    known = hashes(spprof.stop().raw())
    assert (known[str(early)], known[str(late)]) == (digest(TEXT), digest(TEXT + "# more\n"))
    assert known[burn.__code__.co_filename] == hashlib.sha256(open(burn.__code__.co_filename, "rb").read()).hexdigest()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
def test_what_is_no_file_with_text_is_not_read(tmp_path):
    """Each has samples, so its name was seen. A FIFO and a device are not even opened."""
    for name in ("fifo", "folder", "empty", "large", "there.py"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "fifo").unlink()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").unlink()
    (tmp_path / "folder").mkdir()
    os.truncate(tmp_path / "large", (4 << 20) + 1)
    (tmp_path / "there.py").write_text(TEXT, encoding="utf-8")
    os.symlink("there.py", tmp_path / "link.py")
    others = [str(tmp_path / name) for name in ("fifo", "folder", "empty", "large", "gone")]
    files = [*others, "<string>", "", "/dev/zero", "/dev/tty", str(tmp_path / "there.py"), str(tmp_path / "link.py")]
    spprof.start(output_path=tmp_path / "p.spprof")
    for file in files:
        function_of(file)(burn)
    taken = spprof.stop()
    known = hashes(taken.raw())
    assert {row.file for row in taken.functions()} >= set(files)
    assert {file: known.get(file) for file in files if file in known} == dict.fromkeys(files[-2:], digest(TEXT))


def test_all_files_of_a_run_have_a_bound(tmp_path):
    files = [str(tmp_path / f"{number}.py") for number in range(9)]
    spprof.start(output_path=tmp_path / "p.spprof")
    for file in files:
        with open(file, "wb") as made:
            made.truncate(4 << 20)
        function_of(file)(burn)
        spprof.flush()
    taken = spprof.stop()
    assert {row.file for row in taken.functions()} >= set(files)
    assert [file for file in files if file in hashes(taken.raw())] == files[:8]


PROGRAM = """\
import os, sys, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # CPython 3.13.0 counts threads after a fork, when ours are there again
def work():
    import spprof
    wanted, late = spprof.stats().get("taken", 0) + 10, time.monotonic() + 60  # only a hang reaches the minute
    while spprof.stats().get("taken", 0) < wanted and time.monotonic() < late:
        until = time.monotonic() + 0.05
        while time.monotonic() < until: sum(range(999))
work()
if sys.argv[1:] == ["fork"]:
    pid = os.fork()
    work()
    os._exit(0) if pid == 0 else os.waitpid(pid, 0)
elif sys.argv[1:]:
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
os._exit(0)
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has neither fork nor exec in place")
@pytest.mark.parametrize("words, files", [([], 1), (["fork"], 2), (["next.py"], 2)])
def test_every_process_of_a_run_has_them(tmp_path, words, files):
    """Also one that leaves by os._exit, and one that another program takes the place of."""
    for name in ("program.py", "next.py"):
        (tmp_path / name).write_text(PROGRAM, encoding="utf-8")
    words = [str(tmp_path / word) if word == "next.py" else word for word in words]
    options = ["-q", "--subprocesses", "-o", "p.spprof", str(tmp_path / "program.py")]
    command = [sys.executable, "-m", "spprof", "run", *options, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    profiles = sorted(tmp_path.glob("*.spprof"))
    assert len(profiles) == files
    for profile in profiles:
        known = hashes(profile.read_bytes())
        assert set(known.values()) >= {digest(PROGRAM)}
        own = [file for file in known if os.path.dirname(file) == str(tmp_path)]
        assert len(own) == 1 and known[own[0]] == digest(PROGRAM)
