"""Every verb that writes, over every kind of thing that can be at the path: it is written whole, or refused, and then everything
is as it was. Nothing of ours is left beside it either way."""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import re
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

import spprof
from spprof import Profile, formats
from spprof.cli import main
from spprof.files.output import Output

posix = pytest.mark.skipif(os.name == "nt", reason="POSIX's rights, links and FIFOs")

BURN = "n = 0\nfor i in range(300_000): n += i"
VERBS = {
    "convert": ["convert", "in.spprof", "-f", "html"],
    "diff": ["diff", "in.spprof", "other.spprof"],
    "open": ["open", "in.spprof", "--no-browser"],
    "run html": ["run", "-q", "-f", "html", "-c", BURN],
    "run spprof": ["run", "-q", "-f", "spprof", "-c", BURN],
}


def tree(folder):
    """All that is in a folder: kind, rights and content. (`in` and `other` are read, and stay too.)"""
    found = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        found[path.relative_to(folder).as_posix()] = stat.S_IFMT(about.st_mode), stat.S_IMODE(about.st_mode), content
    return found


@pytest.fixture
def here(tmp_path, data, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("in.spprof", "other.spprof"):
        (tmp_path / name).write_bytes(data)
    return tmp_path


@pytest.fixture
def for_all(data, monkeypatch):
    """The same in a folder that other users may read. (pytest's own folder is shut again by each other run of pytest.)"""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        monkeypatch.chdir(folder)
        for name in ("in.spprof", "other.spprof"):
            Path(folder, name).write_bytes(data)
        yield Path(folder)
        monkeypatch.undo()  # before it goes


def written(verb, path, *more):
    """The exit code, and what was said."""
    words = VERBS[verb]
    at = words.index("-c") if "-c" in words else len(words)
    command = [*words[:at], "-o", str(path), *more, *words[at:]]
    done = subprocess.run(
        [sys.executable, "-m", "spprof", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stderr


def run(*words):
    command = [sys.executable, "-m", "spprof", "run", *words]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=120, check=False)


def format_of(verb):
    return "spprof" if verb == "run spprof" else "html"


def is_whole(verb, path):
    with open(path, "rb") as file:
        text = file.read()
    return Profile(text).end is not None if format_of(verb) == "spprof" else text.rstrip().endswith(b"</html>")


def nothing(path):
    pass


def own(path):
    """What the same verb wrote before; kept to its owner."""
    is_page = path.name.endswith(".html")
    if is_page:
        Profile("in.spprof").save(path, "html")
        path.write_bytes(path.read_bytes() + b"\n")  # to distinguish it from the next one
    else:
        path.write_bytes(Path("in.spprof").read_bytes())
    path.chmod(0o600)


def empty(path):
    path.touch(0o640)


def link(path):
    (path.parent / "there").mkdir()
    own(path.parent / "there" / path.name)
    path.symlink_to(f"there/{path.name}")


def link_to_nothing(path):
    (path.parent / "there").mkdir()
    path.symlink_to(f"there/{path.name}")


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(
    "there", [nothing, own, empty, pytest.param(link, marks=posix), pytest.param(link_to_nothing, marks=posix)]
)
def test_written_whole(here, verb, there):
    path = here / f"out.{format_of(verb)}"
    there(path)
    before = tree(here)
    code, said = written(verb, path)
    assert code == 0, said
    assert is_whole(verb, path)
    after = tree(here)
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    assert changed == {f"there/{path.name}" if path.is_symlink() else path.name}, "nothing else is left, and a link stays one"
    for name in changed & {*before}:
        assert before[name][:2] == after[name][:2], "its rights are as they were"


def foreign(path):
    path.write_text("a letter\n")


def other_format(path):
    is_page = path.name.endswith(".html")
    path.write_bytes(Path("in.spprof").read_bytes() if is_page else b"<html><title>spprof</title>")


def hard_link_to_foreign(path):
    (path.parent / "letter").write_text("a letter\n")
    os.link(path.parent / "letter", path)


def link_to_foreign(path):
    (path.parent / "letter").write_text("a letter\n")
    path.symlink_to("letter")


def folder(path):
    path.mkdir()


def gone(path):
    """A folder on the way there is missing."""


REFUSED = [foreign, other_format, hard_link_to_foreign, pytest.param(link_to_foreign, marks=posix), folder, gone]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("there", REFUSED)
def test_refused_before_anything_is_touched(here, verb, there):
    path = here / "missing" / "out" if there is gone else here / f"out.{format_of(verb)}"
    there(path)
    before = tree(here)
    code, said = written(verb, path)
    assert code == 2 and os.path.basename(path) in said and "Traceback" not in said, said
    assert tree(here) == before


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("there", [foreign, other_format])
def test_force_replaces_what_is_there(here, verb, there):
    path = here / f"out.{format_of(verb)}"
    there(path)
    code, said = written(verb, path, "--force")
    assert code == 0 and is_whole(verb, path), said
    assert sorted(os.listdir(here)) == ["in.spprof", "other.spprof", path.name] or format_of(verb) == "html"


@pytest.mark.parametrize("verb", ["convert", "diff", "open"])
def test_an_input_is_not_replaced(here, verb):
    before = tree(here)
    code, said = written(verb, here / "in.spprof")
    assert code == 2 and "is what is read" in said and tree(here) == before


@posix
@pytest.mark.parametrize("verb", VERBS)
def test_a_fifo_and_a_device_are_written_to(here, verb):
    path = here / "fifo"
    os.mkfifo(path)
    got = []
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()))
    reader.start()
    code, said = written(verb, path)
    reader.join()
    assert code == 0 and stat.S_ISFIFO(path.stat().st_mode), said
    (here / "copy").write_bytes(got[0])
    assert is_whole(verb, here / "copy")
    code, said = written(verb, "/dev/null")
    assert code == 0 and stat.S_ISCHR(os.stat("/dev/null").st_mode), said


# The interpreter and spprof may be where only root reads (in /root).
READING = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]


@posix
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be two users")
def test_folders_and_files_of_another_user(for_all, verb):
    """As somebody who may not write there, or only into the folder."""
    here, place = for_all, for_all / "place"
    place.mkdir()
    path = place / f"out.{format_of(verb)}"

    def python_of_nobody(*words):
        return subprocess.run(
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *READING, sys.executable, *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120, check=False,
        )  # fmt: skip

    def as_nobody():
        words = VERBS[verb]
        at = words.index("-c") if "-c" in words else len(words)
        return python_of_nobody("-m", "spprof", *words[:at], "-o", str(path), *words[at:])

    if python_of_nobody("-c", "import spprof").returncode != 0:
        pytest.skip("nobody else may read where Python or spprof is installed")
    place.chmod(0o755)
    before = tree(here)
    done = as_nobody()
    assert done.returncode == 2 and "Permission denied" in done.stderr and tree(here) == before, done.stderr
    place.chmod(0o777)
    own(here / f"mine.{format_of(verb)}")
    os.rename(here / f"mine.{format_of(verb)}", path)
    path.chmod(0o666)
    before = tree(here)
    done = as_nobody()
    assert done.returncode == 2 and "another user's" in done.stderr and tree(here) == before, done.stderr
    place.chmod(0o1777)
    os.unlink(path)
    path.symlink_to(here / "victim")
    os.chown(path, 1, 1, follow_symlinks=False)
    done = as_nobody()
    assert done.returncode == 2 and "the link there is another user's" in done.stderr and not (here / "victim").exists()


ENDINGS = {
    "full disk": lambda out: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left on device")),
    "interrupted": lambda out: (_ for _ in ()).throw(KeyboardInterrupt),
    "crash": lambda out: 1 // 0,
}


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("there", [nothing, own, empty])
def test_all_is_as_before_if_it_ends_in_the_middle(here, there, ending):
    path = here / "out.html"
    there(path)
    before = tree(here)

    def fill(out):
        out.write(b"half" * 100_000)
        out.flush()
        ENDINGS[ending](out)

    with pytest.raises((spprof.CannotWrite, KeyboardInterrupt, ZeroDivisionError)):
        Output(str(path), "html").write(fill)
    assert tree(here) == before


@posix
@pytest.mark.parametrize("there", [nothing, own, empty, link, foreign])
def test_a_killed_writer_takes_nothing_along(here, there):
    """Half a file of an unlikely name is left, and what was there is as it was (or not empty any more)."""
    path = here / "out.html"
    there(path)
    before = tree(here)
    pid = os.fork()
    if pid == 0:
        try:
            out = Output(str(path), "html", force=True)
            out.write(lambda out: (out.write(b"half" * 100_000), out.flush(), os.kill(os.getpid(), signal.SIGKILL)))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    after = tree(here)
    if there is empty:
        assert {name for name in after if after[name] != before.get(name)} == {path.name}
        return
    assert {name: after[name] for name in before} == before
    (left,) = after.keys() - before.keys()
    assert re.fullmatch(r"(there/)?out\.html\.\w{8,}\.part", left)
    assert not glob.glob(str(here / "out.html.*.spprof"))


@pytest.fixture
def small_disk(here):
    """A file system of 4 MiB."""
    place = here / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "spprof-test", str(place)]
    if sys.platform != "linux" or os.geteuid() != 0 or subprocess.run(command, stderr=subprocess.PIPE, check=False).returncode:
        pytest.skip("only root can mount a small disk, where it can")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def fill_up(place):
    with open(place / "filler", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            assert error.errno == errno.ENOSPC


@posix
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("there", [nothing, own, empty])
def test_on_a_full_disk_nothing_is_lost_and_a_line_says_so(here, small_disk, verb, there):
    path = small_disk / f"out.{format_of(verb)}"
    there(path)
    fill_up(small_disk)
    before = tree(small_disk)
    code, said = written(verb, path)
    assert "No space left on device" in said and "Traceback" not in said, said
    assert code == (4 if verb.startswith("run") else 2)
    assert {name: each for name, each in tree(small_disk).items() if name in before} == before
    if not verb.startswith("run"):
        assert tree(small_disk) == before


@pytest.mark.parametrize("there", [nothing, own, empty])
def test_what_came_meanwhile_stays(here, there):
    path = here / "out.html"
    there(path)
    for forced in (False, True):
        output = Output(str(path), "html", forced)
        path.write_text("the program's own")
        if not forced:
            with pytest.raises(spprof.CannotWrite, match="meanwhile"):
                output.write(lambda out: out.write(b"a page"))
            assert path.read_text() == "the program's own"
            path.unlink()
            there(path)
    output.write(lambda out: out.write(b"a page"))
    assert path.read_bytes().endswith(b"a page") and {each.name for each in here.iterdir()} == {
        "in.spprof",
        "other.spprof",
        "out.html",
    }


@pytest.mark.parametrize("format", ["html", "spprof"])
def test_a_file_that_the_program_writes_stays_and_so_does_the_recording(here, format):
    name = f"out.{format}"
    (here / name).write_bytes(b"" if format == "spprof" else b"<html><title>spprof</title>")
    code = f"open({name!r}, 'w').write('the result')"
    done = run("-q", "-o", name, "-c", code)
    assert (done.returncode, (here / name).read_text()) == (4, "the result") and "meanwhile" in done.stderr
    (kept,) = here.glob(f"{name}.*.spprof")
    assert kept.name in done.stderr and Profile(str(kept)).end is not None


@pytest.mark.parametrize("verb", ["convert", "diff", "open"])
def test_an_output_that_was_taken_meanwhile_has_a_code_of_its_own(here, verb, monkeypatch, capsys):
    """As that of a program that took it."""
    look = Output._look

    def taken(self, inputs):
        found = look(self, inputs)
        Path(self.path).write_text("of others")
        return found

    monkeypatch.setattr(Output, "_look", taken)
    assert main([*VERBS[verb], "-o", "out.html"]) == 4 and "meanwhile" in capsys.readouterr().err
    assert (here / "out.html").read_text() == "of others"


LOST = {
    "removed": "import os; os.remove('out.spprof')",
    "moved": "import os; os.rename('out.spprof', 'elsewhere')",
    "replaced": "import os; os.remove('out.spprof'); open('out.spprof', 'w').write('mine')",
    "overwritten": "open('out.spprof', 'r+').write('the result of the program')",
}


@posix
@pytest.mark.parametrize("how", LOST)
def test_a_profile_that_is_lost_is_said(here, how):
    for code, expected in ((LOST[how], 4), (f"{LOST[how]}; raise SystemExit(3)", 3)):
        (here / "out.spprof").unlink(missing_ok=True)
        done = run("-q", "-o", "out.spprof", "-c", code)
        assert done.returncode == expected and "out.spprof is not there" in done.stderr


def test_a_recording_is_known_by_the_number_of_its_run(here):
    """Not by its name, nor its time: another machine's run may have the same process id, and its clock."""
    code = "import os, shutil; shutil.copy('in.spprof', f'app.{os.getpid()}.2.spprof'); shutil.copy('in.spprof', 'app.1.spprof')"
    (here / "app.py").write_text(f"{code}\nimport subprocess, sys; subprocess.run([sys.executable, '-c', 'pass'])")
    done = run("--subprocesses", "app.py")
    assert "Child processes: 1 file." in done.stderr and done.stderr.count("Written: ") == 1, done.stderr


@pytest.mark.skipif(os.name == "nt", reason="Windows has no exec in place, nor variables of the environment that are empty")
def test_names_that_nobody_asked_for_replace_nothing(here):
    """Another container's run may have the same process id, and may have taken its names, and given them back."""
    (here / "app.py").write_text(
        "import os, shutil\nif 'app' not in os.environ:\n"
        "    shutil.copy('in.spprof', f'app.{os.getpid()}.2.spprof')\n    os.environ['app'] = ''\n"
        "    import sys; os.execv(sys.executable, [sys.executable, __file__])\n"
        "os.remove(f'app.{os.getpid()}.2.spprof')\nopen(f'app.{os.getpid()}.collapsed', 'w').write('kept')\n"
    )
    done = run("-q", "-f", "collapsed", "app.py")
    assert (done.returncode, done.stderr) == (0, "")
    found = sorted(path.name.split(".", 2)[2] for path in here.glob("app.*.collapsed"))
    assert found == ["2.collapsed", "3.collapsed", "collapsed"] and not list(here.glob("app.*.spprof"))
    (kept,) = (path for path in here.glob("app.*.collapsed") if path.name.count(".") == 2)
    assert kept.read_text() == "kept"


@pytest.mark.parametrize("empty", [False, True], ids=["samples", "none"])
def test_every_format_is_recognized_as_itself_alone(here, data, empty):
    profile = Profile(data)
    if empty:
        from spprof.transforms import filtered

        profile = filtered(profile, start_ns=1, stop_ns=2)
    made = {}
    for name in formats.FORMATS:
        try:
            profile.save(f"made.{name}", name)
        except spprof.BadOption:  # it has no file for this profile, or needs a package that is not here
            assert empty or formats.FORMATS[name].needs
            continue
        with open(f"made.{name}", "rb") as file:
            made[name] = file.read()
    assert len(made) >= 9
    for name in made:
        for format in formats.FORMATS:
            with open(f"made.{name}", "rb") as file:
                assert formats.is_like(format, file) == (format == name), (format, name)
        profile.save(f"made.{name}", name)
        with open(f"made.{name}", "rb") as file:
            assert hashlib.sha256(file.read()).digest() == hashlib.sha256(made[name]).digest()


@pytest.mark.parametrize("words", [["--from", "0.001"], ["--to", "0.003"], ["--thread", "Main"]], ids=" ".join)
def test_a_part_replaces_what_it_may_and_never_its_whole_unasked(here, words, capsys):
    whole = (here / "in.spprof").read_bytes()
    (here / "other.spprof").write_bytes(whole)
    (here / "other.html").write_text("mine")
    before = tree(here)
    for out in ("in.spprof", "./in.spprof", "other.html"):
        assert main(["convert", "in.spprof", *words, "-f", "spprof", "-o", out]) == 2
        assert "or --force" in capsys.readouterr().err and tree(here) == before
    assert main(["convert", "in.spprof", *words, "-o", "new.spprof"]) == 0
    made = (here / "new.spprof").read_bytes()
    assert len(Profile(made)) in range(1, len(Profile(whole))) and (here / "in.spprof").read_bytes() == whole
    for out in ("other.spprof", "in.spprof"):
        assert main(["convert", "in.spprof", *words, "-o", out, *(["--force"] if out == "in.spprof" else [])]) == 0
        assert (here / out).read_bytes() == made
    with pytest.raises(spprof.BadOption, match="is what is read"):
        Profile.load("new.spprof").save("new.spprof", thread="Main")
    assert (here / "new.spprof").read_bytes() == made


@pytest.mark.parametrize("words", [["--thread", "zzz"], ["--from", "0.005", "--to", "0.006"]], ids=" ".join)
def test_a_filter_that_leaves_nothing_says_what_there_is(here, words, capsys):
    before = tree(here)
    for verb in (["convert", "in.spprof", "-o", "out.html"], ["report", "in.spprof"]):
        assert main([*verb, *words]) == 2
        said = capsys.readouterr().err
        assert ("the profile has: #wor;ker, Main" if "--thread" in words else "no sample is from 0.005 s, to 0.006 s") in said
        assert tree(here) == before


# ---- files with names that nobody gives: pytest's plugin, the middlewares. (Jupyter's magics write no file.)


def by_pytest(here, format, *more):
    (here / "test_one.py").write_text("def test_one():\n    for i in range(300_000): pass\n")
    words = ["-p", "no:cacheprovider", "-p", "spprof.integrations.pytest_plugin", "--spprof", "--spprof-format", format, *more]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", *words, "--spprof-dir", "out", "test_one.py"]
    before = tree(here)
    done = subprocess.run(
        command, cwd=here, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False
    )
    return before, done.returncode, done.stdout


@pytest.mark.parametrize("format", ["spprof", "html"])
@pytest.mark.parametrize(
    "there", [nothing, own, empty, pytest.param(link, marks=posix), pytest.param(link_to_nothing, marks=posix)]
)
def test_pytest_writes_whole(here, format, there):
    path = here / "out" / f"session.{format}"
    path.parent.mkdir()
    there(path)
    before, code, said = by_pytest(here, format)
    assert code == 0 and is_whole("run spprof" if format == "spprof" else "convert", path), said
    after = tree(here)
    changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    assert changed == {f"out/there/{path.name}" if path.is_symlink() else f"out/{path.name}"}
    assert all(before[name][:2] == after[name][:2] for name in changed & {*before})


@pytest.mark.parametrize("format", ["spprof", "html"])
@pytest.mark.parametrize("there", [each for each in REFUSED if each is not gone])
def test_pytest_replaces_nothing_of_others(here, format, there):
    path = here / "out" / f"session.{format}"
    path.parent.mkdir()
    there(path)
    before, code, said = by_pytest(here, format)
    assert path.name in said and "Traceback" not in said and "INTERNALERROR" not in said, said
    assert code != 0 or "1 passed" in said
    assert tree(here) == before


@pytest.mark.parametrize("there", [nothing, folder, foreign, pytest.param(link_to_foreign, marks=posix)])
def test_a_middleware_writes_beside_what_is_there(here, there, caplog):
    """A folder of its own, or one that others use: the answer is the same, and what cannot be written is logged."""
    from spprof.integrations.wsgi import SpprofMiddleware

    there(here / "out")
    if there is folder:
        (here / "out" / "letter.spprof").write_text("a letter\n")
    before = tree(here)

    def app(environ, start_response):
        sum(range(300_000))
        start_response("200 OK", [])
        return [b"done"]

    middleware = SpprofMiddleware(app, slower_than=0, folder="out")
    try:
        body = middleware({"REQUEST_METHOD": "GET", "PATH_INFO": "/one"}, lambda *args: None)
        assert b"".join(body) == b"done"
    finally:
        middleware.recorder.finish()
    after = tree(here)
    assert {name: each for name, each in after.items() if name in before} == before
    made = [name for name in after.keys() - before.keys() if name != "out"]
    if there in (nothing, folder):
        (name,) = made
        assert is_whole("convert", here / name)
    else:
        assert not made and "was not written" in caplog.text
