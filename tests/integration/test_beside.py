"""`spprof run`: the program is the process that the caller started, and the supervisor one beside it, which nobody sees. What is
compared with is the same program alone."""

import array
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time

import pytest

from spprof import Profile

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no exec")
linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc, prctl")
SPPROF = ["-m", "spprof", "run"]
QUIET = [*SPPROF, "-q", "-o", "p.spprof"]
WAYS = pytest.mark.parametrize("way", [[], QUIET], ids=["alone", "run"])
FOREVER = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(9)\n"


def started(words, cwd, **more):
    more = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **more}
    return subprocess.Popen([sys.executable, *words], cwd=cwd, **more)


@WAYS
def test_its_identity(tmp_path, way):
    code = "import os\nprint(os.getpid(), os.getppid())\ntry: print(os.waitpid(-1, 0))\nexcept ChildProcessError: print('none')"
    with started([*way, "-c", code], tmp_path) as ran:
        out, err = ran.communicate(timeout=60)
    assert (out, err) == (f"{ran.pid} {os.getpid()}\nnone\n", "")


@pytest.mark.parametrize("call", ["setpgrp", "setsid"])
@pytest.mark.parametrize("leads", [False, True], ids=["led", "leader"])
def test_groups_and_sessions_of_its_own(tmp_path, call, leads):
    code = (
        f"import os\nme = os.getpid()\ntry: os.{call}()\nexcept OSError as e: print(e)\n"
        "print(os.getpgrp() == me, os.getsid(0) == me)"
    )
    said = []
    for way in ([], QUIET):
        with started([*way, "-c", code], tmp_path, start_new_session=leads) as ran:
            said.append((*ran.communicate(timeout=60), ran.returncode))
    assert said[0] == said[1]


SERVICE = """
import os, socket
def notify(word):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify: notify.sendto(word, os.environ["NOTIFY_SOCKET"])
notify(b"READY=1")
print(*(os.environ[name] == str(os.getpid()) for name in ("LISTEN_PID", "WATCHDOG_PID")), flush=True)
with socket.socket(fileno=3) as listening:
    connection, _ = listening.accept()
    connection.sendall(b"served by fd 3")
    connection.close()
notify(b"STOPPING=1")
"""


@linux
@WAYS
def test_a_service_whose_manager_opened_its_socket(tmp_path, way):
    """... knows its main process by number: LISTEN_PID, WATCHDOG_PID, and the sender of its notifications (NotifyAccess=main)."""
    (tmp_path / "service.py").write_text(SERVICE)
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(tmp_path / "n"))
        notify.settimeout(60)
        notify.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        manager = (
            "import os, sys\nos.dup2(0, 3)\nme = str(os.getpid())\n"
            "os.execve(sys.argv[1], sys.argv[1:], {**os.environ, 'LISTEN_FDS': '1', 'LISTEN_PID': me, 'WATCHDOG_PID': me})"
        )
        with started(["-c", manager, sys.executable, *way, "service.py"], tmp_path, stdin=listening,
                     env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / "n")}) as ran:  # fmt: skip
            with socket.create_connection(listening.getsockname(), 60) as client:
                assert client.recv(100) == b"served by fd 3"
            assert ran.communicate(timeout=60) == ("True True\n", "") and ran.returncode == 0
        for word in (b"READY=1", b"STOPPING=1"):
            data, ancillary, _, _ = notify.recvmsg(100, 100)
            assert (data, array.array("i", ancillary[0][2])[0]) == (word, ran.pid)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1])
def test_a_caller_that_ends_what_it_started(tmp_path, number):
    """... as subprocess.run(timeout=...) and timeout(1) do, has ended the program; the supervisor finishes by itself."""
    (tmp_path / "x.py").write_text(FOREVER)
    with started([*SPPROF, "-o", "p.collapsed", "x.py"], tmp_path, start_new_session=True) as ran:
        assert ran.stdout.readline() == "ready\n"
        os.killpg(ran.pid, number)
        assert ran.wait(60) == -number
        assert ran.stdout.read() == ""  # nobody has it any more
        assert "Written: p.collapsed" in ran.stderr.read()
    assert sorted(os.listdir(tmp_path)) == ["p.collapsed", "x.py"]


@linux
@WAYS
def test_a_program_that_is_to_die_with_its_parent(tmp_path, way):
    (tmp_path / "x.py").write_text(FOREVER)
    caller = (
        "import ctypes, signal, subprocess, sys\n"
        "ran = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, preexec_fn=lambda: ctypes.CDLL(None).prctl(1, 9))\n"
        "ran.stdout.readline()\nfile = __import__('os').dup(ran.stdout.fileno())\n"
        "__import__('socket').send_fds(__import__('socket').socket(fileno=0), [b'x'], [file])\n__import__('os')._exit(0)\n"
    )
    if sys.version_info < (3, 9) or not hasattr(socket, "recv_fds"):
        pytest.skip("no recv_fds")
    ours, its = socket.socketpair()
    with ours, its:
        subprocess.run([sys.executable, "-c", caller, sys.executable, *way, "x.py"], stdin=its, cwd=tmp_path, timeout=60)
        _, (end,), _, _ = socket.recv_fds(ours, 1, 1)
    with open(end, "rb") as program:
        assert program.read() == b""  # its end


# Nothing of Python's is left when the program waits; the caller finds all done. By what each ends:
ENDS = {
    "return": ("pass", 0),
    "an exception": ("1 / 0", 1),
    "sys.exit": ("import sys; sys.exit(3)", 3),
    "os._exit": ("import os; os._exit(4)", 4),
    "os._exit in a thread": ("import os, threading\nthreading.Thread(target=os._exit, args=(5,)).start()\nwhile True: pass", 5),
    "os._exit after its own stop": ("import os, spprof; spprof.stop(); os._exit(6)", 6),
    "exit() of C": ("import ctypes; ctypes.CDLL(None).exit(7)", 7),
    "Ctrl-C": ("import _signal; _signal.raise_signal(_signal.SIGINT)", -signal.SIGINT),
    "no collections": ("import gc; gc.disable(); gc.callbacks.clear()", 0),
    "exec of itself": ("import os, sys\nif len(sys.argv) == 1: os.execv(sys.executable, [sys.executable, 'x.py', 'again'])", 0),
}  # fmt: skip


@pytest.mark.parametrize("how", ENDS)
def test_all_is_done_when_the_caller_goes_on(tmp_path, how):
    code, status = ENDS[how]
    (tmp_path / "x.py").write_text(code)
    (tmp_path / "said").touch()
    with open(tmp_path / "said", "r+") as said:
        with started([*SPPROF, "-o", "p.collapsed", "x.py"], tmp_path, stdout=subprocess.DEVNULL, stderr=said) as ran:
            assert ran.wait(120) == status
        text = (tmp_path / "said").read_text()
    assert "Written: p.collapsed" in text, text
    assert "p.collapsed" in os.listdir(tmp_path) and not [name for name in os.listdir(tmp_path) if name.endswith(".spprof")]


def test_the_exit_code_of_a_profile_that_is_gone(tmp_path):
    for code, status in (("", 0), ("import sys; sys.exit(7)", 7), ("os._exit(0)", 0), ("os._exit(8)", 8)):
        with started([*QUIET, "-c", f"import os; os.unlink('p.spprof')\n{code}"], tmp_path) as ran:
            _, err = ran.communicate(timeout=60)
        glibc = "glibc" in os.confstr("CS_GNU_LIBC_VERSION") if sys.platform == "linux" else False
        assert ran.returncode == (4 if status == 0 and (glibc or "_exit" in code) else status)
        assert "p.spprof is not there" in err


CLOSES = "import os\nfor fd in range(3, 256):\n  try: os.close(fd)\n  except OSError: pass\n"


@linux
@pytest.mark.parametrize("code", ["import os; os.execvp('true', ['true'])", CLOSES, CLOSES + "held = os.open('x.py', 0)\n" * 40])
def test_a_program_that_cannot_wait(tmp_path, code):
    """... since another has its place, or it closed all that it found: what has our number then is left alone."""
    (tmp_path / "x.py").write_text(code)
    with started([*SPPROF, "-o", "p.collapsed", "x.py"], tmp_path) as ran:
        assert ran.wait(60) == 0
        assert "Written: p.collapsed" in ran.stderr.read()
    assert sorted(os.listdir(tmp_path)) == ["p.collapsed", "x.py"]


def test_children_that_go_on_keep_nobody(tmp_path):
    code = "import os\nif os.fork() == 0:\n  os.close(2)\n  os.read(0, 1)\n  os._exit(0)\n"
    reading, writing = os.pipe()
    try:
        with started([*QUIET, "-c", code], tmp_path, stdin=reading, stdout=subprocess.DEVNULL) as ran:
            assert ran.wait(60) == 0
            said = ran.stderr.read()
        assert "went into the background" in said or sys.platform != "linux"
        assert Profile.load(tmp_path / "p.spprof").end["reason"] == "stop"
    finally:
        os.close(writing)
        os.close(reading)


def supervisors(folder):
    """The processes that run our command in a folder, and are not the program: that is another command by now."""
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            with open(f"/proc/{int(name)}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            if b"spprof" in words and os.readlink(f"/proc/{name}/cwd") == str(folder):
                yield int(name)


@linux
def test_without_its_supervisor_the_program_goes_on(tmp_path):
    (tmp_path / "x.py").write_text("print('ready', flush=True)\ninput()\nprint('done', flush=True)\n")
    with started([*QUIET, "x.py"], tmp_path, stdin=subprocess.PIPE) as ran:
        assert ran.stdout.readline() == "ready\n"
        (one,) = supervisors(tmp_path)
        os.kill(one, signal.SIGKILL)
        while list(supervisors(tmp_path)):
            time.sleep(0.01)
        out, _ = ran.communicate("\n", timeout=60)
    assert (out, ran.returncode) == ("done\n", 0)
    assert Profile.load(tmp_path / "p.spprof").end["reason"] == "stop"


@linux
def test_nothing_that_is_the_programs_reaches_the_supervisor(tmp_path):
    (tmp_path / "x.py").write_text("print('ready', flush=True)\ninput()\n")
    with started([*QUIET, "x.py"], tmp_path, stdin=subprocess.PIPE, start_new_session=True) as ran:
        assert ran.stdout.readline() == "ready\n"
        (one,) = supervisors(tmp_path)
        assert os.getsid(one) not in (ran.pid, one) and os.getpgid(one) != ran.pid
        kept = {os.path.basename(os.readlink(f"/proc/{one}/fd/{fd}")) for fd in os.listdir(f"/proc/{one}/fd")}
        assert {name.split(":")[0] for name in kept} <= {"null", "pipe", "socket", "anon_inode", "[pidfd]"}, kept
        for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"):
            os.kill(one, getattr(signal, name))
        ran.communicate("\n", timeout=60)
    assert ran.returncode == 0 and Profile.load(tmp_path / "p.spprof").end["reason"] == "stop"


def test_late_signals_end_nothing(tmp_path):
    """... as of a timer that the program set: when it only waits it has ended."""
    os.mkfifo(tmp_path / "p.html")
    with started([*SPPROF, "-q", "-f", "html", "-o", "p.html", "-c", "pass"], tmp_path) as ran:
        with open(tmp_path / "p.html", "rb") as page:  # the supervisor has begun to write, and more than fits
            for name in ("SIGALRM", "SIGUSR1", "SIGPROF", "SIGPIPE", "SIGXCPU"):
                ran.send_signal(getattr(signal, name))
            assert len(page.read()) > 1 << 16
        assert ran.wait(60) == 0


@pytest.mark.parametrize("blocked", [(), (signal.SIGALRM, signal.SIGINT, signal.SIGTERM)], ids=["", "blocked"])
def test_an_end_of_the_waiting(tmp_path, blocked):
    """A program that only waits can be ended; then its supervisor says where the profile is, and goes."""
    os.mkfifo(tmp_path / "p.collapsed")  # without a reader: nobody can write there
    env = {**os.environ, "TMPDIR": str(tmp_path)}  # there it is until then
    code = (  # a handler that does nothing, which Python does not know of, and so does not take away at its end
        "import ctypes, signal\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\nlibc = ctypes.CDLL(None)\n"
        "libc.signal(signal.SIGINT, libc.getpid)\nsignal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])\n"
        "print('ready', flush=True)"
    )

    def begin():
        signal.pthread_sigmask(signal.SIG_BLOCK, blocked)

    with started([*SPPROF, "-o", "p.collapsed", "-c", code], tmp_path, env=env, preexec_fn=begin) as ran:
        assert ran.stdout.readline() == "ready\n"
        while ran.poll() is None:
            ran.send_signal(signal.SIGINT)
            time.sleep(0.01)
        assert ran.returncode == -signal.SIGINT
        _, said = ran.communicate(timeout=60)
    assert "spprof: interrupted: the profile is in" in said


def test_an_interruption_that_python_drops_comes_again(tmp_path):
    """In a finalizer or a callback of a weak reference nothing can be raised: Python prints a traceback, and goes on."""
    code = """
import os, signal, time
from spprof.launching import supervisor
own, other = supervisor.link()
os.write(other, b"e")
beside = supervisor.Beside(os.getpid(), own)
class Drops:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        wait("not dropped")
def wait(word):
    end = time.monotonic() + 30  # only a hang reaches that
    while time.monotonic() < end: pass
    print(word)
beside.wait()
try:
    Drops()
    wait("did not come")
except supervisor.Interrupted:
    print("came", flush=True)
os._exit(0)  # as the supervisor, whose timer goes on: Python's end gives back the handler first
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, "came\n", "")


@pytest.mark.parametrize("more", [[], ["--subprocesses"]], ids=["", "subprocesses"])
def test_a_program_that_is_a_run_itself(tmp_path, more):
    """Each has its own: the program that takes the inner one's place is not the outer one's."""
    inner = ["-m", "spprof", "run", "-q", "-o", "inner.spprof", "-c", "def job(): sum(range(10**6))\nfor _ in range(20): job()"]
    with started([*SPPROF, "-q", *more, "-o", "outer.spprof", *inner], tmp_path) as ran:
        ran.communicate(timeout=60)
    assert ran.returncode == 0
    names = [{frame.name for stack in Profile.load(tmp_path / name).aggregate() for frame in stack} & {"job"}
             for name in ("inner.spprof", "outer.spprof")]  # fmt: skip
    assert names == [{"job"}, set()]


def test_an_interpreter_that_is_not_there(tmp_path):
    start = "import sys; sys.executable = '/nowhere'\nfrom spprof.cli import main\nsys.exit(main())"
    (tmp_path / "spprof").write_text(start)
    with started(["spprof", "run", "-o", "p.spprof", "-c", "pass"], tmp_path) as ran:
        _, said = ran.communicate(timeout=60)
    assert (said, ran.returncode) == ("spprof: cannot open /nowhere: No such file or directory\n", 2)
    assert os.listdir(tmp_path) == ["spprof"]


@pytest.mark.parametrize("code, status", [("print(1)", 0), ("import os; os.kill(os.getpid(), 9)", -9)], ids=["ends", "killed"])
def test_a_system_that_does_not_say_when_a_process_ends(tmp_path, code, status):
    start = "import os, sys\nvars(os).pop('pidfd_open', None)\nfrom spprof.cli import main\nsys.exit(main())"
    (tmp_path / "spprof").write_text(start)
    with started(["spprof", "run", "-o", "p.spprof", "-c", code], tmp_path) as ran:
        assert ran.wait(60) == status
        assert "Written: p.spprof" in ran.stderr.read()
    assert Profile.load(tmp_path / "p.spprof").end["reason"] in (["SIGKILL", "killed"] if status else ["stop"])


@linux
@pytest.mark.parametrize("what", ["first", "reaper", "reaper of the caller's"])
def test_a_process_that_gets_orphans(tmp_path, what):
    """The first of a container, and a process that asked for them (PR_SET_CHILD_SUBREAPER): wait() does not see the
    supervisor."""
    code = "import os\nprint(os.getpid() == 1)\ntry: print(os.waitpid(-1, 0))\nexcept ChildProcessError: print('none')"
    run = [sys.executable, *SPPROF, "-q", "-o", "p.collapsed", "-c", code]
    asks = "import ctypes, os, subprocess, sys\nctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n"
    call = {
        "first": ["unshare", "--pid", "--fork", "--mount-proc", *run],
        "reaper": [sys.executable, "-c", asks + "os.execv(sys.executable, sys.argv[1:])", *run],
        "reaper of the caller's": [sys.executable, "-c", asks + "sys.exit(subprocess.call(sys.argv[1:]))", *run],
    }[what]
    done = subprocess.run(call, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    if what == "first" and "unshare" in done.stderr:
        pytest.skip(f"no process namespace here: {done.stderr.strip()[:100]}")
    assert (done.stdout, done.stderr, done.returncode) == (f"{what == 'first'}\nnone\n", "", 0)
    assert os.listdir(tmp_path) == ["p.collapsed"]


# A shell with jobs, on a terminal on which a background process that writes is stopped.
JOBS = """
import os, signal, subprocess, sys, termios
modes = termios.tcgetattr(0)
modes[3] |= termios.TOSTOP
termios.tcsetattr(0, termios.TCSANOW, modes)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
def front(pid): os.tcsetpgrp(0, pid)
def begin():
    os.setpgid(0, 0)
    front(os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
ran = subprocess.Popen(sys.argv[1:], preexec_fn=begin)
while True:
    _, status = os.waitpid(ran.pid, os.WUNTRACED)
    front(os.getpid())
    if not os.WIFSTOPPED(status): break
    print("stopped by", os.WSTOPSIG(status), flush=True)
    front(ran.pid)
    os.killpg(ran.pid, signal.SIGCONT)
print("prompt", os.waitstatus_to_exitcode(status), flush=True)
"""
JOB = """
import signal, sys, time
signal.signal(signal.SIGCONT, lambda *a: print("goes on", flush=True))
count = 0
def interrupt(*a):
    global count
    count += 1
signal.signal(signal.SIGINT, interrupt)
print("ready", flush=True)
while not count: time.sleep(0.01)
time.sleep(0.1)  # for one too many
sys.exit(10 + count)
"""


@linux
@pytest.mark.parametrize("way", [[], [*SPPROF, "-o", "p.spprof"]], ids=["alone", "run"])
def test_jobs_of_a_terminal(tmp_path, way):
    import pty

    (tmp_path / "x.py").write_text(JOB)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execv(sys.executable, [sys.executable, "-c", JOBS, sys.executable, *way, "x.py"])
    said = b""

    def until(word):
        nonlocal said
        while word not in said:
            said += os.read(terminal, 4096)

    until(b"ready")
    os.write(terminal, b"\x1a")
    until(b"goes on")
    os.write(terminal, b"\x03")
    until(b"prompt 11")
    os.waitpid(pid, 0)
    os.close(terminal)
    assert f"stopped by {signal.SIGTSTP}".encode() in said
    if way:
        assert said.index(b"Written: p.spprof") < said.index(b"prompt 11")


@linux
def test_a_terminal_that_hangs_up(tmp_path):
    """... ends the program, as alone, and not the supervisor."""
    import pty

    (tmp_path / "x.py").write_text(FOREVER)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execv(sys.executable, [sys.executable, *SPPROF, "-o", "p.collapsed", "x.py"])
    said = b""
    while b"ready" not in said:
        said += os.read(terminal, 4096)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    assert os.WTERMSIG(status) == signal.SIGHUP
    while list(supervisors(tmp_path)):
        time.sleep(0.01)
    assert sorted(os.listdir(tmp_path)) == ["p.collapsed", "x.py"]


@linux
@pytest.mark.parametrize("times", [20, pytest.param(400, marks=pytest.mark.stress)])
def test_a_kill_at_any_instant(tmp_path, times):
    """The process that is left finishes; what was begun is whole as far as it goes."""
    instants = random.Random(42)
    for n in range(times):
        folder = tmp_path / str(n)
        folder.mkdir()
        with started([*SPPROF, "-o", "p.collapsed", "-c", "sum(range(10**6))"], folder, start_new_session=True) as ran:
            with contextlib.suppress(subprocess.TimeoutExpired):
                ran.wait(instants.uniform(0, 0.4))
            with contextlib.suppress(ProcessLookupError):
                os.killpg(ran.pid, signal.SIGKILL)
            assert ran.wait(60) in (0, -signal.SIGKILL)
            said = ran.stderr.read()  # to its end: nobody is left
        assert "Traceback" not in said and list(supervisors(folder)) == []
        left = os.listdir(folder)
        recorded = [name for name in left if name != "p.collapsed"]
        assert len(recorded) <= 1, left
        if recorded and (folder / recorded[0]).stat().st_size:  # or it was only opened
            assert Profile.load(folder / recorded[0]).header["begun"] == "run"
            assert recorded[0] in said or len(left) == 2  # it goes when what is made of it is written
        elif "p.collapsed" in left:
            assert "Written: p.collapsed" in said or ran.returncode  # interrupted between the two
