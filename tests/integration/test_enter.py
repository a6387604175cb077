"""A process that nobody prepared, before 3.14: its main thread is led to a pending call, and finds its way back."""

import os
import platform
import shutil
import signal
import subprocess
import sys
import time

import pytest
from attached import ATTACH, SUSPENDED, Program, go_on, names, status, suspended

from spprof import Profile
from spprof.errors import Unsupported
from spprof.launching import pending
from spprof.outside.proc import Maps

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64" or hasattr(sys, "remote_exec"),
    reason="3.14 lets others in by itself; elsewhere spprof does not enter",
)

VERSION = "{}.{}{}".format(*sys.version_info[:2], "t" if "t" in getattr(sys, "abiflags", "") else "")
# A thread that ends the main thread's wait when it is asked to, and never holds what that waits for.
WAITS = """
import ctypes, os, select, sys, threading, time
def hot(n): return sum([i * i for i in range(n)])
reading, writing = os.pipe()
event, lock = threading.Event(), threading.Lock()
lock.acquire()
def end():
    sys.stdin.readline()
    os.write(writing, b"answer")
    event.set()
    lock.release()
threading.Thread(target=end, daemon=True).start()
def epoll():
    poll = select.epoll()
    poll.register(reading)
    return poll.poll() == [(reading, select.EPOLLIN)]
def busy():
    while not event.is_set(): hot(500)
    return True
print(os.getpid(), flush=True)
def waits(): return WAIT
print(waits() is True, len(os.listdir("/proc/self/task")), flush=True)
"""
# Each with the system calls in which the main thread waits.
STATES = {
    "busy": ("busy()", ()),
    "epoll": ("epoll()", (232, 281, 441)),
    "select": ("select.select([reading], [], []) == ([reading], [], [])", (23, 270)),
    "select with a time": ("select.select([reading], [], [], 1e6) == ([reading], [], [])", (23, 270)),
    "event": ("event.wait()", (202,)),
    "event with a time": ("event.wait(1e6)", (202,)),
    "lock": ("lock.acquire()", (202,)),
    "pipe": ("os.read(reading, 100) == b'answer'", (0,)),
}


@pytest.fixture
def program(tmp_path):
    made = []

    def make(text, calls=()):
        made.append(Program(text, tmp_path))
        until_in(made[-1].pid, calls)
        return made[-1]

    yield make
    for one in made:
        one.process.kill()
        one.process.communicate()


def until_in(pid, calls):
    """Until the main thread waits in one of these system calls."""
    late = time.monotonic() + 60  # a limit that only a hang reaches
    while calls:
        with open(f"/proc/{pid}/syscall") as file:
            if file.read().split()[0] in map(str, calls):
                return
        assert time.monotonic() < late


def is_let_alone(pid):
    with open(f"/proc/{pid}/status") as file:
        status = dict(line.split(":\t", 1) for line in file)
    return status["TracerPid"] == "0\n" and status["State"][0] not in "tT"


@pytest.mark.parametrize("state", STATES)
def test_it_is_entered_and_goes_on_as_it_would(state, program, tmp_path):
    wait, calls = STATES[state]
    ran = program(WAITS.replace("WAIT", wait), calls)
    done = ran.attach("--duration", "0.2", "--mode", "wall", "-o", "first.spprof", "-q")
    assert done.returncode == 0, done.stderr
    before = ran.idle_state()
    for again in ("second.spprof", "third.spprof"):  # the third meets a wait that began while the second one recorded
        done = ran.attach("--duration", "0.3", "--mode", "wall", "-o", again, "-q")
        assert done.returncode == 0, done.stderr
        assert Profile.load(tmp_path / again).end["reason"] == "stop"
        assert "waits" in names(tmp_path / again)
    assert ran.idle_state() == before and is_let_alone(ran.pid)
    said = ran.process.communicate("end\n", timeout=60)
    assert said == (f"True {ran.threads}\n", "") or said == (f"True {ran.threads - 1}\n", "")
    assert ran.process.returncode == 0 and sorted(os.listdir(tmp_path)) == [
        "first.spprof", "program.py", "second.spprof", "third.spprof",
    ]  # fmt: skip


def test_one_that_sleeps_sleeps_on(program, tmp_path):
    calls = (23, 35, 230, 270)
    ran = program("import os, time\nprint(os.getpid(), flush=True)\ndef sleeps(): time.sleep(1e6)\nsleeps()\n", calls)
    done = ran.attach("--duration", "0.5", "--mode", "wall", "-o", "p.spprof", "-q")
    assert done.returncode == 0 and "sleeps" in names(tmp_path / "p.spprof"), done.stderr
    until_in(ran.pid, calls)
    assert ran.process.poll() is None and is_let_alone(ran.pid)


# C code that does not make a call again: each of these waits in one of its own, which the kernel ends for a stop.
ONCE = """
import ctypes, os, select, socket, struct, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
limited, other = socket.socketpair()
limited.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 1000000, 0))
poll, event = select.epoll(), ctypes.create_string_buffer(12)
reading, writing = os.pipe()
poll.register(reading, select.EPOLLIN)
semaphore, took = libc.semget(0, 1, 0o1600), ctypes.create_string_buffer(struct.pack("Hhh", 0, -1, 0))
gave = ctypes.create_string_buffer(struct.pack("Hhh", 0, 1, 0))
buffer, results = ctypes.create_string_buffer(1), {}
calls = {
    "recv": lambda: libc.recv(limited.fileno(), buffer, 1, 0),
    "epoll_wait": lambda: libc.epoll_wait(poll.fileno(), event, 1, -1),
    "semop": lambda: libc.semop(semaphore, took, 1),
}
def make(name):
    result = calls[name]()
    results[name] = (result, ctypes.get_errno() if result < 0 else 0)
threads = [threading.Thread(target=make, args=(name,)) for name in calls]
for thread in threads: thread.start()
def waits(thread):
    with open(f"/proc/self/task/{thread.native_id}/syscall") as file:
        return file.read().split()[0] in ("45", "65", "220", "232", "281")
while not all(map(waits, threads)): pass
print(os.getpid(), flush=True)
sys.stdin.readline()
other.send(b"x")
os.write(writing, b"x")
libc.semop(semaphore, gave, 1)
for thread in threads: thread.join()
libc.semctl(semaphore, 0, 0)
print(sorted(results.items()))
"""


def test_calls_of_other_threads_go_on(program, tmp_path):
    ran = program(ONCE)
    for _ in range(3):
        done = ran.attach("--duration", "0.1", "--mode", "wall", "-o", "p.spprof", "-q")
        assert done.returncode == 0, done.stderr
    said, _ = ran.process.communicate("end\n", timeout=60)
    assert said == "[('epoll_wait', (1, 0)), ('recv', (1, 0)), ('semop', (0, 0))]\n"


def test_registers_of_floating_point_are_as_they_were(program):
    """Rounding downwards is in the control words, which the way by a signal's frame sets to their usual values."""
    ran = program(
        "import ctypes, os, sys\nlibm = ctypes.CDLL('libm.so.6')\nassert libm.fesetround(0x400) == 0\n"
        "print(os.getpid(), flush=True)\nos.read(0, 1)\nprint(hex(libm.fegetround()), (2 / float('3')).hex())\n",
        (0,),
    )
    done = ran.attach("--duration", "0.1", "-o", "p.spprof", "-q")
    assert done.returncode == 0, done.stderr
    assert ran.process.communicate("\n", timeout=60) == ("0x400 0x1.5555555555555p-1\n", "")


LIBRARY = """
import ctypes, os, sys
def hot(n): return sum([i * i for i in range(n)])
class Poll(ctypes.Structure):
    _fields_ = (("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short))
one = Poll(0, 1, 0)
print(os.getpid(), flush=True)
while LIBRARY(None).poll(ctypes.byref(one), 1, -1) != 1: pass
print(sys.stdin.readline(), end="", flush=True)
while LIBRARY(None).poll(ctypes.byref(one), 1, 0) == 0: hot(500)
"""


# spprof whose temporary folders are in another one.
ELSEWHERE = """
import os, sys
from spprof.launching import given
folder = sys.argv.pop(1)
given.make = lambda root, number, uid: given._made(os.open(folder, os.O_RDONLY), folder, number)
from spprof.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("library", ["ctypes.CDLL", "ctypes.PyDLL"])
def test_one_that_cannot_be_entered_is_said_and_let_alone(library, program, tmp_path):
    """What was written is taken back: nothing runs when the main thread comes back, and the next attachment can."""
    ran = program(LIBRARY.replace("LIBRARY", library), (7,))
    (tmp_path / "way").mkdir()
    command = [sys.executable, "-c", ELSEWHERE, "way", "attach", str(ran.pid), "--duration", "1", "-o", "p.spprof"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2 and "nothing can be run" in done.stderr, done.stderr
    (tmp_path / "way").rmdir()  # it is empty
    assert "waits in poll, called by lib" in done.stderr and f"`spprof dump {ran.pid}`" in done.stderr
    assert os.listdir(tmp_path) == ["program.py"] and is_let_alone(ran.pid)
    ran.process.stdin.write("line\n")
    ran.process.stdin.flush()
    assert ran.process.stdout.readline() == "line\n"
    done = ran.attach("--duration", "0.3", "-o", "p.spprof", "-q")
    assert done.returncode == 0 and "hot" in names(tmp_path / "p.spprof"), done.stderr
    assert ran.process.communicate("", timeout=60) == ("", "") and ran.process.returncode == 0


# An attachment that kills itself at its Nth call that changes something of the process, or stops or releases it.
KILLED = """
import os, signal, sys
from spprof.launching import entering, stopped
count, pid = int(sys.argv[1]), int(sys.argv[2])
def counted(function):
    def call(*arguments):
        global count
        count -= 1
        if count < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments)
    return call
stopped.ptrace = counted(stopped.ptrace)
for name in ("write", "write_both"):
    setattr(stopped.Stopped, name, counted(getattr(stopped.Stopped, name)))
entered = entering.Entering(pid, {version!r}, "script.py")
while not entered.begun:
    entered.attempt()
"""


@pytest.mark.parametrize("wait", ["os.read(0, 1)", "lock.acquire(timeout=0.01)", "busy()"])
def test_an_attachment_that_is_killed_at_any_step_leaves_the_program_well(wait, program, tmp_path):
    (tmp_path / "attacher.py").write_text(KILLED.format(version=VERSION))
    (tmp_path / "script.py").write_text("import os\nos.write(1, b'in\\n')\n")
    ran = program(
        "import os, threading\nlock = threading.Lock()\nlock.acquire()\ndef busy(): return sum([i * i for i in range(5000)])\n"
        f"print(os.getpid(), flush=True)\nwhile {wait} or True: pass\n"
    )
    steps = 0
    while True:
        command = [sys.executable, "attacher.py", str(steps), str(ran.pid)]
        done = subprocess.run(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        assert ran.process.poll() is None
        late = time.monotonic() + 60  # the kernel lets it go after the death
        while not is_let_alone(ran.pid):
            assert time.monotonic() < late
        ran.process.stdin.write("\n")  # so that a call that was left waiting is run
        ran.process.stdin.flush()
        if done.returncode != -signal.SIGKILL:
            break
        steps += 1
    assert done.returncode == 0 and steps > 8, done.stderr
    done = ran.attach("--duration", "0.1", "-o", "p.spprof", "-q")
    assert done.returncode == 0, done.stderr
    ran.process.kill()
    said = ran.process.communicate()
    assert said[0].startswith("in\n") and said[1] == "", said


ENDS = """
import sys
from spprof.launching import entering
entered = entering.Entering(int(sys.argv[1]), {version!r}, "script.py")
while not entered.begun:
    entered.attempt()
print("begun", flush=True)
sys.stdin.readline()
print(entered.end(True), flush=True)
sys.stdin.readline()
"""


def test_a_thread_that_cannot_be_stopped_at_the_end_is_not_kept(program, tmp_path):
    """The attachment lives as long as the profile: it may have no thread that would stop then."""
    (tmp_path / "script.py").write_text("")
    ran = program(SUSPENDED, (0,))
    command = [sys.executable, "-c", ENDS.format(version=VERSION), str(ran.pid)]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as attacher:
        try:
            assert attacher.stdout.readline() == "begun\n"
            suspended(ran)
            attacher.stdin.write("\n")
            assert attacher.stdout.readline() == "False\n"
            assert {status(ran.pid, tid)["TracerPid"] for tid in os.listdir(f"/proc/{ran.pid}/task")} == {"0"}
        finally:
            go_on(ran)


def test_a_process_that_another_traces_is_said(program, tmp_path):
    ran = program("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(1e6)\n")
    tracer = subprocess.Popen(
        [sys.executable, "-c", "import ctypes, sys, time\n"
         f"assert ctypes.CDLL(None).ptrace(0x4206, {ran.pid}, None, None) == 0\nprint('traces', flush=True)\ntime.sleep(1e6)"],
        stdout=subprocess.PIPE,
    )  # fmt: skip
    try:
        tracer.stdout.readline()
        done = ran.attach("--duration", "1")
        assert done.returncode == 2 and f"process {tracer.pid} traces it" in done.stderr, done.stderr
    finally:
        tracer.kill()
        tracer.communicate()


def test_a_stopped_process_is_said_and_stays_stopped(program, tmp_path):
    ran = program("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(1e6)\n")
    os.kill(ran.pid, signal.SIGSTOP)
    late = time.monotonic() + 60
    state = ""
    while state != "T":
        with open(f"/proc/{ran.pid}/stat") as file:
            state = file.read().rpartition(") ")[2][0]
        assert time.monotonic() < late
    done = ran.attach("--duration", "1")
    assert done.returncode == 2 and f"kill -CONT {ran.pid}" in done.stderr, done.stderr
    with open(f"/proc/{ran.pid}/stat") as file:
        assert file.read().rpartition(") ")[2][0] == "T"


def test_a_process_in_its_finalization_is_let_alone(program, tmp_path):
    """It can import nothing any more, so what it was given fails."""
    ran = program(
        "import os, sys\nclass Last:\n  def __del__(self, os=os, print=print):\n    print(os.getpid(), flush=True)\n"
        "    while not os.path.exists('end'): sum(range(500))\n    print('end', flush=True)\nlast = Last()\n"
    )
    done = ran.attach("--duration", "0.1")
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    (tmp_path / "end").touch()
    assert ran.process.communicate(timeout=60) == ("end\n", "") and ran.process.returncode == 0


SERVER = """
import hashlib, os, socketserver, sys
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            self.wfile.write(hashlib.sha256(line * 200).hexdigest().encode() + b"\\n")
class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
server = Server(("127.0.0.1", 0), Handler)
print(os.getpid(), flush=True)
print(server.server_address[1], flush=True)
server.serve_forever()
"""
CLIENT = """
import hashlib, socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as way, way.makefile("rwb") as file:
    count = 0
    while True:
        line = b"%d\\n" % count
        file.write(line)
        file.flush()
        assert file.readline() == hashlib.sha256(line * 200).hexdigest().encode() + b"\\n"
        count += 1
        print(count, flush=True)
"""


@pytest.mark.stress
def test_a_loaded_server_answers_right_through_attachments_and_their_deaths(program, tmp_path):
    import random

    chance = random.Random(1)
    ran = program(SERVER)
    port = ran.process.stdout.readline().strip()
    clients = [
        subprocess.Popen([sys.executable, "-c", CLIENT, port], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    complete = 0
    try:
        for i in range(36):
            with subprocess.Popen(
                [*ATTACH, str(ran.pid), "--duration", "0.1", "-q", "-o", f"{i}.spprof"],
                cwd=tmp_path,
                stderr=subprocess.PIPE,
                text=True,
            ) as attached:
                if i % 2:
                    try:
                        attached.wait(chance.uniform(0.05, 1.5))
                    except subprocess.TimeoutExpired:
                        attached.kill()
                said = attached.stderr.read()
            late = time.monotonic() + 60
            while not is_let_alone(ran.pid):
                assert time.monotonic() < late
            # After one that was killed the profile that it began may be at its end still.
            assert attached.returncode in (0, -signal.SIGKILL) or "already being taken" in said, said
            complete += attached.returncode == 0
            assert ran.process.poll() is None and all(client.poll() is None for client in clients)
    finally:
        for client in clients:
            client.kill()
            assert client.communicate()[1] == b""
    assert complete >= 12
    late = time.monotonic() + 60
    while len(os.listdir(f"/proc/{ran.pid}/task")) > 1:
        assert time.monotonic() < late


def test_the_layout_is_proven_and_a_wrong_one_refused():
    layout = pending.layout_of(VERSION)
    pending.prove(layout)
    for field in ("first", "calls", "thread_id", "runtime_main_thread"):
        with pytest.raises(Unsupported, match="pending calls"):
            pending.prove(layout._replace(**{field: getattr(layout, field) + 8}))


def test_the_library_of_the_stable_interface_is_not_the_interpreter():
    maps = Maps(os.getpid())
    paths = ("/usr/lib/libpython3.so", "/usr/lib/libpython3.11.so.1.0")
    maps.mappings = [maps.mappings[0]._replace(path=path) for path in paths]
    assert maps.interpreter() == paths[1]


def test_an_interpreter_whose_file_is_gone_is_entered(tmp_path):
    """As after an upgrade: its functions are found in its memory."""
    library = Maps(os.getpid()).interpreter()
    if not os.path.basename(library).startswith("libpython"):
        pytest.skip("this Python has no library of its own that could be replaced")
    copy = shutil.copy(library, tmp_path)
    ran = Program(WAITS.replace("WAIT", "busy()"), tmp_path, {**os.environ, "LD_PRELOAD": copy})
    os.unlink(copy)
    try:
        assert Maps(ran.pid).interpreter() == f"{copy} (deleted)"
        done = ran.attach("--duration", "0.2", "-o", "p.spprof", "-q")
        assert done.returncode == 0, done.stderr
        assert "busy" in names(tmp_path / "p.spprof")
    finally:
        ran.process.kill()
        ran.process.communicate()
