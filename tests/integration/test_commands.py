"""`spprof run` takes what a shell takes: commands of the PATH, console scripts of other environments, interpreters, `env`. What
is compared with is the same command alone. The other environment has no spprof of its own."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import spprof
from spprof import Profile

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows starts programs in another way")
only_linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the recorder cannot come into such an interpreter")

# Works until the core that records it has samples: another one would have none.
TOOL = """
import sys, time
def job():
    import spprof
    wanted, late = spprof.stats()["taken"] + 10, time.monotonic() + 60  # only a hang reaches the minute
    while spprof.stats()["taken"] < wanted and time.monotonic() < late:
        until = time.monotonic() + 0.05
        while time.monotonic() < until: sum(range(999))
if sys.argv[-1] == "recorded": job()
print(sys.prefix, sys.argv[:-1], sys.stdin.read())
sys.exit(7)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """An environment without spprof, a console script, and modules and folders that are called like commands."""
    place = tmp_path_factory.mktemp("commands")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place / "venv"], check=True)
    python = place / "venv/bin/python"
    files = {
        "x.py": TOOL,
        "venv/bin/mytool": f"#!{python}\n{TOOL}",
        "x": f"#!{python}\n{TOOL}",
        "by-env": f"#!/usr/bin/env python\n{TOOL}",
        "closed": f"#!{python} -I\n{TOOL}",
        "wrapper": '#!/bin/sh\npython x.py "$@"\nexit $?\n',
        "two": '#!/bin/sh\npython x.py "$@"\npython second.py\nexit $?\n',
        "moved": "#!/nowhere/python\n",
        "second.py": "def second(): pass\nsecond()\n",
        "mytool/__init__.py": "",
    }
    for name, text in files.items():
        (place / name).parent.mkdir(exist_ok=True)
        (place / name).write_text(text)
        (place / name).chmod(0o644 if name.endswith(".py") else 0o755)
    return place


def environment(place):
    clean = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    return {**clean, "PATH": f"{place / 'venv/bin'}{os.pathsep}{os.defpath}"}


def names(path):
    return {row.name for row in Profile.load(path).functions()}


def started(place, words, **more):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(words, cwd=place, env=environment(place), **{**pipes, **more})


def ran(place, words):
    with started(place, words) as process:
        out, err = process.communicate("what stdin has", timeout=120)
    return process.returncode, out, err


def run(place, *words):
    return ran(place, [sys.executable, "-m", "spprof", "run", *words])


WAYS = [
    ["mytool", "first", "HOW"],
    ["./venv/bin/mytool", "HOW"],
    ["./x", "HOW"],
    ["./by-env", "HOW"],
    ["python", "x.py", "HOW"],
    ["python", "-c", TOOL, "HOW"],
    ["python", "-m", "x", "HOW"],
    ["./venv/bin/python", "-OX", "utf8", "x.py", "HOW"],
    ["env", "A=1", "python", "x.py", "HOW"],
    ["env", "mytool", "HOW"],
    ["sh", "-c", "python x.py HOW"],
    ["./wrapper", "HOW"],
    pytest.param(["./closed", "HOW"], marks=only_linux),
    pytest.param(["python", "-I", "x.py", "HOW"], marks=only_linux),
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: " ".join(way[:-1]).replace(TOOL, "CODE"))
def test_a_command_is_recorded_where_it_runs_alone(place, tmp_path, way):
    alone, words = ([word.replace("HOW", how) for word in way] for how in ("alone", "recorded"))
    expected = ran(place, alone)
    assert expected[0] == 7 and expected[1].startswith(f"{place / 'venv'} ") and "what stdin has" in expected[1]
    assert run(place, "-q", "-o", str(tmp_path / "p.spprof"), *words) == expected
    profile = Profile.load(tmp_path / "p.spprof")
    assert profile.end["reason"] == "stop" and "job" in names(tmp_path / "p.spprof")


@pytest.mark.parametrize("words", [["x.py"], ["mytool"], ["-c", TOOL], ["-m", "x"]], ids=["script", "command", "code", "module"])
def test_another_interpreter_is_chosen(place, tmp_path, words):
    for python in ("venv/bin/python", "python"):
        code, out, err = run(place, "-q", "-o", str(tmp_path / "p.spprof"), "--python", python, *words, "recorded")
        assert (code, out.split()[0], err) == (7, str(place / "venv"), "")
        assert "job" in names(tmp_path / "p.spprof")


def test_a_command_waits_for_its_profile_and_is_called_after_its_program(place, tmp_path):
    for words in (["./wrapper"], ["mytool"]):
        command = [sys.executable, "-m", "spprof", "run", "-q", "-o", tmp_path / "p.html", *words, "recorded"]
        nobody = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)  # also not for the supervisor's end
        with started(place, command, **nobody) as process:
            assert process.wait(120) == 7
            os.unlink(tmp_path / "p.html")  # is there
    _, _, err = run(place, "env", "A=1", "python", "x.py", "recorded")
    (found,) = place.glob("*.spprof")
    assert found.name.startswith("x.") and f"Written: {found.name}" in err and "background" not in err
    found.unlink()


def test_the_first_python_of_a_command_is_the_program_and_others_are_its_children(place, tmp_path):
    for options in ([], ["--subprocesses"]):
        code, _, err = run(place, "-q", *options, "-o", str(tmp_path / "p.spprof"), "./two", "recorded")
        assert (code, err) == (0, "") and "job" in names(tmp_path / "p.spprof")
        children = [Profile.load(path).header["begun"] for path in tmp_path.glob("p.*.spprof")]
        assert children == (["child"] if options else [])


def test_signals_are_the_commands(place, tmp_path):
    (place / "forever.py").write_text("import time\nprint('ready', flush=True)\nwhile True: time.sleep(9)\n")
    words = [sys.executable, "-m", "spprof", "run", "-q", "-o", str(tmp_path / "p.spprof")]
    with started(place, [*words, "env", "A=1", "python", "forever.py"]) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == -signal.SIGTERM


REFUSED = [
    (["email"], "cannot open 'email': No such file or directory, and there is no such command\n"),
    (["nosuch"], "cannot open 'nosuch': No such file or directory, and there is no such command\n"),
    (["./moved"], "./moved names /nowhere/python, which is not there: spprof run --python PYTHON ./moved\n"),
    (["--live", "./wrapper"], "wrapper is no Python: spprof run --live python ...\n"),
    (["--python", "nosuch", "x.py"], "--python nosuch: there is no such interpreter\n"),
    (["--python", "python", "sh"], "is not Python source, but a binary file\n"),
]


@pytest.mark.parametrize("words, said", REFUSED, ids=lambda each: " ".join(each) if isinstance(each, list) else "")
def test_what_cannot_run_is_refused_in_one_line(place, words, said):
    before = set(place.iterdir())
    code, out, err = run(place, *words)
    assert (code, out) == (2, "") and err.endswith(said) and err.count("\n") == 1
    assert set(place.iterdir()) == before


def test_a_command_without_python_says_that_nothing_was_recorded(place, tmp_path):
    code, _, err = run(place, "-o", str(tmp_path / "p.spprof"), "env", "-i", "sh", "-c", "exit 3")
    assert code == 3 and "nothing was recorded: env started no Python" in err


@pytest.fixture
def other(tmp_path):
    """spprof's package with a core for an interpreter that nobody has."""
    package = shutil.copytree(
        Path(spprof.__file__).parent, tmp_path / "site/spprof", ignore=shutil.ignore_patterns("__pycache__")
    )
    (core,) = package.glob("_core.c*")
    core.rename(package / "_core.cpython-30-of-nobody.so")
    return tmp_path / "site"


@pytest.mark.parametrize("owner, code", [("0", 2), ("1", 0)], ids=["program", "child"])
def test_an_interpreter_without_a_core_says_which_there_are(place, other, owner, code):
    fields = [spprof.__version__, owner, "-1", "run"]
    more = {"PYTHONPATH": str(other / "spprof/launching/startup"), "SPPROF_RECORD": "\x1f".join(fields)}
    python = [str(place / "venv/bin/python"), "-c", "print('ran')"]
    done = subprocess.run(python, env={**environment(place), **more}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stdout) == (code, "" if code else "ran\n") and done.stderr.count("\n") == 1
    assert ("has cores for CPython 3.0: install spprof there" in done.stderr) == (code == 2)


def test_without_a_core_importing_works_and_starting_says_why(place, other):
    code = "import spprof\ntry: spprof.start()\nexcept spprof.Unsupported as error: print(error)"
    env = {**environment(place), "PYTHONPATH": str(other)}
    done = subprocess.run([place / "venv/bin/python", "-c", code], env=env, stdout=subprocess.PIPE, text=True)
    assert "this spprof has cores for CPython 3.0\n" in done.stdout


@pytest.mark.parametrize("found", [True, False], ids=["by the PATH", "by its path"])
def test_an_active_environment_is_meant_if_spprof_is_found_on_the_path(place, tmp_path, found):
    script = tmp_path / "spprof"
    script.write_text(f"#!{sys.executable}\nimport sys\nfrom spprof.cli import main\nsys.exit(main())\n")
    script.chmod(0o755)
    path = f"{tmp_path if found else place}{os.pathsep}{os.defpath}"
    env = {**environment(place), "VIRTUAL_ENV": str(place / "venv"), "PATH": path}
    words = [shutil.which("spprof", path=path) or script, "run", "-q", "-o", "p.spprof", "-c", "import sys; print(sys.prefix)"]
    done = subprocess.run(words, cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True)
    assert done.stdout == f"{place / 'venv' if found else sys.prefix}\n"


@pytest.mark.parametrize("version, recorder", [(spprof.__version__, "its own"), ("0.0.1", "ours")])
def test_a_program_that_has_the_same_spprof_is_recorded_by_that(tmp_path, version, recorder):
    """So that it has one core, and what it asks of it is about its profile. One of another version would not understand ours."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    (site,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    shutil.copytree(Path(spprof.__file__).parent, site / "spprof", ignore=shutil.ignore_patterns("__pycache__"))
    (site / f"spprof-{version}.dist-info").mkdir()
    code = "import spprof; print(spprof.__file__, spprof.is_active())"
    done = run(tmp_path, "-q", "-o", "p.spprof", tmp_path / "venv/bin/python", "-c", code)
    assert done == (0, f"{site / 'spprof/__init__.py'} {recorder == 'its own'}\n", "")
    assert Profile.load(tmp_path / "p.spprof").end["reason"] == "stop"
