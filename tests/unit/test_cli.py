"""`spprof run` beside plain `python`: the same program must not see a difference."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from switches import native_frames
from wine import WINE

from spprof import Profile

NO_PROCESS = str(1 << 30)  # more than there can be
NO_SERVER = "'nosuchserver' is no process id, and in no command line"
if sys.platform != "linux":
    NO_SERVER = "spprof attaches to processes on Linux alone"

SHOW = """
import json, sys
main = sys.modules["__main__"]
spec = main.__spec__
print(json.dumps({
    "argv": sys.argv, "path": sys.path, "name": __name__, "file": globals().get("__file__"), "package": __package__,
    "spec": spec and [spec.name, spec.origin], "loader": getattr(__loader__, "__name__", type(__loader__).__name__),
    "globals": sorted(globals()), "is main": main.__dict__ is globals(), "code": sys._getframe().f_code.co_filename,
    "depends": globals().get("__cached__"),
}))
"""


def run(command, cwd, stdin="", **more):
    return subprocess.run([sys.executable, *command], cwd=cwd, input=stdin, capture_output=True, text=True, timeout=60, **more)


def both(cwd, *target, flags=(), stdin=""):
    """The program alone and under spprof: exit code and stdout must be equal. Gives the latter run."""
    alone = run([*flags, *target], cwd, stdin)
    profiled = run([*flags, "-m", "spprof", "run", "-q", "-o", "p.spprof", *target], cwd, stdin)
    assert (profiled.returncode, profiled.stdout) == (alone.returncode, alone.stdout)
    return alone, profiled


@pytest.fixture
def place(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "show.py").write_text(SHOW)
    (tmp_path / "link.py").symlink_to(Path("sub", "show.py"))
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("import sys; print(sys.argv)")
    (tmp_path / "pkg" / "__main__.py").write_text(SHOW)
    (tmp_path / "pkg" / "inner.py").write_text(SHOW)
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.writestr("__main__.py", SHOW)
    return tmp_path


TARGETS = [
    ["sub/show.py"],
    ["./sub/../link.py", "-o", "--mode", "x", "--", "-m"],
    ["-m", "pkg", "-q"],
    ["-m", "pkg.inner", "--help"],
    ["-c", SHOW, "-c", "--m"],
    ["pkg"],
    ["app.zip", "1"],
]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: " ".join(target)[:20].strip())
def test_the_program_sees_what_it_would_see_alone(place, target):
    if WINE and "link.py" in target[0]:
        pytest.skip("wine 8 makes no symbolic links")
    alone, profiled = both(place, *target)
    assert json.loads(alone.stdout.splitlines()[-1])["is main"]
    assert profiled.stderr == alone.stderr == ""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process is not called after a script")
def test_the_process_has_the_name_that_it_would_have_alone(place):
    """Threads inherit it: those to which a library gives no name were called `spprof`, as if they were ours."""
    script = place / "spprof"
    script.write_text(f"#!{sys.executable}\nimport sys\nfrom spprof.cli import main\nsys.exit(main())\n")
    script.chmod(0o755)
    (place / "name.py").write_text("print(open('/proc/self/comm').read())")
    alone = subprocess.run([sys.executable, "name.py"], cwd=place, capture_output=True, text=True, timeout=60)
    ran = subprocess.run([script, "run", "-q", "name.py"], cwd=place, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout) == (0, alone.stdout), ran.stderr


@pytest.mark.skipif(sys.version_info < (3, 11), reason="-P is of 3.11")
@pytest.mark.parametrize("target", [["sub/show.py"], ["-c", SHOW], ["app.zip"]], ids=["script", "code", "zip"])
def test_safe_path(place, target):
    alone = run(["-P", *target], place)
    profiled = run(["-P", "-m", "spprof", "run", "-q", *target], place, env={**os.environ})
    assert profiled.stdout == alone.stdout


@pytest.mark.parametrize(
    "code",
    ["import sys; sys.exit(7)", "import sys; sys.exit('bye')", "import sys; sys.exit()", "raise SystemExit(None)", "1/0", "x = (",
     "import atexit; atexit.register(print, 'bye')", "import sys; print(sys.stdin.read())", "import os; os._exit(9)",
     "import threading, time; threading.Thread(target=lambda: (time.sleep(.1), print('late'))).start()",
     "import sys; sys.excepthook = lambda *a: print('mine', a[0]); 1/0",
     "import sys; sys.excepthook = None; 1/0"],
)  # fmt: skip
def test_ends_as_it_would_alone(tmp_path, code):
    (tmp_path / "x.py").write_text(code)
    alone, profiled = both(tmp_path, "x.py", stdin="line\n")
    # 3.9 words a syntax error of a file otherwise, and a broken hook is reported in words of the interpreter's own.
    if "None" not in code and (code != "x = (" or sys.version_info >= (3, 10)):
        assert profiled.stderr == alone.stderr
    if "os._exit" not in code:
        assert Profile.load(tmp_path / "p.spprof").end is not None or code == "x = ("


def test_chained_tracebacks_show_no_frame_of_ours(tmp_path):
    (tmp_path / "x.py").write_text("def f():\n  try: 1/0\n  except Exception as e: raise KeyError(3) from e\nf()\n")
    alone, profiled = both(tmp_path, "x.py")
    assert profiled.stderr == alone.stderr


def test_encoding_cookie_and_pyc(tmp_path):
    (tmp_path / "x.py").write_bytes("# -*- coding: latin-1 -*-\nprint(ascii('é'))\n".encode("latin-1"))
    both(tmp_path, "x.py")
    import py_compile

    py_compile.compile(str(tmp_path / "x.py"), cfile=str(tmp_path / "y.pyc"))
    alone, _ = both(tmp_path, "y.pyc")
    assert "xe9" in alone.stdout


def test_multiprocessing_finds_the_program(tmp_path):
    ways = ("spawn",) if os.name == "nt" else ("spawn", "fork")
    (tmp_path / "x.py").write_text(
        "import multiprocessing as m\ndef f(x): return x + 1\n"
        "if __name__ == '__main__':\n"
        f"  for how in {ways}:\n"
        "    with m.get_context(how).Pool(1) as pool: print(pool.map(f, [1, 2]))\n"
    )
    alone, profiled = both(tmp_path, "x.py")
    # CPython 3.12+ counts our drain thread too and warns (where warnings are shown: a debug build). docs/troubleshooting.md
    stderr = re.sub(r".*DeprecationWarning: This process .* is multi-threaded.*\n.*os\.fork\(\)\n", "", profiled.stderr)
    assert alone.stdout == "[2, 3]\n" * len(ways) and stderr == alone.stderr


BUSY = "import sys, time\ndef spin():\n  while 1: sum(range(99))\nprint('ready', flush=True)\nspin()\n"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGKILL", 0)])
def test_signals(tmp_path, number):
    (tmp_path / "x.py").write_text(BUSY)
    command = [sys.executable, "-m", "spprof", "run", "-o", "p.spprof", "x.py"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout.readline() == "ready\n"
            late = time.monotonic() + 60
            while time.monotonic() < late:  # `spin` too: the first samples may be of what went before it
                sampled = Profile.load(tmp_path / "p.spprof")
                if len(sampled) > 20 and "spin" in {row.name for row in sampled.functions()}:
                    break
                time.sleep(0.1)
            child.send_signal(number)
            _, errors = child.communicate(timeout=60)
        finally:
            child.kill()
    assert child.returncode == -number
    profile = Profile.load(tmp_path / "p.spprof")
    assert "spin" in {row.name for row in profile.functions()} and len(profile) > 20
    assert profile.end.get("cut", False) == (number == signal.SIGKILL) == ("had no time to finish the profile" in errors)
    assert "spin (x.py:2)" in errors
    assert "spprof/" not in errors.split("\n\n")[0]


# A program, or the part of one, that goes on until it has so many samples.
UNTIL_SAMPLED = "import spprof\nwanted = spprof.stats()['taken'] + 50\nwhile spprof.stats()['taken'] < wanted: sum(range(9999))"


def test_summary_file_names_and_report(tmp_path):
    (tmp_path / "x.py").write_text("def work():\n  " + UNTIL_SAMPLED.replace("\n", "\n  ") + "\nwork()\n")
    done = run(["-m", "spprof", "run", "x.py"], tmp_path)
    assert done.stdout == "" and done.returncode == 0
    (name,) = [each for each in os.listdir(tmp_path) if each.endswith(".spprof")]
    assert name.startswith("x.") and name in done.stderr
    for part in ("work (x.py:1)", "On CPU:", "Clock: ", " Hz real"):
        assert part in done.stderr
    verbose = run(["-m", "spprof", "report", "-v", name], tmp_path).stdout
    assert re.search(r"^Ticks: [\d,]+ expected = [\d,]+ taken", verbose, re.M) and "not accounted for" not in verbose
    report = run(["-m", "spprof", "report", name, "--sort", "total", "--limit", "1"], tmp_path)
    assert report.returncode == 0 and report.stdout.count(" (x.py:1)") == 1 and "... " in report.stdout
    missing = run(["-m", "spprof", "report", name, "--thread", "nobody"], tmp_path)
    assert missing.returncode == 2 and "MainThread" in missing.stderr
    reported = [line for line in done.stderr.splitlines() if " samples. Your own code" in line]
    assert reported == run(["-m", "spprof", "report", name, "--python-only"], tmp_path).stdout.splitlines()[:1]
    for option in "--native-only", "--native-calls":
        refused = run(["-m", "spprof", "report", name, option], tmp_path)
        assert refused.returncode == 2 and "no native frames" in refused.stderr and refused.stdout == ""


@pytest.mark.skipif(not native_frames(), reason="there are no native frames here")
def test_report_of_native_frames(tmp_path):
    # On Windows zlib is a part of Python's own library, whose functions are not shown: those that it calls are.
    library = r"\[\w+\.dll" if os.name == "nt" else r"\[libz"
    (tmp_path / "x.py").write_text(
        "import zlib; import spprof; wanted = spprof.stats()['taken'] + 100\n"
        "while spprof.stats()['taken'] < wanted:\n  zlib.compress(bytes(99999))\n"
    )
    assert run(["-m", "spprof", "run", "--native", "-q", "-o", "p.spprof", "x.py"], tmp_path).returncode == 0
    report = {option: run(["-m", "spprof", "report", "p.spprof", "--limit", "200", *option.split()], tmp_path).stdout
              for option in ("", "--python-only", "--native-only", "--native-calls")}  # fmt: skip
    assert re.search(library, report[""]) and "<module> (x.py:1)" in report[""]
    assert not re.search(library, report["--python-only"]) and "<module> (x.py:1)" in report["--python-only"]
    assert re.search(library, report["--native-only"]) and "x.py" not in report["--native-only"]
    assert re.search(rf"<module> \(x\.py:3\) > .*{library}", report["--native-calls"])


def test_waiting_is_pointed_out(tmp_path):
    code = "import time; time.sleep(.1 + 3 * time.process_time())"  # however long a slow machine took to come here
    assert "--mode wall" in run(["-m", "spprof", "run", "-c", code], tmp_path).stderr
    done = run(["-m", "spprof", "run", "--mode", "wall", "-c", code], tmp_path)
    assert "--mode wall" not in done.stderr and " of threads' time" in done.stderr


def test_formats_and_conversion(tmp_path):
    done = run(["-m", "spprof", "run", "-q", "-f", "speedscope", "-c", UNTIL_SAMPLED], tmp_path)
    assert done.stderr == ""
    (name,) = os.listdir(tmp_path)
    assert name.startswith("command.") and name.endswith(".speedscope.json")
    assert json.loads((tmp_path / name).read_text())["profiles"]
    run(["-m", "spprof", "run", "-q", "-o", "p.spprof", "-c", UNTIL_SAMPLED], tmp_path)
    done = run(["-m", "spprof", "convert", "p.spprof", "-f", "collapsed", "-o", "-", "--merge-threads"], tmp_path)
    assert re.search(r"^<module> \(<string>:3\) \d+$", done.stdout, re.M)
    assert run(["-m", "spprof", "convert", "p.spprof", "-o", "x.collapsed", "--weight", "value"], tmp_path).returncode == 0
    assert (tmp_path / "x.collapsed").read_text().startswith("MainThread;")


# How long to sample a program that must be sampled meanwhile: on a full machine the first may be too short.
LONG_ENOUGH = (0.5, 4, 16)


def test_duration(tmp_path):
    for duration in LONG_ENOUGH:
        folder = tmp_path / str(duration)
        folder.mkdir()
        (folder / "x.py").write_text(
            f"import os, time\nend = time.time() + {duration} + 20\n"
            "while not (os.path.exists('p.collapsed') and os.path.getsize('p.collapsed')) and time.time() < end: pass\n"
            "def after():\n  for i in range(999): sum(range(999))\nafter()\nprint('done')\n"
        )
        done = run(["-m", "spprof", "run", "-q", "--duration", str(duration), "-o", "p.collapsed", "x.py"], folder)
        assert done.stdout == "done\n" and done.stderr == ""
        assert sorted(os.listdir(folder)) == ["p.collapsed", "x.py"]
        stacks = (folder / "p.collapsed").read_text()
        assert "after" not in stacks
        if "<module>" in stacks:
            return
    pytest.fail("it was never sampled")


def test_delay_and_duration_are_a_window(tmp_path):
    (tmp_path / "x.py").write_text(
        "import time, spprof\nend = time.time() + 40\n"
        "def within():\n  while spprof.is_active() and time.time() < end: sum(range(999))\n"
        "def late():\n  for i in range(999): sum(range(999))\n"
        "within()\nlate()\nprint('done' if time.time() < end else 'never over')\n"
    )
    for duration in LONG_ENOUGH:
        window = ["--delay", "0.5", "--duration", str(duration)]
        done = run(["-m", "spprof", "run", "-q", *window, "-o", "p.spprof", "x.py"], tmp_path)
        assert (done.stdout, done.stderr) == ("done\n", "")
        profile = Profile.load(tmp_path / "p.spprof")
        names = {frame.name for frames in profile.aggregate() for frame in frames}
        assert "late" not in names
        # A tick may come before it has paused, but not of the program: that begins afterwards. A clock has its steps.
        programs = [sample for sample in profile.samples() if any(frame.file.endswith("x.py") for frame in sample.frames)]
        assert all(sample.timestamp_ns - profile.header["start_ns"] > 480_000_000 for sample in programs)
        if "within" in names:
            return
    pytest.fail("it was never sampled")


WORDS = [
    "x.py", "x.py -q --rate 7 -m n", "-q x.py a --b", "-v -o p.spprof x.py", "--quiet -- x.py", "-m json.tool -q", "-c pass -v",
    "--rate 5 x.py", "--rate=5e1 x.py", "--interval 2 x.py", "--rate 5 --interval 2 x.py", "--rate 5 --rate 6 x.py", "-q -v x.py",
    "-qv x.py", "-op.html x.py", "-o=p.html x.py", "-o - x.py", "-o -v x.py", "-o", "--output p -f html --force -", "- a b", "",
    "--native x.py", "--native=leaf x.py", "--native=full -m a b", "--native=no x.py", "--mode wall x.py", "--mode=walk x.py",
    "--max-depth 3.9 x.py", "--limit 0 x.py", "--limit -1 x.py", "--duration 1 --delay 2 --live x.py", "-h", "--mod wall x.py",
    "--thread *a* --merge-threads --clock timer x.py", "--no x.py", "-mjson.tool a", "-cpass", "--quiet=1 x.py", "-m", "-c -m x",
    "-o p -- -c pass",
]  # fmt: skip


@pytest.mark.parametrize("words", WORDS)
def test_what_is_parsed_quickly_is_what_argparse_says(words, capsys):
    from spprof.cli import _parser, _quick
    from spprof.cli import run as verb

    argv = ["run", *words.split()]
    quick = _quick.parsed(verb, argv)
    try:
        options = vars(_parser.parse(argv))
    except SystemExit:
        options = None
    else:
        del options["parser"]
    if quick is None:
        rare = ("-o p -- -c pass", "--quiet -- x.py", "-qv x.py", "-op.html x.py", "-mjson.tool a", "-cpass")
        assert options is None or words in rare
    else:
        none = {"module": (None, []), "code": (None, []), "script": (None, [])}
        assert {k: v for k, v in vars(quick).items() if k not in none} == {k: v for k, v in options.items() if k not in none}
        assert all(getattr(quick, k) == options[k] or {repr(getattr(quick, k)), repr(options[k])} <= {"None", "[]"} for k in none)


ATTACH_WORDS = [
    "4711", "4711 -q --duration 0.3", "--mode wall 4711", "--rate=5e1 -o p.html 4711 --force", "gunicorn --subprocesses", "",
    "-q", "4711 4712", "0", "4711 --duration", "4711 --duration 0", "4711 --delay 1", "--native=leaf 4711 -v", "4711 -q -v",
]  # fmt: skip


@pytest.mark.parametrize("words", ATTACH_WORDS)
def test_what_attach_parses_quickly_is_what_argparse_says(words, capsys):
    from spprof.cli import _parser, _quick
    from spprof.cli import attach as verb

    argv = ["attach", *words.split()]
    quick = _quick.parsed(verb, argv)
    try:
        options = vars(_parser.parse(argv))
    except SystemExit:
        assert quick is None
    else:
        del options["parser"]
        assert quick is not None and vars(quick) == options


def test_a_program_waits_for_no_parser(tmp_path):
    """... nor for what else takes long to import: when it begins, its supervisor has none of it."""
    code = (
        "import os, sys\nbefore = set(sys.modules)\nfrom spprof.launching import supervisor\n"
        "name = 'in_place' if hasattr(os, 'fork') else 'Child'\nstart = getattr(supervisor, name)\n"
        "def look(*given):\n  late = {'argparse', 're', 'enum', 'typing', 'json', 'shutil'}\n"
        "  print(late & (set(sys.modules) - before))\n  return start(*given)\n"
        "setattr(supervisor, name, look)\nsys.argv[1:] = ['run', '-o', 'p.spprof', '-c', 'pass']\n"
        "from spprof.cli import main\nsys.exit(main())\n"
    )
    (tmp_path / "x.py").write_text(code)
    done = run(["x.py"], tmp_path)
    assert done.stdout.splitlines()[:1] == ["set()"], done.stdout + done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="spprof attaches on Linux alone")
def test_the_first_sample_of_attach_waits_for_no_such_module(tmp_path):
    """Those that take 2 to 4 ms each; a standard library of later may import them for `ctypes`."""
    code = (
        "import ctypes, select, sys\nbefore = set(sys.modules)\n"
        "import spprof.cli.attach, spprof.launching.attach, spprof.launching.entering\n"
        "late = {'argparse', 're', 'enum', 'typing', 'json', 'shutil', 'signal', 'socket', 'subprocess', 'zlib'}\n"
        "print(late & (set(sys.modules) - before))\n"
    )
    (tmp_path / "x.py").write_text(code)
    done = run(["x.py"], tmp_path)
    assert done.stdout == "set()\n", done.stdout + done.stderr


def test_a_program_that_ends_before_the_delay(tmp_path):
    (tmp_path / "x.py").write_text("print('done')")
    done = run(["-m", "spprof", "run", "--delay", "1000", "-o", "p.spprof", "x.py"], tmp_path)
    assert done.stdout == "done\n" and "ended before --delay" in done.stderr


@pytest.mark.parametrize(
    "command, code, words",
    [
        (["run"], 2, "SCRIPT"),
        (["run", "nosuch.py"], 2, "nosuch.py"),
        (["run", "-m", "nosuch"], 1, "No module named nosuch"),
        (["run", "--rate", "30000", "x"], 2, "1 to 20,000"),
        (["run", "--rate", "abc", "x"], 2, "'abc' is no number: give 1 to 20,000 samples a second"),
        (["run", "--interval", "nan", "x"], 2, "milliseconds"),
        (["run", "--duration", "-1", "x.py"], 2, "above 0"),
        (["run", "--delay", "0", "x.py"], 2, "above 0"),
        (["run", "--max-depth", "0", "x.py"], 2, "1 to 4,096 frames"),
        (["run", "--limit", "-3", "x.py"], 2, "0 or more"),
        (["run", "--bogus", "x.py"], 2, "spprof run: error: there is no option --bogus"),
        (["run", "--python", "nosuch", "x.py"], 2, "there is no such interpreter"),
        (["run", "-o", "x.png", "x.py"], 2, "ends with none of .spprof, .html"),
        (["run", "-o", "out.json", "x.py"], 2, ".speedscope.json"),
        (["run", "--interval", "0.01", "x"], 2, "out of range"),
        (["run", "--clock", "sundial", "x"], 2, "sundial"),
        (["run", "-o", "no/p.spprof", "x"], 2, "cannot write"),
        (["run", "-o", "-", "x"], 2, "convert"),
        (["report", "nosuch.spprof"], 2, "nosuch.spprof"),
        (["convert", "x.py", "-f", "collapsed", "-o", "y"], 2, "not a .spprof file"),
        (["convert", "x.py"], 2, "-o"),
        (["convert", "x.py", "--from", "soon", "-o", "y.html"], 2, "seconds from the profile's start"),
        (["report", "x.py", "--limit", "-3"], 2, "0 or more"),
        (["diff", "x.py", "x.py", "--limit", "-3"], 2, "0 or more"),
        (["report", "4711"], 2, "a process id"),
        (["dump", NO_PROCESS], 2, f"no process {NO_PROCESS}"),
        (["dump", "--nonblocking", "p.spprof"], 2, "--nonblocking is for processes"),
        (["dump", "--locals", "p.spprof"], 2, "--locals is for processes"),
        (["x.py"], 2, "spprof run x.py"),
        (["reprot"], 2, "did you mean `spprof report`?"),
        (["p.spprof"], 2, "spprof report p.spprof"),
        (["frobnicate"], 2, "the verbs are run, attach, ctl, top, live"),
        (["record", "x.py"], 2, "`spprof run script.py` or `spprof attach PID`"),
        (["top", "nosuchserver"], 2, NO_SERVER),
        (["attach", "0"], 2, "'0' is no process id: `spprof ps` lists them"),
        (["stat"], 2, "there is no verb 'stat'"),
        (["--versoin"], 2, "there is no option --versoin; did you mean --version?"),
        (["--frobnicate", "x.py"], 2, "there is no option --frobnicate; spprof VERB comes first"),
        (["run", "--pid", "4711"], 2, "there is no option --pid: `spprof attach PID` profiles a process that runs already"),
        (["run", "--duratoin", "3", "x.py"], 2, "did you mean --duration?"),
        (["run", "--native=all", "x.py"], 2, "there is no --native=all; there is --native, --native=leaf, --native=full"),
        (["run", "--force=yes", "x.py"], 2, "there is no --force=yes; --force takes no value"),
        (["run", "--time", "x", "x.py"], 2, "spprof: --time x: give MODULE:QUALNAME"),
        (["run", "--time-cpu", "x.py"], 2, "spprof: --time-cpu: of which functions? Give them, such as --time shop.price:*"),
        (["run", "--calls=hot", "--event", "page-faults", "x.py"], 2, "spprof: --calls=hot: samples of time say"),
        (["run", "--mode", "wall", "--event", "page-faults", "x.py"], 2, "spprof: --mode wall is about time"),
        (["run", "--event", "", "x.py"], 2, "spprof: '' is no name of an event: `spprof run --event list`"),
        (["run", "frobnicate"], 2, "cannot open 'frobnicate': No such file or directory, and there is no such command"),
        (["report", "--mode", "wall", "x.py"], 2, "there is no option --mode: it is one of `spprof run`, `spprof attach`"),
        (["why", "--by", "line", "x.py"], 2, "there is no option --by: it is one of `spprof report`, `spprof diff`"),
        (["ps", "x.py"], 2, "there is no use for 'x.py'"),
        (["ctl", "p.spprof"], 2, "the following arguments are required: pause|resume|stop"),
        (["symbolize", "nosuch"], 2, "spprof: cannot open nosuch: No such file or directory\n"),
    ],
)
def test_usage_errors(tmp_path, command, code, words):
    (tmp_path / "x.py").write_text("pass")
    done = run(["-m", "spprof", *command], tmp_path)
    assert done.returncode == code and words in done.stderr and "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1 and done.stdout == "", "one line says what to do"
    assert os.listdir(tmp_path) == ["x.py"]


def test_alone_it_names_the_three_commands_that_people_need(tmp_path):
    done = run(["-m", "spprof"], tmp_path)
    commands = [line.split()[:2] for line in done.stdout.splitlines() if line.startswith("  spprof ")]
    assert (done.returncode, done.stderr, commands) == (2, "", [["spprof", "run"], ["spprof", "open"], ["spprof", "report"]])


def test_dump_finds_the_file_of_a_process_id(tmp_path):
    (tmp_path / f"server.{NO_PROCESS}.spprof").touch()
    assert f"here is server.{NO_PROCESS}.spprof" in run(["-m", "spprof", "dump", NO_PROCESS], tmp_path).stderr


@pytest.mark.parametrize("program", [SHOW, "import sys; print(sys.stdin.read())", "def f(): 1 / 0\nf()", "1 +", "exit(7)"])
def test_a_program_from_stdin_runs_as_python_runs_it(tmp_path, program):
    both(tmp_path, "-", "first", stdin=program)


@pytest.mark.parametrize(
    "words, better",
    [
        (["python9", "x.py"], "spprof run x.py"),
        (["timeit"], "spprof run -m timeit"),
        ([os.path.basename(sys.executable)], f"spprof run {sys.executable}"),
    ],
)
def test_what_is_not_on_the_path_is_pointed_at(tmp_path, words, better):
    done = run(["-m", "spprof", "run", *words], tmp_path, env={**os.environ, "PATH": str(tmp_path)})
    assert done.returncode == 2 and done.stderr.endswith(f": {better}\n")


def test_a_time_after_the_end_is_refused(tmp_path):
    (tmp_path / "x.py").write_text(UNTIL_SAMPLED)
    run(["-m", "spprof", "run", "-q", "-o", "p.spprof", "x.py"], tmp_path)
    for verb in (["report", "p.spprof"], ["convert", "p.spprof", "-o", "-"]):
        late = run(["-m", "spprof", *verb, "--from", "100"], tmp_path)
        assert (late.returncode, late.stdout) == (2, "") and "no sample is from 100 s" in late.stderr
        crossed = run(["-m", "spprof", *verb, "--from", "2", "--to", "1"], tmp_path)
        assert crossed.returncode == 2 and "not before" in crossed.stderr


@pytest.mark.parametrize("command", [[], ["run"], ["report"], ["diff"], ["convert"], ["symbolize"], ["dump"], ["ps"]])
def test_help_teaches_by_examples(tmp_path, command):
    done = run(["-m", "spprof", *command, "--help"], tmp_path)
    assert done.returncode == 0 and "examples:\n  spprof " in done.stdout
    for option in ("--version", "-V"):
        assert run(["-m", "spprof", option], tmp_path).stdout == "spprof 0.1.0\n"


def test_help_is_a_verb_too(tmp_path):
    """It fits a terminal: only words that cannot be broken are longer than 80 columns."""
    assert run(["-m", "spprof", "help"], tmp_path).stdout == run(["-m", "spprof", "--help"], tmp_path).stdout
    done = run(["-m", "spprof", "help", "run"], tmp_path, env={**os.environ, "COLUMNS": "80"})
    usage = done.stdout.split("examples:")[0]
    assert usage.startswith("usage: spprof run ") and max(map(len, usage.splitlines())) <= 80


def test_a_program_that_never_began_has_no_summary(tmp_path):
    """No table, no clock, no advice to look at it. Before the delay is over, no sample is taken whatever the machine does;
    that it was busy may be said."""
    (tmp_path / "x.py").write_text("x = (")
    done = run(["-m", "spprof", "run", "--delay", "1000", "x.py"], tmp_path)
    ours = done.stderr.split("\n\n")[-1].splitlines()
    assert [line.split()[0] for line in ours if "the machine was busy" not in line] == ["No", "Written:", "The"], done.stderr


def test_broken_pipe(tmp_path, data):
    (tmp_path / "p.spprof").write_bytes(data)
    command = [sys.executable, "-m", "spprof", "convert", "p.spprof", "-f", "speedscope", "-o", "-"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        child.stdout.close()  # nobody reads it
        errors = child.stderr.read()
        assert child.wait(60) in (0, 141) and errors == ""


def test_what_a_format_cannot_do_is_refused_before_the_program_runs(tmp_path):
    done = run(["-m", "spprof", "run", "-f", "chrome", "--merge-threads", "-c", "print('ran')"], tmp_path)
    assert (done.returncode, done.stdout, os.listdir(tmp_path)) == (2, "", [])
    assert "--merge-threads does not fit the format chrome: threads run at the same time" in done.stderr
