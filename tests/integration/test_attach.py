"""`spprof attach`: a process that runs already, by its own socket or by Python's way into others, and what is left in it."""

import glob
import os
import platform
import signal
import socket
import subprocess
import sys
import time

import pytest
from attached import ATTACH, Program, names

from spprof import Profile, listening
from spprof.launching import entering
from spprof.listening import address

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="spprof attaches on Linux alone")
remote = pytest.mark.skipif(not hasattr(sys, "remote_exec"), reason="Python lets others in from 3.14 on")
enters = pytest.mark.skipif(
    not hasattr(sys, "remote_exec") and platform.machine() != "x86_64", reason="before 3.14 spprof enters on x86_64 alone"
)

COMPUTES = """
import os, sys, time
def hot(n): return sum([i * i for i in range(n)])
def ready():
    print(os.getpid(), flush=True)
"""
FOREVER = COMPUTES + "ready()\nwhile True: hot(500)\n"
LISTENS = "import spprof\nspprof.listen()\n"


@pytest.fixture
def program(tmp_path):
    made = []

    def make(text, **how):
        made.append(Program(text, tmp_path, **how))
        return made[-1]

    yield make
    for one in made:
        one.process.kill()
        one.process.communicate()


WAYS = [pytest.param(LISTENS + FOREVER, id="listens"), pytest.param(FOREVER, id="enters", marks=enters)]


@pytest.mark.parametrize("text", WAYS)
def test_it_is_profiled_and_left_as_it_was(text, program, tmp_path):
    ran = program(text)
    ran.attach("--duration", "0.2", "-q", "-o", "first.spprof")  # what stays for good is there then: its modules
    before = ran.idle_state()
    done = ran.attach("--duration", "0.5", "-o", "second.spprof")
    assert done.returncode == 0 and done.stdout == "", done.stderr
    assert (
        f"process {ran.pid} is being profiled" in done.stderr and "hot" in done.stderr and "Written: second.spprof" in done.stderr
    )
    profile = Profile.load(tmp_path / "second.spprof")
    assert profile.header["pid"] == ran.pid and profile.end["reason"] == "stop" and not profile.warning
    assert {"hot", "<module>"} <= names(tmp_path / "second.spprof")
    late = time.monotonic() + 60  # the thread that served it ends a moment after it has said so
    while ran.state() != before:
        assert time.monotonic() < late and ran.process.poll() is None, (ran.state(), before)
    assert sorted(os.listdir(tmp_path)) == ["first.spprof", "program.py", "second.spprof"]


def until_profiled(text):
    """The program, which goes on until a profile of it has begun and ended."""
    return (
        text.replace("while True: hot(500)", "core = None\n")
        + "while not (core and core.active()): core = sys.modules.get('spprof._core'); hot(500)\n"
        + "while core.active(): hot(500)\n"
    )


@pytest.mark.parametrize("text", WAYS)
def test_the_stacks_of_our_threads_are_large_enough_where_the_programs_are_small(text, program, tmp_path):
    """On so small a stack 3.15 refuses to compile what begins a profile, and says so on the program's stderr."""
    ran = program(
        "import threading\nfor size in range(32768, 1 << 20, 4096):\n"
        "    try: threading.stack_size(size); break\n"
        "    except ValueError: pass\n"  # a debug build asks for more
        + until_profiled(text)
        + "print(threading.stack_size() == size, flush=True)\n"
    )
    done = ran.attach("--duration", "0.2", "-q", "-o", "p.spprof")
    assert done.returncode == 0, done.stderr
    assert ran.process.communicate(timeout=120) == ("True\n", "")


@pytest.mark.parametrize("text", WAYS)
def test_the_switch_interval_stays_the_programs(text, program, tmp_path):
    """It is shorter while a profile begins. The program looks at it in the profile, and after the profile."""
    ran = program(
        "import sys\nsys.setswitchinterval(0.0321)\nusual = sys.getswitchinterval()\n"
        + until_profiled(text)
        + "print(sys.getswitchinterval() == usual, flush=True)\nwhile True: hot(500)\n"
    )
    done = ran.attach("--duration", "0.2", "-q", "-o", "p.spprof")
    assert done.returncode == 0, done.stderr
    assert ran.process.stdout.readline() == "True\n"


def test_the_program_may_change_the_switch_interval_meanwhile():
    usual = sys.getswitchinterval()
    try:
        with listening.ShortTurns():
            assert sys.getswitchinterval() < usual
            sys.setswitchinterval(0.0321)
        assert sys.getswitchinterval() == pytest.approx(0.0321, abs=2e-6)
        sys.setswitchinterval(0.00001)
        with listening.ShortTurns():
            assert sys.getswitchinterval() == pytest.approx(0.00001, abs=2e-6)
        assert sys.getswitchinterval() == pytest.approx(0.00001, abs=2e-6)
    finally:
        sys.setswitchinterval(usual)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
def test_a_child_forked_meanwhile_has_the_programs_switch_interval():
    code = (
        "import os, sys\nfrom spprof import listening\nlistening._hook()\nlistening.ShortTurns().__enter__()\n"
        "if not os.fork(): print(f'{sys.getswitchinterval():.4f}', flush=True); os._exit(0)\nos.wait()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "0.0050\n"


def test_a_process_that_finds_no_script_prints_nothing(tmp_path):
    """A child that was forked when the call had begun: nobody waits for it."""
    text = entering._TEXT % f"{tmp_path}/gone.py"
    done = subprocess.run(
        [sys.executable, "-c", text + "import _thread\nwhile _thread._count(): pass\nprint(_thread.stack_size())"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("0\n", "")


def test_an_answer_that_nobody_waits_for_leaves_no_socket_open(run_python):
    ran = run_python("-W", "always", "-c", """
from spprof.listening import answer
try: answer("gone")
except OSError: print("refused")
""")  # fmt: skip
    assert (ran.out, ran.err) == ("refused\n", "")


@pytest.mark.parametrize("text", WAYS)
def test_ctrl_c_ends_it_and_the_program_goes_on(text, program, tmp_path):
    ran = program(text)
    with subprocess.Popen([*ATTACH, str(ran.pid), "-o", "p.html"], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as attached:
        assert "Ctrl-C ends it" in attached.stderr.readline()
        attached.send_signal(signal.SIGINT)
        said = attached.stderr.read()
        assert attached.wait(60) == 0, said
    assert (tmp_path / "p.html").read_text().startswith("<!doctype html>") and ran.process.poll() is None
    assert sorted(os.listdir(tmp_path)) == ["p.html", "program.py"]


def test_ctrl_c_is_heard_before_the_answer(program, tmp_path):
    """Of a process that takes the request, and says so, but never answers."""
    ran = program(
        "import os, socket\nfrom spprof import listening\none = socket.socket(socket.AF_UNIX)\n"
        "path = listening.address(os.getpid(), os.geteuid())\nlistening._make_folder(os.path.dirname(path))\n"
        "one.bind(path)\none.listen()\nprint(os.getpid(), flush=True)\n"
        "other = one.accept()[0]\nother.recv(1)\nprint('asked', flush=True)\nos.unlink(path)\nwhile True: one.accept()\n"
    )
    code = "from spprof.launching import connecting\nconnecting.ANSWER_S = 1e6\nfrom spprof.cli import main\nmain()"
    command = [sys.executable, "-c", code, "attach", str(ran.pid)]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as attached:
        assert ran.process.stdout.readline() == "asked\n"
        attached.send_signal(signal.SIGINT)
        assert attached.communicate(timeout=120)[1] == "spprof: nothing was recorded\n"
    assert os.listdir(tmp_path) == ["program.py"]


def test_ctrl_c_ends_a_wait_that_it_does_not_interrupt(run_python):
    """As one that comes right before the call that waits: here another thread gets it."""
    ran = subprocess.run([sys.executable, "-c", """
import os, select, signal, threading
from spprof.launching.connecting import Interrupted
def interrupts():
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    waits = False
    while not waits:
        with open(f"/proc/self/task/{os.getpid()}/syscall") as file: waits = file.read().split()[0] in ("23", "270", "72")
    os.kill(os.getpid(), signal.SIGINT)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
with Interrupted() as interrupted:
    thread = threading.Thread(target=interrupts)
    thread.start()
    print(len(select.select([interrupted.fileno()], [], [], 60)[0]))
    thread.join()
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.set_wakeup_fd(-1))
"""], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)  # fmt: skip
    assert (ran.stdout, ran.stderr) == ("1\nTrue -1\n", "")


@pytest.mark.parametrize("text", WAYS)
def test_the_program_ends_meanwhile(text, program, tmp_path):
    ran = program(text)
    with subprocess.Popen([*ATTACH, str(ran.pid), "-o", "p.spprof"], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as attached:
        assert "is being profiled" in attached.stderr.readline()
        ran.process.kill()
        said = attached.stderr.read()
        assert attached.wait(60) == 0, said
    assert Profile.load(tmp_path / "p.spprof").end["reason"] == "killed"


SAYS = COMPUTES + """
import threading
def say():
    import spprof
    for line in sys.stdin: print(spprof.is_active(), flush=True)
threading.Thread(target=say, daemon=True).start()
ready()
while True: hot(500)
"""  # fmt: skip


@pytest.mark.parametrize("text", [pytest.param(LISTENS + SAYS, id="listens"), pytest.param(SAYS, id="enters", marks=enters)])
def test_an_attachment_that_is_killed_ends(text, program, tmp_path):
    ran = program(text)

    def is_active():
        ran.process.stdin.write("?\n")
        ran.process.stdin.flush()
        return ran.process.stdout.readline() == "True\n"

    with subprocess.Popen([*ATTACH, str(ran.pid), "-o", "p.spprof"], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as attached:
        assert "is being profiled" in attached.stderr.readline()
        assert is_active()
        second = ran.attach("-o", "q.spprof", "--duration", "1")
        assert second.returncode == 2 and not (tmp_path / "q.spprof").exists()
        assert "already being taken" in second.stderr, second.stderr
        attached.kill()
        attached.wait(60)
    late = time.monotonic() + 60  # a limit that only a hang reaches
    while is_active():
        assert time.monotonic() < late
    assert Profile.load(tmp_path / "p.spprof").end["reason"] == "stop"
    assert ran.attach("--duration", "0.1", "-q", "-o", "q.spprof").returncode == 0
    assert not glob.glob(f"/tmp/spprof-{ran.pid}-*"), "the folder of the one that was killed"


def test_a_program_that_listens_is_attached_to_while_its_main_thread_waits(program, tmp_path):
    ran = program(LISTENS + COMPUTES + """
import threading
def back():
    while True: hot(500)
threading.Thread(target=back, daemon=True).start()
ready()
lock = threading.Lock()
lock.acquire()
def blocked(): lock.acquire()
blocked()
""")  # fmt: skip
    done = ran.attach("--duration", "0.5", "--mode", "wall", "-o", "p.spprof", "-q")
    assert done.returncode == 0, done.stderr
    assert {"hot", "back", "blocked"} <= names(tmp_path / "p.spprof")


def test_a_forked_child_listens_for_itself(program, tmp_path):
    ran = program(LISTENS + COMPUTES + """
def child():
    while True: hot(500)
pid = os.fork()
if pid == 0:
    ready()
    child()
os.waitpid(pid, 0)
print("over", flush=True)
time.sleep(100)
""")  # fmt: skip
    try:
        done = ran.attach("--duration", "0.3", "-o", "p.spprof")
        assert done.returncode == 0, done.stderr
        assert {"hot", "child"} <= names(tmp_path / "p.spprof") and Profile.load(tmp_path / "p.spprof").header["pid"] == ran.pid
    finally:
        os.kill(ran.pid, signal.SIGKILL)
    assert ran.process.stdout.readline() == "over\n"


def test_a_socket_is_its_users_alone_and_goes_with_the_process(program):
    ran = program("import spprof, os\nprint(os.getpid(), flush=True)\nprint(spprof.listen(), flush=True)\n"
                  "assert spprof.listen() == spprof.listen()\ninput()\n")  # fmt: skip
    path = ran.process.stdout.readline().strip()
    assert os.stat(path).st_mode & 0o777 == 0o600 and os.stat(os.path.dirname(path)).st_mode & 0o777 == 0o700
    ran.process.communicate("\n")
    assert ran.process.returncode == 0 and not os.path.exists(path)


@enters
def test_a_socket_of_another_process_gets_nothing(program, tmp_path):
    ran = program(FOREVER)
    path = address(ran.pid, os.geteuid())
    os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
    if os.path.exists(path):  # of a process that had this id before, and was killed
        os.unlink(path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(path)
        other.listen(1)
        try:
            done = ran.attach("--duration", "1", "-o", "p.spprof", "-q")
        finally:
            os.unlink(path)
        connection, _ = other.accept()
        with connection:
            assert connection.recv(100) == b""
    assert done.returncode == 0 and "hot" in names(tmp_path / "p.spprof"), done.stderr


def test_greenlets_for_threads_do_not_stop_the_program(program, tmp_path):
    """gevent and eventlet put functions of their own in the place of those that start threads."""
    ran = program("import _thread\n_thread.start_new_thread = lambda *a, **k: a[0](*a[1])\n" + LISTENS + FOREVER)
    done = ran.attach("--duration", "0.3", "-o", "p.spprof", "-q")
    assert done.returncode == 0 and "hot" in names(tmp_path / "p.spprof"), done.stderr


def test_what_cannot_be_attached_to_is_said(program, tmp_path):
    program(FOREVER)
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True)
    other = subprocess.Popen(["sleep", "100"])
    try:
        said = {}
        for what, pid in (("gone", gone.stdout.strip()), ("no Python", str(other.pid)), ("word", "nosuchserver")):
            done = subprocess.run([*ATTACH, pid], cwd=tmp_path, capture_output=True, text=True, check=False)
            assert done.returncode == 2 and "Traceback" not in done.stderr
            said[what] = done.stderr
    finally:
        other.kill()
        other.wait()
    assert "there is no process" in said["gone"] and "runs no Python" in said["no Python"] and "spprof ps" in said["word"]
    assert os.listdir(tmp_path) == ["program.py"]


def test_a_thread_is_said_to_be_one(program, tmp_path):
    ran = program(
        "import os, threading, time\nthreading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()\n"
        "print(os.getpid(), flush=True)\ntime.sleep(1e6)\n"
    )
    (tid,) = set(map(int, os.listdir(f"/proc/{ran.pid}/task"))) - {ran.pid}
    done = subprocess.run([*ATTACH, str(tid)], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and f"{tid} is a thread of process {ran.pid}: spprof attach {ran.pid}" in done.stderr, done.stderr


@remote
def test_a_main_thread_that_waits_is_said_and_let_alone(program, tmp_path):
    """Given up, it does nothing when it runs again, and prints nothing."""
    ran = program(
        "import sys, os\nprint(os.getpid(), flush=True)\nsys.stdin.readline()\nfor i in range(10**6): pass\nprint('end')\n"
    )
    with subprocess.Popen([*ATTACH, str(ran.pid)], cwd=tmp_path, stderr=subprocess.PIPE, text=True) as attached:
        assert "waits in a call" in attached.stderr.readline()
        attached.send_signal(signal.SIGINT)
        assert "nothing was recorded" in attached.stderr.read()
    assert attached.returncode == 130
    said = ran.process.communicate("\n", timeout=60)
    assert said == ("end\n", "") and ran.process.returncode == 0
    assert os.listdir(tmp_path) == ["program.py"] and not glob.glob(f"/tmp/spprof-{ran.pid}-*")


@remote
def test_a_process_that_lets_nobody_in(program, tmp_path):
    ran = program(FOREVER, environment={**os.environ, "PYTHON_DISABLE_REMOTE_DEBUG": "1"})
    done = ran.attach("--duration", "1")
    assert done.returncode == 2 and "cannot be entered" in done.stderr and os.listdir(tmp_path) == ["program.py"], done.stderr
