"""Names of scripts and outputs that are too long to have anything added, are no UTF-8, or hold separators and line ends: each
run has its profile, under a name that fits."""

import glob
import os
import subprocess
import sys

import pytest

from spprof import Profile

pytestmark = pytest.mark.skipif(os.name == "nt" or sys.platform == "darwin", reason="file systems that refuse such names")
PROGRAM = """
import os, sys
def work():
    for _ in range(30):
        sum([i * i for i in range(3000)])
if os.fork() == 0:
    work()
    sys.exit()
os.wait()
work()
if len(sys.argv) < 2:
    os.execv(sys.executable, [sys.executable, sys.argv[0], "again"])
print("ran")
"""
NAMES = {
    "long": "x" * 252 + ".py",
    "three bytes a letter": "\u65e5" * 84 + ".py",
    "cut within a letter": "x" + "\U0001f600" * 62 + "abc.py",
    "not UTF-8": "gr\udcf6n \udcff.py",
    "long and not UTF-8": "\udcff" * 252 + ".py",
    "a line end": "a\nb\r.py",
    "our separators": "a\x1db\x1ec\x1fd\x1d]e.py",
    "of the shell": "a b'\"*?[x];$(c)\\.py",
    "begins with a dash": "-c.py",
}


def run(folder, *words):
    done = subprocess.run([sys.executable, "-m", "spprof", "run", *words], cwd=folder, timeout=120, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    assert (done.returncode, done.stdout) == (0, b"ran\n"), done.stderr
    return done.stderr.decode("utf-8", "surrogateescape")


def profiles(folder):
    """The files that a run left, of which none is half done, by name."""
    left = sorted(set(os.listdir(folder)) - {"script"})
    assert not [name for name in left if name.endswith(".part")]
    assert all(len(os.fsencode(name)) <= 255 for name in left)
    return [os.path.join(folder, name) for name in left]


@pytest.fixture(params=list(NAMES))
def script(request, tmp_path):
    """A script of such a name, in a folder of its own, and an empty working folder."""
    name = NAMES[request.param]
    (tmp_path / "script").mkdir()
    path = os.path.join(str(tmp_path), "script", name)
    with open(os.open(path, os.O_CREAT | os.O_WRONLY), "w") as file:
        file.write(PROGRAM)
    (tmp_path / "work").mkdir()
    return path, str(tmp_path / "work"), os.path.splitext(name)[0]


def test_a_scripts_name(script):
    path, folder, stem = script
    said = run(folder, path)
    left = profiles(folder)
    assert len(left) == 2 and all(name.endswith(".spprof") for name in left), "one, and one of the program that followed"
    assert all(os.path.basename(name).startswith(stem[: min(len(stem), 40)]) for name in left)
    assert all(Profile.load(name).header["argv"][0] for name in left)
    assert said.count("\nWritten: ") == 2, said


def test_children_of_a_script_of_such_a_name(script):
    path, folder, _ = script
    said = run(folder, "--subprocesses", path)
    left = profiles(folder)
    assert len(left) == 4 and "Child processes: 2 files." in said, "two programs, and a child of each"
    assert sorted(Profile.load(name).header["begun"] for name in left) == ["child", "child", "run", "run"]


@pytest.mark.parametrize("format", ["speedscope", "html"])
def test_a_converted_profile_of_a_script_of_such_a_name(script, format):
    path, folder, _ = script
    run(folder, "-q", "-f", format, path)
    left = profiles(folder)
    assert len(left) == 2
    if format == "speedscope":
        assert [Profile.load(name).unit for name in left] == ["nanoseconds"] * 2


@pytest.fixture
def program(tmp_path):
    (tmp_path / "script").mkdir()
    path = tmp_path / "script" / "app.py"
    path.write_text(PROGRAM)
    (tmp_path / "work").mkdir()
    return str(path), str(tmp_path / "work")


@pytest.mark.parametrize("name", list(NAMES))
def test_an_outputs_name(name, program):
    path, folder = program
    wanted = NAMES[name][:-3]
    while len(os.fsencode(wanted)) > 255 - len(".spprof"):
        wanted = wanted[:-1]
    wanted = os.path.join(folder, wanted + ".spprof")
    run(folder, "--subprocesses", "-o", wanted, path)
    assert wanted in profiles(folder) and len(profiles(folder)) == 4
    run(folder, "-q", "-o", wanted, path)  # which replaces it
    assert Profile.load(wanted).header["begun"] == "run"
    page = wanted[: -len(".spprof")] + ".html"
    run(folder, "-q", "-o", page, path)
    assert page in profiles(folder)


def test_an_output_that_no_folder_takes(program):
    path, folder = program
    done = subprocess.run([sys.executable, "-m", "spprof", "run", "-o", "x" * 249 + ".spprof", path], cwd=folder, timeout=120,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 2 and "too long" in done.stderr and "ran" not in done.stdout and not os.listdir(folder)


@pytest.mark.parametrize("name", list(NAMES))
def test_convert_report_and_open(name, program):
    path, folder = program
    run(folder, "-q", "-o", "p.spprof", path)
    odd = NAMES[name][:-3]
    while len(os.fsencode(odd)) > 255 - len(".speedscope.json"):
        odd = odd[:-1]
    source = os.path.join(folder, odd + ".spprof")
    os.rename(os.path.join(folder, "p.spprof"), source)
    out = os.path.join(folder, odd + ".speedscope.json")
    command = [sys.executable, "-m", "spprof"]
    for words in (["convert", source, "-o", out], ["report", source], ["report", out], ["open", "--no-browser", source]):
        done = subprocess.run([*command, *words], timeout=120, capture_output=True)
        assert done.returncode == 0 and b"Traceback" not in done.stderr, done.stderr
        if words[0] == "open":
            for page in glob.glob(os.path.join(glob.escape(os.path.dirname(os.fsdecode(done.stdout))), "*.html")):
                os.unlink(page)
    assert Profile.load(out).unit == "nanoseconds"
