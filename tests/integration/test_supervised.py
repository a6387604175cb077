"""`spprof run`: the program's process is as `python` alone makes it, the recorder ends itself on every way out, and files are
whole or not touched. What is compared with is the same program alone. (Which process waits for which: test_beside.py.)"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import spprof
from spprof import Profile

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals, exec, descriptors: POSIX")
linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc")
FACTS = str(Path(__file__).parent.parent / "targets" / "facts.py")
SPPROF = ["-m", "spprof", "run"]


def run(command, cwd, **more):
    more.setdefault("timeout", 120)
    more.setdefault("input", None if "stdin" in more else "")
    return subprocess.run([sys.executable, *command], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)


def names(path):
    return {row.name for row in Profile.load(path).functions()}


@linux
@pytest.mark.parametrize("flags", [[], ["-O", "-X", "utf8", "-W", "ignore", "-u"]], ids=["plain", "flags"])
@pytest.mark.parametrize("env", [{}, {"PYTHONPATH": "/nowhere", "PYTHONHASHSEED": "7", "ONE": "1"}], ids=["env", "path"])
@pytest.mark.parametrize("how", ["script", "-m", "-c"])
def test_a_hundred_facts(tmp_path, flags, env, how):
    (tmp_path / "facts.py").write_text(Path(FACTS).read_text())
    target = {"script": ["facts.py"], "-m": ["-m", "facts"], "-c": ["-c", Path(FACTS).read_text()]}[how]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    pair = []
    for command in (
        [*flags, *target, "an argument", "-o"],
        [*flags, *SPPROF, "-q", "-o", "p.spprof", *target, "an argument", "-o"],
    ):
        done = run(command, tmp_path, env={**environment, **env}, input="what stdin has")
        assert (done.returncode, done.stderr) == (0, "")
        pair.append(json.loads(done.stdout))
    alone, recorded = pair
    assert sum(len(each) if isinstance(each, (list, dict)) else 1 for each in alone.values()) >= 100
    assert alone["stdin"] == "what stdin has" and alone.keys() == recorded.keys()
    assert alone["gc"][2] == 0 and recorded["gc"][2] == 1, "docs/program.md says so"
    for facts in pair:
        facts["gc"].pop(2)
        facts["status"].pop("SigQ")  # counts of the user's other processes
    assert {name: (alone[name], recorded[name]) for name in alone if alone[name] != recorded[name]} == {}
    assert Profile.load(tmp_path / "p.spprof").header["begun"] == "run"


WAYS_OUT = {
    "return": "pass",
    "sys.exit": "import sys; sys.exit(3)",
    "a message": "raise SystemExit('said')",
    "an exception": "def g(): 1 / 0\ng()",
    "os._exit": "import os; os._exit(4)",
    "in a thread": "import os, threading\nt = threading.Thread(target=os._exit, args=(5,)); t.start(); t.join()",
    "exit handlers cleared": "import atexit; atexit._clear()",
    "exit handlers run": "import atexit; atexit._run_exitfuncs()",
    "no collections": "import gc; gc.disable(); gc.callbacks.clear()",
    "a daemon thread": "import threading, time\nthreading.Thread(target=time.sleep, args=(99,), daemon=True).start()",
    "exit() of C": "import ctypes; ctypes.CDLL(None).exit(6)",
    "a syntax error": "1 +",
    "its own modules": "import sys\nfor name in list(sys.modules):\n  if 'thr' in name: del sys.modules[name]",
}


@pytest.mark.parametrize("how", list(WAYS_OUT))
def test_ways_out(tmp_path, how):
    (tmp_path / "x.py").write_text(WAYS_OUT[how])
    alone = run(["x.py"], tmp_path)
    done = run([*SPPROF, "-q", "-o", "p.spprof", "x.py"], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (alone.returncode, alone.stdout, alone.stderr)
    profile = Profile.load(tmp_path / "p.spprof")
    assert profile.end is not None and not profile.end.get("cut") and profile.unfinished is None


DEATHS = {"SIGTERM": False, "SIGKILL": True, "SIGSEGV": True, "SIGABRT": True, "SIGHUP": True, "SIGUSR1": True, "SIGALRM": True}


# Whether the kernel says to others than the parent how a process ended.
REPORTS = sys.platform == "linux" and tuple(map(int, os.uname().release.split(".")[:2])) >= (6, 15)


@pytest.mark.parametrize("name", list(DEATHS))
def test_deaths(tmp_path, name):
    (tmp_path / "x.py").write_text(f"import os, signal, time\nos.kill(os.getpid(), signal.{name})\ntime.sleep(99)\n")
    done = run([*SPPROF, "-o", "p.spprof", "x.py"], tmp_path)
    assert done.returncode == -getattr(signal, name)
    profile = Profile.load(tmp_path / "p.spprof")
    reason = profile.end["reason"]
    assert reason == name or (reason == "killed" and DEATHS[name] and not REPORTS)
    assert bool(profile.end.get("cut")) == DEATHS[name]
    assert (f"({reason}); up to 100 ms are missing" in done.stderr) == DEATHS[name]


CAUGHT = """
import signal, time
got = []
for name in NAMES:
    signal.signal(getattr(signal, name), lambda number, frame: got.append(number))
print("ready", flush=True)
while len(got) < len(NAMES): time.sleep(0.01)
print([signal.Signals(n).name for n in got], flush=True)
"""


def test_signals_sent_to_us_are_the_programs(tmp_path):
    sent = ["SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGWINCH", "SIGALRM", "SIGINT", "SIGQUIT"]
    (tmp_path / "x.py").write_text(CAUGHT.replace("NAMES", repr(sent)))
    command = [sys.executable, *SPPROF, "-q", "-o", "p.spprof", "x.py"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as ran:
        assert ran.stdout.readline() == "ready\n"
        for name in sent:
            ran.send_signal(getattr(signal, name))
        assert sorted(json.loads(ran.stdout.readline().replace("'", '"'))) == sorted(sent)
        assert ran.wait(timeout=60) == 0
    assert Profile.load(tmp_path / "p.spprof").end["reason"] == "stop"


@linux
def test_ctrl_c_again_and_again(tmp_path):
    """... on a terminal, which sends it to both, until the command has ended: the profile is where it was asked for, or a line
    says where it is."""
    import pty
    import termios

    (tmp_path / "x.py").write_text(
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\nprint('ready', flush=True)\nwhile True: pass\n"
    )
    for output in ("p.spprof", "p.html"):
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(tmp_path)
            os.execv(sys.executable, [sys.executable, *SPPROF, "-o", output, "x.py"])
        modes = termios.tcgetattr(terminal)
        modes[3] |= termios.NOFLSH  # what was said before a Ctrl-C stays
        termios.tcsetattr(terminal, termios.TCSANOW, modes)
        said = b""
        while True:
            try:
                said += os.read(terminal, 4096)
                if b"ready" in said:
                    os.write(terminal, b"\x03")
            except OSError:  # nobody has its other end
                break
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGINT
        assert b"Traceback" not in said, said
        (left,) = tmp_path.glob("p.*")
        assert left.name == output or f"the profile is in {left.name}".encode() in said
        left.unlink()


@linux
@pytest.mark.skipif(sys.version_info < (3, 10), reason="sys.orig_argv")
@pytest.mark.parametrize("call", ["os.execv(sys.executable, again)", "os.execve(sys.executable, again, os.environ)",
                                  "os.execve(sys.executable, again, env={b'STAGE': b'2'})"])  # fmt: skip
def test_a_program_that_starts_itself_again(tmp_path, call):
    (tmp_path / "x.py").write_text(
        "import os, sys\ndef first(): pass\ndef second(): pass\nagain = [sys.executable, *sys.orig_argv[1:]]\n"
        "pair = [sys.argv, sorted(k for k in os.environ if k[:3] in ('SPP', 'PYT'))]\n"
        f"if os.environ.get('STAGE') != '2':\n  os.environ['STAGE'] = '2'\n  print(pair, flush=True)\n  {call}\nprint(pair)\n"
    )
    env = {key: value for key, value in os.environ.items() if not key.startswith("PYT")}
    alone = run(["x.py", "a"], tmp_path, env=env)
    done = run([*SPPROF, "-o", "p.spprof", "x.py", "a"], tmp_path, env=env)
    assert (done.returncode, done.stdout) == (alone.returncode, alone.stdout)
    one, two = Profile.load(tmp_path / "p.spprof"), Profile.load(tmp_path / "p.2.spprof")
    assert one.header["pid"] == two.header["pid"] and (one.end["reason"], two.end["reason"]) == ("exec", "stop")
    assert "spprof report p.spprof p.2.spprof" in done.stderr


def test_an_exec_that_fails_leaves_the_environment(tmp_path):
    code = (
        "import ctypes, os\nbefore = dict(os.environ)\nlibc = ctypes.CDLL(None)\nlibc.getenv.restype = ctypes.c_char_p\n"
        "for call in (lambda: os.execv('/nowhere', ['x']), lambda: os.execve('/nowhere', ['x'], os.environ)):\n"
        "  try: call()\n  except FileNotFoundError: print('failed')\n"
        "print(os.environ == before, libc.getenv(b'SPPROF_RECORD'), libc.getenv(b'PYTHONPATH'))\n"
    )
    env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = run([*SPPROF, "-q", "-o", "p.spprof", "-c", code], tmp_path, env=env)
    assert done.stdout == "failed\nfailed\nTrue None None\n", done.stderr
    assert Profile.load(tmp_path / "p.spprof").end["reason"] == "stop"


@pytest.mark.parametrize("module", ["json", "signal", "gzip", "typing", "zlib", "threading", "struct", "argparse", "spprof"])
def test_modules_of_the_programs_own(tmp_path, module):
    """... of names that spprof itself imports."""
    (tmp_path / f"{module}.py").write_text("VALUE = 7\n")
    (tmp_path / "main.py").write_text(f"import {module}\nprint({module}.VALUE)\n")
    (tmp_path / "bin").mkdir()  # as `spprof` is installed: its own folder is first in its sys.path, not the program's
    (tmp_path / "bin" / "spprof").write_text("import sys\nfrom spprof.cli import main\nsys.exit(main())\n")
    alone = run(["main.py"], tmp_path)
    done = run(["bin/spprof", "run", "-q", "-o", "p.pb.gz", "main.py"], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (alone.returncode, alone.stdout, alone.stderr)
    Profile.load(tmp_path / "p.pb.gz")


def test_sitecustomize_of_the_programs_own(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import builtins, sys\nbuiltins.here = __file__, sys.modules[__name__].__name__\n")
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    code = "import sitecustomize, sys; print(here, sitecustomize.__file__, sys.path)"
    alone = run(["-c", code], tmp_path, env=env)
    assert run([*SPPROF, "-q", "-o", "p.spprof", "-c", code], tmp_path, env=env).stdout == alone.stdout


def test_nothing_changes_without_a_program(tmp_path):
    old = b"\x89SPPROF\n and more"
    for name, given in {"a.spprof": old, "b.html": b"<html><title>spprof</title>", "c.spprof": b""}.items():
        (tmp_path / name).write_bytes(given)
        for what, code in ((["no_such.py"], 2), (["-m", "no_such"], 1), (["-m", "json.no_such"], 1)):
            done = run([*SPPROF, "-o", name, *what], tmp_path)
            assert done.returncode == code and "no_such" in done.stderr
            assert (tmp_path / name).read_bytes() == given
    assert sorted(os.listdir(tmp_path)) == ["a.spprof", "b.html", "c.spprof"]


def test_what_is_no_profile_is_not_replaced(tmp_path):
    (tmp_path / "app.py").write_text("print(1)\n")
    (tmp_path / "p.spprof").write_text("a letter")
    for options in (["-o", "app.py", "-f", "html"], ["-o", "p.spprof"]):
        done = run([*SPPROF, *options, "-c", "print('ran')"], tmp_path)
        assert (done.returncode, done.stdout) == (2, "") and "--force" in done.stderr
    assert (tmp_path / "app.py").read_text() == "print(1)\n" and (tmp_path / "p.spprof").read_text() == "a letter"
    assert run([*SPPROF, "-q", "--force", "-o", "p.spprof", "-c", "pass"], tmp_path).returncode == 0
    first = Profile.load(tmp_path / "p.spprof").header["pid"]
    assert run([*SPPROF, "-q", "-o", "p.spprof", "-c", "pass"], tmp_path).returncode == 0
    assert Profile.load(tmp_path / "p.spprof").header["pid"] != first
    assert sorted(os.listdir(tmp_path)) == ["app.py", "p.spprof"]


OTHERS = {
    "app.speedscope.json": '{"name": "app"}', "app.gecko.json": '{"name": "app"}', "app.trace.json": "[1, 2]",
    "app.jsonl": '{"a": 1}\n', "app.html": "<html></html>", "app.svg": "an svg", "app.callgrind": "a call",
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_what_only_has_a_profiles_name_is_not_replaced_and_a_profile_is(tmp_path, name):
    (tmp_path / name).write_text(OTHERS[name])
    burn = "n = 0\nfor i in range(1_000_000): n += i"
    done = run([*SPPROF, "-o", name, "-c", burn], tmp_path)
    assert done.returncode == 2 and "--force" in done.stderr
    assert (tmp_path / name).read_text() == OTHERS[name]
    for options in (["--force"], []):
        assert run([*SPPROF, "-q", *options, "-o", name, "-c", burn], tmp_path).returncode == 0
    assert (tmp_path / name).read_text() != OTHERS[name]


def test_links_and_devices_stay(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link.spprof").symlink_to("real/p.spprof")
    assert run([*SPPROF, "-q", "-o", "link.spprof", "-c", "pass"], tmp_path).returncode == 0
    assert (tmp_path / "link.spprof").is_symlink() and Profile.load(tmp_path / "real" / "p.spprof").end is not None
    os.mkfifo(tmp_path / "fifo")
    reader = subprocess.Popen(["cat", "fifo"], cwd=tmp_path, stdout=subprocess.PIPE)
    assert run([*SPPROF, "-q", "-o", "fifo", "-c", "pass"], tmp_path).returncode == 0
    assert Profile(reader.communicate(timeout=60)[0]).end["reason"] == "stop"
    assert (tmp_path / "fifo").is_fifo()


def test_standard_output_as_a_file_is_written_to(tmp_path):
    """... behind what the program wrote: a pipe, a file that goes on, and the null device."""
    for format, words in (("spprof", []), ("collapsed", ["-f", "collapsed", "--rate", "1000"])):
        command = [sys.executable, *SPPROF, "-q", *words, "-o", "/dev/stdout", "-c", "print('said')"]
        done = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)
        with open(tmp_path / "out", "wb") as out:
            out.write(b"before\n")
            out.flush()
            whole = [*command[: command.index("-o")], *(["-f", format] if not words else []), *command[command.index("-o") :]]
            filed = subprocess.run(whole, cwd=tmp_path, stdout=out, stderr=subprocess.PIPE, timeout=120)
        assert (done.returncode, done.stderr, filed.returncode, filed.stderr) == (0, b"", 0, b"")
        file = (tmp_path / "out").read_bytes()
        assert done.stdout.startswith(b"said\n") and file.startswith(b"before\nsaid\n")
        if format == "spprof":
            assert all(Profile(text).end["reason"] == "stop" for text in (done.stdout[5:], file[12:]))
        assert os.listdir(tmp_path) == ["out"]
    done = run([*SPPROF, "-o", "/dev/null", "-c", "pass"], tmp_path)
    assert done.stderr.endswith("Written: /dev/null (spprof's own file, complete).\n")


def test_a_conversion_that_fails_leaves_the_profile(tmp_path):
    done = run([*SPPROF, "-o", "p.html", "--thread", "nobody", "-c", "pass"], tmp_path)
    assert done.returncode == 4 and not (tmp_path / "p.html").exists()
    (left,) = tmp_path.glob("p.html.*.spprof")
    assert f"the profile is in {left.name}" in done.stderr and Profile.load(left).end is not None


def test_a_working_folder_that_is_gone(tmp_path):
    (tmp_path / "d").mkdir()
    code = "import os, shutil; shutil.rmtree(os.getcwd())"
    done = run([*SPPROF, "-o", str(tmp_path / "p.spprof"), "-c", code], tmp_path / "d")
    assert done.returncode == 0 and "Written: " in done.stderr and "Error" not in done.stderr


def test_a_working_folder_that_was_gone_before(tmp_path):
    (tmp_path / "x.py").write_text("print('ran')\n")
    (tmp_path / "start.py").write_text(
        "import os, subprocess, sys\nos.mkdir('d')\nos.chdir('d')\nos.rmdir('../d')\nsys.exit(subprocess.call(sys.argv[1:]))\n"
    )
    whole, p = [str(tmp_path / "x.py")], str(tmp_path / "p.spprof")
    for more in ([], ["--subprocesses"]):
        done = run(["start.py", sys.executable, *SPPROF, "-q", *more, "-o", p, *whole], tmp_path)
        assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", ""), done.stderr
        assert Profile.load(p).end["reason"] == "stop"
    done = run(["start.py", sys.executable, *SPPROF, *whole], tmp_path)
    assert (done.returncode, done.stdout) == (2, "") and "the working folder is gone; give -o" in done.stderr


def test_the_program_may_use_spprof(tmp_path):
    code = (
        "import spprof, threading\nprint(spprof.is_active(), spprof.stats()['clock'] != '')\n"
        "try: spprof.start()\nexcept spprof.AlreadyActive: print('active')\n"
        "t = threading.Thread(target=spprof.flush, name='mine'); t.start(); t.join()\n"
        "profile = spprof.stop()\nprint(profile.header['begun'], sorted(t.name for t in profile.threads), spprof.is_active())\n"
        "spprof.start(); print(spprof.stop().header['begun'])\n"
    )
    done = run([*SPPROF, "-q", "-o", "p.spprof", "-c", code], tmp_path)
    assert done.stdout == "True True\nactive\nrun ['MainThread', 'mine'] False\nstart\n", done.stderr
    assert Profile.load(tmp_path / "p.spprof").end["reason"] == "stop"


def test_thread_names(tmp_path):
    """Each thread lives until a flush has looked for threads. The program has none of our modules until it starts them."""
    code = (
        "import threading, spprof\nclass Own(threading.Thread):\n  def run(self): spprof.flush()\n"
        "for t in (threading.Thread(target=spprof.flush, name='named'), Own(name='own')): t.start(); t.join()\n"
        "t = threading.Thread(target=spprof.flush, name='old'); t.name = 'new'; t.start(); t.join()\n"
    )
    assert run([*SPPROF, "-q", "-o", "p.spprof", "-c", code], tmp_path).returncode == 0
    found = {thread.name for thread in Profile.load(tmp_path / "p.spprof").threads}
    assert found == {"MainThread", "named", "own", "new"}


DAEMON = """
import os, sys, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of threads: on a machine that is full ours may not rest in time for a fork
ready, word = os.pipe()
if os.fork():
    os.read(ready, 1)  # by when there is only the daemon
    os._exit(0)
os.setsid()
first = os.getpid()
if os.fork():
    os._exit(0)
while os.getppid() == first:
    time.sleep(0.001)
os.chdir("/")
pair = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
os.write(pair, str(os.getpid()).encode())
os.close(pair)
os.write(word, b"1")
for fd in range(256):
    try: os.close(fd)
    except OSError: pass
while not os.path.exists(sys.argv[1] + ".stop"):
    time.sleep(0.01)
"""


@linux
@pytest.mark.parametrize("flag", [[], ["-I"]], ids=["open", "closed"])
@pytest.mark.parametrize("options", [["-q"], ["--subprocesses"], ["-q", "--subprocesses"]], ids=" ".join)
def test_a_program_that_goes_into_the_background(tmp_path, flag, options):
    (tmp_path / "x.py").write_text(DAEMON)
    (tmp_path / "spprof").write_text(START.format(os.path.dirname(os.path.dirname(spprof.__file__))))
    pid = tmp_path / "pid"
    try:
        done = run([*flag, "spprof", "run", *options, "-o", "p.spprof", "x.py", str(pid)], tmp_path)
        daemon = int(pid.read_text())
        assert os.path.exists(f"/proc/{daemon}"), "it goes on"
    finally:
        (tmp_path / "pid.stop").touch()
    grows = f"the profile grows in p.{daemon}.spprof" if "--subprocesses" in options else "only --subprocesses profiles that"
    said = f"spprof: the program went into the background: process {daemon} goes on, and {grows}\n"
    assert done.returncode == 0 and done.stderr.endswith(said)
    assert done.stderr == said or "-q" not in options
    assert Profile.load(tmp_path / "p.spprof").header["begun"] == "run"


# Closed interpreters: -I and -E do not look at PYTHONPATH, -S does not import `site`.
CLOSED = ["-I", "-E", "-S", "-IS", "-ES"]
START = "import sys; sys.path.insert(0, {!r}); sys.argv[:1] = ['spprof']; from spprof.cli import main; sys.exit(main())"


@pytest.fixture
def closed(tmp_path):
    """Runs words in a closed interpreter, alone and under `spprof run`."""
    folder = os.path.dirname(os.path.dirname(spprof.__file__))
    (tmp_path / "spprof").write_text(START.format(folder))
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "LD_"))}

    def both(flag, words, **more):
        return [run([flag, *ours, *words], tmp_path, env={**env, **more})
                for ours in ([], [str(tmp_path / "spprof"), "run", "-q", "-o", "p.spprof"])]  # fmt: skip

    return both


@linux
@pytest.mark.parametrize("flag", CLOSED)
@pytest.mark.parametrize("how", ["script", "-m", "-c"])
def test_a_hundred_facts_of_closed_interpreters(tmp_path, closed, flag, how):
    (tmp_path / "facts.py").write_text(Path(FACTS).read_text())
    target = {"script": ["facts.py"], "-m": ["-m", "facts"], "-c": ["-c", Path(FACTS).read_text()]}[how]
    if how == "-m" and "I" in flag:
        target = ["-m", "json.tool"]
    alone, recorded = closed(flag, [*target], PYTHONPATH="/nowhere", ONE="1")
    assert (recorded.returncode, recorded.stderr) == (alone.returncode, alone.stderr)
    if target != ["-m", "json.tool"]:
        pair = [json.loads(done.stdout) for done in (alone, recorded)]
        for facts, collectors in zip(pair, (0, 1)):
            assert facts["gc"].pop(2) == collectors
            facts["status"].pop("SigQ")
        assert {name: (pair[0][name], pair[1][name]) for name in pair[0] if pair[0][name] != pair[1][name]} == {}
    assert Profile.load(tmp_path / "p.spprof").header["begun"] == "run"


@linux
@pytest.mark.parametrize("flag", CLOSED)
def test_closed_interpreters(tmp_path, closed, flag):
    code = (
        "import sys\nprint(sorted(sys.modules))\nimport os, time\n"
        "print({k: v for k, v in os.environ.items() if k[:2] in ('LD', 'PY', 'SP')})\n"
        "def burn():\n  end = time.process_time() + 0.3\n  while time.process_time() < end: sum(range(999))\nburn()\n"
    )
    (tmp_path / "x.py").write_text(code)
    alone, recorded = closed(flag, ["x.py"])
    assert (recorded.returncode, recorded.stdout, recorded.stderr) == (0, alone.stdout, "")
    assert "burn" in names(tmp_path / "p.spprof")
    assert Profile.load(tmp_path / "p.spprof").end["reason"] == "stop"


@linux
@pytest.mark.skipif(sys.version_info < (3, 10), reason="sys.orig_argv")
def test_a_closed_program_that_starts_itself_again(tmp_path, closed):
    code = (
        "import os, sys\nprint(sys.argv, [k for k in os.environ if k[:2] in ('LD', 'PY', 'SP')], flush=True)\n"
        "if 'X' not in os.environ: os.environ['X'] = '1'; os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])\n"
    )
    (tmp_path / "x.py").write_text(code)
    alone, recorded = closed("-I", ["x.py"])
    assert (recorded.returncode, recorded.stdout, recorded.stderr) == (0, alone.stdout, "")
    one, two = Profile.load(tmp_path / "p.spprof"), Profile.load(tmp_path / "p.2.spprof")
    assert one.header["pid"] == two.header["pid"] and (one.end["reason"], two.end["reason"]) == ("exec", "stop")


@linux
@pytest.mark.parametrize("flag", CLOSED)
def test_closed_children(tmp_path, flag):
    child = (
        "import sys; m = sorted(sys.modules); import os; print(m, sys.path, sys.flags.isolated, 'LD_PRELOAD' in os.environ)\n"
        "def burn():\n  import time\n  end = time.process_time() + 0.3\n"
        "  while time.process_time() < end: sum(range(999))\nburn()\n"
    )
    code = f"import subprocess, sys\nprint(subprocess.run([sys.executable, {flag!r}, '-c', {child!r}]).returncode)\n"
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "LD_"))}
    alone = run(["-c", code], tmp_path, env=env)
    recorded = run([*SPPROF, "-q", "--subprocesses", "-o", "p.spprof", "-c", code], tmp_path, env=env)
    assert (recorded.returncode, recorded.stdout, recorded.stderr) == (0, alone.stdout, "")
    (found,) = tmp_path.glob("p.*.spprof")
    assert "burn" in names(found) and Profile.load(found).header["begun"] == "child"
